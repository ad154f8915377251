// ops/low_rank.h on CUDA: its kernels, run by the emulator, and how often they are launched.
#include "cuda/emulated_card.h"
#include "nn/adapter_cases.h"
#include "ops/cuda/linear.h"
#include "ops/low_rank_cases.h"

namespace anabranch::ops {
namespace {

class EmulatedLowRank : public EmulatedDevice {
 protected:
  // What is launched from now on.
  static std::vector<FakeLaunch>& launches() { return fake_cards[0].launches; }
};

TEST_F(EmulatedLowRank, SumsOfEveryRank) {
  constexpr int kRanks[] = {1, 3, 8, 16, 1024};
  expect_low_rank_of_shapes(card(), kRanks);
}
TEST_F(EmulatedLowRank, ManyParts) {
  expect_low_rank_of_many_parts(card());
}
TEST_F(EmulatedLowRank, ColumnsAndPieces) {
  expect_low_rank_of_columns_and_pieces(card());
}
TEST_F(EmulatedLowRank, SeveralOutputs) {
  expect_low_rank_of_outputs(card());
}
TEST_F(EmulatedLowRank, Products) {
  expect_low_rank_of_products(card());
}
TEST_F(EmulatedLowRank, PartsInOrder) {
  expect_low_rank_in_order(card());
}
TEST_F(EmulatedLowRank, RowsStandAlone) {
  expect_low_rank_rows_stand_alone(card());
}
TEST_F(EmulatedLowRank, DownProjections) {
  expect_low_rank_downs(card());
}

TEST_F(EmulatedLowRank, RowsOfLayersStandAlone) {
  nn::expect_adapted_rows_stand_alone(card());
}

// What a layer's products with adapters launch, of one row and of several: all adapters share a launch, and
// the products' blocks add what follows from it.
TEST_F(EmulatedLowRank, LaunchesOfALayer) {
  nn::AdaptedLayers layers(card());
  const nn::Adapter *a = layers.make({4, 9, 2}), *b = layers.make({1, 0, 3});
  const nn::AdapterRows rows[] = {{a, 1, 0, 1}, {b, 1, 1, 2}, {a, 1, 1, 1}};
  const nn::Linear up{.weight = layers.weight(40, nn::AdaptedLayers::kIn), .origin = layers.layer(0).origin};
  const auto kernels = [&](const auto& run) {
    launches().clear();
    run();
    std::vector<std::string> names;
    for (const FakeLaunch& launch : launches()) names.push_back(launch.kernel);
    return names;
  };
  for (const int count : {1, 3}) {
    const Tensor x = layers.tensor({count, nn::AdaptedLayers::kIn}), residual = layers.tensor({count, 40});
    const auto adapters = std::span(rows).first(count == 1 ? 1 : 3);
    const std::vector<std::string> want = {"norm_rows", "low_rank_down", "gemv_low_rank"};
    EXPECT_EQ(kernels([&] { layers.run(x, adapters); }), want);
    EXPECT_EQ(kernels([&] { layers.run_glu(x, up, adapters); }), want);
    EXPECT_EQ(kernels([&] { layers.run_alone(x, residual, adapters); }), want);
  }
}

// 64 parts, shared among the outputs that have some; parts without rows take no place.
TEST_F(EmulatedLowRank, OneLaunchAddsManyParts) {
  Rng rng(1);
  const Tensor y = random_tensor({100, 130}, rng), other = random_tensor({100, 64}, rng);
  for (const auto& [parts, alone, beside] :
       {std::tuple{0, 0, 0}, {1, 1, 1}, {33, 1, 1}, {64, 1, 1}, {65, 2, 2}, {100, 2, 2}}) {
    std::vector<LowRankRows> rows;
    for (int i = 0; i < parts; i++) {
      rows.push_back(low_rank_part(y, 4, 5 + i % 60, 1, 1.0f, rng));
      rows.push_back(low_rank_part(y, 4, i, 0, 1.0f, rng));
    }
    LowRankOutput one[] = {low_rank_output(card(), y, rows)};
    LowRankOutput both[] = {one[0], low_rank_output(card(), other, {})};
    launches().clear();
    add_low_rank(one);
    EXPECT_EQ(launches().size(), static_cast<size_t>(alone)) << parts << " parts";
    launches().clear();
    add_low_rank(both);
    EXPECT_EQ(launches().size(), static_cast<size_t>(beside)) << parts << " parts beside an output";
    for (const FakeLaunch& launch : launches()) EXPECT_EQ(launch.kernel, "add_low_rank");
  }
}

// Blocks of 64 outputs and one row, of the rows from the launch's first to its last; of more than 64 rows,
// blocks take eight.
TEST_F(EmulatedLowRank, BlocksOfAdditions) {
  Rng rng(2);
  const Tensor y = random_tensor({100, 130}, rng);
  const auto blocks = [&](const std::vector<LowRankRows>& parts) {
    launches().clear();
    add_low_rank_on(card(), y, parts);
    return launches().size() == 1 ? launches()[0].grid : 0;
  };
  EXPECT_EQ(blocks({low_rank_part(y, 4, 9, 1, 1.0f, rng), low_rank_part(y, 4, 7, 1, 1.0f, rng)}), 3u * 3);
  EXPECT_EQ(blocks({low_rank_part(y, 4, 7, 65, 1.0f, rng), low_rank_part(y, 4, 10, 70, 1.0f, rng)}), 3u * 10);
}

// The down-projections of all parts are one launch for each format, in which only a part's own rows are
// multiplied: a block for 16 columns, 1024 inputs and 8 rows, of more rows 32 and all inputs.
TEST_F(EmulatedLowRank, OneLaunchOfDownProjections) {
  const auto weight = [&](int columns, WeightKind kind) {
    return Weight::make(card(), dense_matrix(columns, 2500, kind, 1).source());
  };
  const Weight a = weight(64, WeightKind::f32), b = weight(17, WeightKind::f32),
               c = weight(5, WeightKind::bf16);
  Rng rng(3);
  const MatmulInput x = pack(card().to_device(random_tensor({90, 2500}, rng)));
  const auto blocks = [&](const std::vector<LowRankDown>& parts) {
    launches().clear();
    low_rank_down(x, parts);
    std::vector<unsigned> grids;
    for (const FakeLaunch& launch : launches()) grids.push_back(launch.grid);
    return grids;
  };
  EXPECT_EQ(blocks({{&a, 0, 1}, {&b, 1, 8}, {&a, 9, 3}}), (std::vector{3u * (4 + 2 + 4)}));
  EXPECT_EQ(blocks({{&a, 0, 1}, {&b, 1, 9}}), (std::vector{3u * (4 + 2)}));
  EXPECT_EQ(blocks({{&a, 0, 1}, {&c, 1, 2}, {&b, 4, 1}}), (std::vector{3u * (4 + 2), 3u}));
  EXPECT_EQ(blocks({{&a, 0, 1}, {&b, 1, 33}}), (std::vector{4u + 2 * 2}));
  EXPECT_EQ(blocks(std::vector<LowRankDown>(65, {&b, 1, 1})), (std::vector{64u * 6, 6u}));
  EXPECT_EQ(blocks({{&a, 3, 0}}), std::vector<unsigned>());
}

}  // namespace
}  // namespace anabranch::ops
