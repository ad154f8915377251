// ops/low_rank.h on CUDA: its kernel, run by the emulator, and how often it is launched.
#include "cuda/emulated_card.h"
#include "ops/low_rank_cases.h"

namespace anabranch::ops {
namespace {

using EmulatedLowRank = EmulatedDevice;

TEST_F(EmulatedLowRank, SumsOfEveryRank) {
  constexpr int kRanks[] = {1, 3, 8, 16, 1024};
  expect_low_rank_of_shapes(card(), kRanks);
}
TEST_F(EmulatedLowRank, ManyParts) {
  expect_low_rank_of_many_parts(card());
}
TEST_F(EmulatedLowRank, PartsInOrder) {
  expect_low_rank_in_order(card());
}
TEST_F(EmulatedLowRank, RowsStandAlone) {
  expect_low_rank_rows_stand_alone(card());
}

TEST_F(EmulatedLowRank, OneLaunchTakesEightParts) {
  Rng rng(1);
  const Tensor y = random_tensor({100, 130}, rng);
  for (const auto& [parts, launches] : {std::pair{0, 0}, {1, 1}, {8, 1}, {9, 2}, {17, 3}}) {
    std::vector<LowRankRows> rows;
    for (int i = 0; i < parts; i++) {
      rows.push_back(low_rank_part(y, 4, 5 + i, 1, 1.0f, rng));
      rows.push_back(low_rank_part(y, 4, i, 0, 1.0f, rng));  // takes no place
    }
    fake_cards[0].launches.clear();
    add_low_rank_on(card(), y, rows);
    const auto& seen = fake_cards[0].launches;
    ASSERT_EQ(seen.size(), static_cast<size_t>(launches)) << parts << " parts";
    for (const FakeLaunch& launch : seen) EXPECT_EQ(launch.kernel, "add_low_rank");
    // Blocks of 64 outputs and one row, of the rows from the launch's first to its last.
    if (launches > 0) {
      EXPECT_EQ(seen.front().grid, 3u * static_cast<unsigned>(std::min(parts, 8)));
      EXPECT_EQ(seen.back().grid, 3u * static_cast<unsigned>((parts - 1) % 8 + 1));
    }
  }
  // Of more than 64 rows, blocks take eight.
  fake_cards[0].launches.clear();
  const LowRankRows both[] = {low_rank_part(y, 4, 7, 65, 1.0f, rng), low_rank_part(y, 4, 10, 70, 1.0f, rng)};
  add_low_rank_on(card(), y, both);
  ASSERT_EQ(fake_cards[0].launches.size(), 1u);
  EXPECT_EQ(fake_cards[0].launches[0].grid, 3u * 10);
}

}  // namespace
}  // namespace anabranch::ops
