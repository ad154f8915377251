#include "ops/low_rank.h"

#include "ops/cpu/dispatch.h"
#include "ops/low_rank_cases.h"

namespace anabranch::ops {
namespace {

// The CPU with every instruction set and one or three threads, and the reference.
void on_every_device(void (*body)(Device&)) {
  for (const std::string& target : cpu::runnable_targets())
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(fmt::format("{}, {} threads", target, threads));
      body(cpu_device(threads, false, target));
    }
  SCOPED_TRACE("reference");
  body(reference_device());
}

TEST(LowRank, SumsOfEveryRank) {
  on_every_device([](Device& device) {
    constexpr int kRanks[] = {1, 2, 3, 4, 7, 8, 16, 64};
    expect_low_rank_of_shapes(device, kRanks);
  });
}

// So many products that threads share them.
TEST(LowRank, LargeRanksAndWidths) {
  on_every_device([](Device& device) {
    Rng rng(1);
    for (const auto& [rows, out, rank] : {std::tuple{1, 4096, 16}, {1, 130, 1024}, {9, 300, 64}}) {
      const Tensor y = random_tensor({rows, out}, rng);
      const LowRankRows part = low_rank_part(y, rank, 0, rows, 2.0f, rng);
      expect_low_rank(device, y, {&part, 1}, fmt::format("[{}, {}], rank {}", rows, out, rank));
    }
  });
}

TEST(LowRank, ManyParts) {
  on_every_device(expect_low_rank_of_many_parts);
}
TEST(LowRank, PartsInOrder) {
  on_every_device(expect_low_rank_in_order);
}
TEST(LowRank, ColumnsAndPieces) {
  on_every_device(expect_low_rank_of_columns_and_pieces);
}
TEST(LowRank, SeveralOutputs) {
  on_every_device(expect_low_rank_of_outputs);
}
TEST(LowRank, Products) {
  on_every_device(expect_low_rank_of_products);
}
TEST(LowRank, ProductsThatDoNotFit) {
  Device& device = cpu_device();
  Rng rng(3);
  ProductsWithParts products(device, 3, rng);
  products.add(16, WeightKind::f32, {low_rank_part(device.zeros({3, 16}, Dtype::f32), 4, 1, 2, 1.0f, rng)});
  products.add(17, WeightKind::f32, {});
  const LowRankProduct first = products.product(0), second = products.product(1);
  const Tensor residual = device.zeros({3, 16}, Dtype::f32);
  EXPECT_NO_THROW(linear_low_rank(products.x, {&first, 1}, &residual));
  const auto refuses = [&](const MatmulInput& x, const std::vector<LowRankProduct>& all, const Tensor* to) {
    EXPECT_THROW(linear_low_rank(x, all, to), std::invalid_argument);
  };
  refuses(products.x, {first, second}, &residual);
  refuses(products.x, {second}, &residual);
  refuses(products.x, std::vector(9, second), nullptr);
  refuses(device.zeros({2, ProductsWithParts::kInputs}, Dtype::f32), {first}, nullptr);
  refuses(device.zeros({3, 64}, Dtype::f32), {first}, nullptr);
  LowRankProduct wider = second;
  wider.parts = first.parts;
  refuses(products.x, {wider}, nullptr);
  EXPECT_THROW(linear_low_rank_swiglu(products.x, first, second, Activation::silu), std::invalid_argument);
}
TEST(LowRank, RowsStandAlone) {
  on_every_device(expect_low_rank_rows_stand_alone);
}

// Numbers that an addition of 0 would change, beside a part: a zero's sign, and what is no number.
TEST(LowRank, RowsOutsideAreNotAddedTo) {
  on_every_device([](Device& device) {
    Rng rng(2);
    Tensor y = random_tensor({3, 20}, rng);
    for (const int i : {0, 19, 40, 59}) y.data<float>()[i] = -0.0f;
    y.data<float>()[1] = NAN;
    y.data<float>()[41] = INFINITY;
    const LowRankRows part = low_rank_part(y, 4, 1, 1, 1.0f, rng);
    const auto got = to_vector(add_low_rank_on(device, y, {&part, 1})), before = to_vector(y);
    EXPECT_TRUE(bits_agree(got.data(), before.data(), 20));
    EXPECT_FALSE(bits_agree(&got[20], &before[20], 20));
    EXPECT_TRUE(bits_agree(&got[40], &before[40], 20));
  });
}

TEST(LowRank, EmptyResults) {
  on_every_device([](Device& device) {
    for (const auto& [rows, out] : {std::pair{0, 8}, {3, 0}}) {
      const Tensor y = to_tensor({}, {rows, out});
      Rng rng(3);
      const LowRankRows part = low_rank_part(y, 2, 0, rows, 1.0f, rng);
      EXPECT_EQ(add_low_rank_on(device, y, {&part, 1}).shape(), y.shape());
    }
  });
}

// The CPU changes y where it is, also as a part of a tensor.
TEST(LowRank, ChangesAViewInPlaceOnTheCpu) {
  Device& cpu = cpu_device();
  const Tensor all = cpu.zeros({3, 16}, Dtype::f32);
  const auto ones = [&](const Shape& shape) {
    return cpu.to_device(to_tensor(std::vector<float>(static_cast<size_t>(shape.count()), 1.0f), shape));
  };
  LowRankOutput output{all.slice_rows(1, 3), {{ones({1, 1, 4}), ones({16, 4}), 0.5f, 1, 1}}};
  add_low_rank({&output, 1});
  std::vector<float> want(48);
  for (size_t i = 32; i < 48; i++) want[i] = 2;
  EXPECT_EQ(to_vector(all), want);
}

TEST(LowRank, RefusesWhatDoesNotFit) {
  const auto zeros = [](const Shape& shape, Dtype dtype = Dtype::f32) {
    return cpu_device().zeros(shape, dtype);
  };
  const LowRankRows fits{zeros({3, 4, 6}), zeros({16, 4}), 1, 1, 4, 2};
  const auto try_part = [&](Tensor y, const auto& change) {
    LowRankOutput outputs[] = {{zeros({5, 3}), {}}, {std::move(y), {fits, fits}}};
    change(outputs[1].parts[1]);
    add_low_rank(outputs);
  };
  const auto refuses = [&](const auto& change) {
    EXPECT_THROW(try_part(zeros({5, 16}), change), std::invalid_argument);
  };
  const auto same = [](LowRankRows&) {};
  EXPECT_NO_THROW(try_part(zeros({5, 16}), same));
  EXPECT_NO_THROW(try_part(zeros({5, 16}), [&](LowRankRows& p) {
    p.begin = 5, p.count = 0, p.z = zeros({1, 0, 6});
  }));
  EXPECT_THROW(try_part(zeros({5, 15}), same), std::invalid_argument);
  EXPECT_THROW(try_part(zeros({4, 16}), same), std::invalid_argument);
  EXPECT_THROW(try_part(zeros({6, 16}), same), std::invalid_argument) << "another output has 5 rows";
  EXPECT_THROW(try_part(zeros({5, 4, 4}), same), std::invalid_argument);
  EXPECT_THROW(try_part(zeros({5, 16}, Dtype::f16), same), std::invalid_argument);
  refuses([&](LowRankRows& p) { p.z = zeros({3, 3, 6}); });
  refuses([&](LowRankRows& p) { p.z = zeros({0, 4, 6}); });
  refuses([&](LowRankRows& p) { p.z = zeros({3, 4, 5}); });
  refuses([&](LowRankRows& p) { p.z = zeros({12, 6}); });
  refuses([&](LowRankRows& p) { p.z = zeros({3, 4, 6}, Dtype::f16); });
  refuses([&](LowRankRows& p) { p.up = zeros({4, 16}); });
  refuses([&](LowRankRows& p) { p.up = zeros({16, 4}, Dtype::f16); });
  refuses([&](LowRankRows& p) { p.up = zeros({16, 0}); });
  refuses([&](LowRankRows& p) { p.first = 3; });
  refuses([&](LowRankRows& p) { p.first = -1; });
  refuses([&](LowRankRows& p) { p.first = 2147483647; });
  refuses([&](LowRankRows& p) { p.begin = 2; });
  refuses([&](LowRankRows& p) { p.begin = -1; });
  refuses([&](LowRankRows& p) { p.begin = 5, p.count = -1; });
  refuses([&](LowRankRows& p) { p.begin = p.count = 2147483647; });
  refuses([&](LowRankRows& p) { p.z = host_device().zeros({3, 4, 6}, Dtype::f32); });
  refuses([&](LowRankRows& p) { p.up = host_device().zeros({16, 4}, Dtype::f32); });
  std::vector<LowRankOutput> nine(9, {zeros({5, 3}), {}});
  EXPECT_THROW(add_low_rank(nine), std::invalid_argument);
  nine.pop_back();
  EXPECT_NO_THROW(add_low_rank(nine));
}

TEST(LowRank, DownProjections) {
  on_every_device(expect_low_rank_downs);
}

// On the CPU a row's bits are those of linear(), alone and among others.
TEST(LowRank, DownProjectionsAreProducts) {
  Device& cpu = cpu_device();
  Rng rng(5);
  const Tensor x = random_tensor({9, 96}, rng);
  const Weight down = Weight::make(cpu, dense_matrix(21, 96, WeightKind::f32, 1).source());
  const LowRankDown parts[] = {{&down, 2, 5}, {&down, 0, 9}};
  const auto z = low_rank_down(cpu.to_device(x), parts);
  const auto whole = to_vector(linear(cpu.to_device(x), down));
  EXPECT_TRUE(bits_agree(to_vector(z[1]), whole));
  EXPECT_TRUE(bits_agree(to_vector(z[0]).data(), &whole[2 * 21], 5 * 21));
}

TEST(LowRank, DownProjectionsRefuseWhatDoesNotFit) {
  const Tensor x = cpu_device().zeros({5, 96}, Dtype::f32);
  const Weight down = Weight::make(cpu_device(), dense_matrix(7, 96, WeightKind::f32, 1).source()),
               narrow = Weight::make(cpu_device(), dense_matrix(7, 95, WeightKind::f32, 1).source()),
               other = Weight::make(cpu_device(3), dense_matrix(7, 96, WeightKind::f32, 1).source());
  const auto run = [&](LowRankDown part) { low_rank_down(x, {&part, 1}); };
  EXPECT_NO_THROW(run({&down, 1, 4}));
  EXPECT_THROW(run({&down, 1, 5}), std::invalid_argument);
  EXPECT_THROW(run({&down, -1, 2}), std::invalid_argument);
  EXPECT_THROW(run({&down, 2, -1}), std::invalid_argument);
  EXPECT_THROW(run({&narrow, 1, 4}), std::invalid_argument);
  EXPECT_THROW(run({&other, 1, 4}), std::invalid_argument);
}

}  // namespace
}  // namespace anabranch::ops
