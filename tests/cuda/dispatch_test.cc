// What the CUDA ops launch on cards of several kinds, and that several devices in one process keep apart,
// with a driver and a compiler that do nothing: no card is needed. Launches that a driver would refuse (more
// shared memory than a block may have, no blocks, memory or kernels of another card) fail there.
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <thread>

#include "cuda/fake_card.h"
#include "ops/attention.h"
#include "ops/cuda/device.h"
#include "ops/cuda/kernels/args.h"
#include "ops/elementwise.h"
#include "ops/experts.h"
#include "ops/matrices.h"
#include "ops/recurrence.h"

namespace anabranch::ops {
namespace {

const FakeCard kH200{}, kA100{.capability = 80, .multiprocessors = 108, .shared_bytes = 166912},
    kA10{.capability = 86, .multiprocessors = 72, .shared_bytes = 101376},
    kRtx5090{.capability = 120, .multiprocessors = 170, .shared_bytes = 101376};

std::unique_ptr<Device> open(int index = 0) {
  auto device = cuda::open_cuda(index, 1);
  if (!device) throw std::runtime_error(device.error().message);
  return std::move(device).value();
}

// Every device is closed: nothing is left on the cards, and no call was wrong.
void expect_closed() {
  for (const FakeCard& card : fake_cards) EXPECT_TRUE(card.is_closed());
  EXPECT_EQ(fake_faults, std::vector<std::string>());
  fake_faults.clear();
}

// Calls work(device) with a device on such a card.
void on_card(const FakeCard& card, const std::function<void(Device&)>& work) {
  SCOPED_TRACE(fmt::format("on the card of compute capability {}", card.capability));
  fake_cards[0] = card;
  work(*open());
  expect_closed();
}

// The kernels that `work` launches, in order.
std::vector<FakeLaunch> launches_of(const std::function<void()>& work) {
  fake_cards[0].launches.clear();
  work();
  return fake_cards[0].launches;
}
std::vector<std::string> kernels_of(const std::function<void()>& work) {
  std::vector<std::string> names;
  for (const FakeLaunch& launch : launches_of(work)) names.push_back(launch.kernel);
  return names;
}

Tensor zeros(Device& device, const Shape& shape) {
  return device.zeros(shape, Dtype::f32);
}

std::vector<Matrix> matrices(int rows, int cols) {
  return {affine_matrix(rows, cols, 4, 64, ScaleType::bf16, false, 1),
          affine_matrix(rows, cols, 3, 32, ScaleType::f16, true, 2),
          affine_matrix(rows, cols, 6, 16, ScaleType::f32, true, 3),
          affine_matrix(rows, cols, 8, 64, ScaleType::f16, false, 4),
          coded_matrix(rows, cols, WeightKind::table, 32, ScaleType::f16, 7),
          coded_matrix(rows, cols, WeightKind::fp8, 64, ScaleType::f32, 8),
          dense_matrix(rows, cols, WeightKind::bf16, 5),
          dense_matrix(rows, cols, WeightKind::f16, 6)};
}

// Every kind of product of so many rows: the kernels of its matrices are `wanted`.
void expect_products(Device& device, std::initializer_list<int> rows,
                     const std::vector<std::string>& wanted) {
  for (const auto& [n, k] : {std::pair{48, 128}, {300, 1536}, {40, 8192}, {12304, 64}})
    for (const Matrix& matrix : matrices(n, k)) {
      const Weight weight = Weight::make(device, matrix.source());
      const RowNorm norm{zeros(device, {k}), 1e-6f};
      for (const int m : rows) {
        const Tensor x = zeros(device, {m, k}), residual = zeros(device, {m, n});
        const auto products = [&](const std::function<void()>& work) {
          auto names = kernels_of(work);
          std::erase_if(names, [](const std::string& name) { return name == "norm_rows"; });
          return names;
        };
        const auto what = fmt::format("{} x {}, {} bits, {} rows", n, k, matrix.bits, m);
        EXPECT_EQ(products([&] { linear(x, weight); }), wanted) << what;
        EXPECT_EQ(products([&] { linear_add(x, weight, residual); }), wanted) << what;
        EXPECT_EQ(products([&] { linear_swiglu(x, weight, weight, norm); }), wanted) << what << ", swiglu";
      }
    }
}

TEST(CudaDispatch, ProductsOnHopper) {
  on_card(kH200, [](Device& device) {
    expect_products(device, {1, 4, 5, 8, 9, 16}, {"gemv"});
    expect_products(device, {17, 24, 32, 33, 64, 200}, {"gemm"});
  });
}

// A norm of one row is part of the product; a mixture of few rows takes three launches.
TEST(CudaDispatch, NormsOfFewRows) {
  on_card(kH200, [](Device& device) {
    const int width = 128, inner = 64, count = 6;
    const auto weight = [&](int rows, int cols) {
      return Weight::make(device, affine_matrix(rows, cols, 4, 64, ScaleType::bf16, false, 1).source());
    };
    const Weight router = weight(count, width);
    const Weight* one = &router;
    const RowNorm norm{zeros(device, {width}), 1e-6f};
    const auto names = [&](int rows) {
      return kernels_of([&] { linear(zeros(device, {rows, width}), {&one, 1}, &norm); });
    };
    EXPECT_EQ(names(1), (std::vector<std::string>{"gemv"}));
    EXPECT_EQ(names(5), (std::vector<std::string>{"norm_rows", "gemv"}));
    const auto stack = [&](int rows, int cols) {
      return ExpertMatrices::make(
          device, affine_matrix(count * rows, cols, 4, 64, ScaleType::bf16, false, 1).source(), count);
    };
    const ExpertMatrices gate = stack(inner, width), up = stack(inner, width), down = stack(width, inner);
    const MixtureWeights w{&router, {.top_k = 2}, {&gate, &up, &down}};
    EXPECT_EQ(kernels_of([&] {
                mixture(zeros(device, {1, width}), &norm, w, true);
              }),
              (std::vector<std::string>{"gemv", "few_gate_up", "few_down"}));
  });
}

// There many rows go through the kernel for few, as many at a time as shared memory has room for.
TEST(CudaDispatch, ProductsBeforeHopper) {
  for (const auto& [card, most] : {std::pair{kA100, 32}, {kA10, 16}})
    on_card(card, [most = most](Device& device) {
      expect_products(device, {1, 8}, {"gemv"});
      const Matrix matrix = affine_matrix(48, 128, 4, 64, ScaleType::bf16, false, 1);
      const Weight weight = Weight::make(device, matrix.source());
      for (const int rows : {16, 17, 32, 33, 200}) {
        std::vector<std::string> wanted((rows + most - 1) / most, "gemv");
        wanted.insert(wanted.begin(), "norm_rows");
        EXPECT_EQ(kernels_of([&] { linear(zeros(device, {rows, 128}), weight); }), wanted) << rows << " rows";
      }
    });
}

// The host learns nothing of the routing: launches depend on the numbers of rows and experts alone.
TEST(CudaDispatch, MixturesOfExperts) {
  on_card(kH200, [](Device& device) {
    const int count = 6, width = 128, inner = 64, top_k = 2;
    const auto stack = [&](int rows, int cols, int bits) {
      return ExpertMatrices::make(
          device, affine_matrix(count * rows, cols, bits, 64, ScaleType::bf16, false, 1).source(), count);
    };
    const ExpertMatrices gate = stack(inner, width, 4), up = stack(inner, width, 4),
                         other_up = stack(inner, width, 8), down = stack(width, inner, 4);
    const RowNorm norm{zeros(device, {width}), 1e-6f};
    const auto launched = [&](int rows, const ExpertMatrices& second) {
      return launches_of([&, rows] {
        const Routing routing = route(zeros(device, {rows, count}), {.top_k = top_k});
        mix_experts(zeros(device, {rows, width}), &norm, routing, {&gate, &second, &down});
      });
    };
    const auto names = [](const std::vector<FakeLaunch>& launches) {
      std::vector<std::string> out;
      for (const auto& launch : launches) out.push_back(launch.kernel);
      return out;
    };
    using Names = std::vector<std::string>;
    EXPECT_EQ(names(launched(1, up)), (Names{"route", "norm_rows", "experts", "experts", "weighted_sum"}));
    EXPECT_EQ(names(launched(1, other_up)), (Names{"route", "norm_rows", "experts", "experts", "pairs",
                                                   "norm_rows", "experts", "weighted_sum"}));
    for (const auto& [rows, slots, row_tiles] :
         {std::tuple{2, 4, 1}, {5, 7, 1}, {24, 12, 1}, {48, 12, 2}, {600, 43, 4}}) {
      const auto launches = launched(rows, up);
      ASSERT_EQ(names(launches),
                (Names{"route", "norm_rows", "sort_pairs", "experts", "experts", "weighted_sum"}));
      EXPECT_EQ(launches[2].grid, static_cast<unsigned>(count));
      for (const auto& [at, rows_of_a_block] : {std::pair{3, row_tiles == 1 ? 16 : 32}, {4, 64}}) {
        const auto& products = launches[static_cast<size_t>(at)];
        EXPECT_EQ(products.grid, static_cast<unsigned>(slots * (at == 3 ? inner : width) / rows_of_a_block))
            << rows;
        EXPECT_EQ(products.variant<cuda::ExpertsVariant>().row_tiles, row_tiles) << rows;
      }
    }
  });
}

TEST(CudaDispatch, DeltaRuleOfManySequences) {
  on_card(kH200, [](Device& device) {
    const RecurrenceShape shape{2, 4, 128, 128, 4};
    const RecurrenceWeights weights{zeros(device, {4, shape.conv_channels()}), zeros(device, {4}),
                                    zeros(device, {4}), zeros(device, {128})};
    for (const auto& [sequences, tokens, launches, threads_of_makers] : {std::tuple{1, 1, 1, 0},
                                                                         {1, 100, 1, 384},
                                                                         {8, 1, 1, 0},
                                                                         {32, 8, 1, 0},
                                                                         {32, 9, 1, 384},
                                                                         {40, 1, 2, 0}}) {
      const int rows = sequences * tokens;
      std::vector<RecurrenceState> states;
      for (int i = 0; i < sequences; i++) states.push_back(make_recurrence_state(device, shape));
      std::vector<RecurrenceSpan> spans;
      for (int i = 0; i < sequences; i++)
        spans.push_back({&states[static_cast<size_t>(i)], i * tokens, tokens});
      const Tensor qkv = zeros(device, {rows, shape.conv_channels()}), z = zeros(device, {rows, 512}),
                   b = zeros(device, {rows, 4}), a = zeros(device, {rows, 4});
      const auto seen = launches_of([&] { recurrence({qkv, z, b, a}, shape, weights, spans); });
      const bool norm_apart = threads_of_makers > 0;
      ASSERT_EQ(static_cast<int>(seen.size()), launches + norm_apart) << sequences;
      EXPECT_EQ(seen.front().kernel, "delta");
      EXPECT_EQ(seen.front().variant<cuda::DeltaVariant>().makers, threads_of_makers)
          << sequences << " x " << tokens;
      EXPECT_EQ(seen.back().kernel, norm_apart ? "norm_heads" : "delta");
    }
  });
}

// Few query rows go 16 at a time, many to the kernel with wgmma; all sequences of a batch share the launches.
TEST(CudaDispatch, Attention) {
  const auto names = [](Device& device, const std::vector<std::pair<int, int>>& lengths_and_rows) {
    std::vector<PagedKv> caches(lengths_and_rows.size());
    std::vector<AttentionSpan> spans;
    std::vector<int> positions;
    for (size_t i = 0; i < caches.size(); i++) {
      const auto [length, rows] = lengths_and_rows[i];
      caches[i].kv_heads = 4, caches[i].head_dim = 256, caches[i].length = length;
      while (static_cast<int>(caches[i].k.size()) * kKvBlock < length) kv_add_block(device, caches[i]);
      spans.push_back({&caches[i], static_cast<int>(positions.size()), rows});
      for (int t = 0; t < rows; t++) positions.push_back(length + t);
    }
    const int rows = static_cast<int>(positions.size());
    const Tensor q = zeros(device, {rows, 16 * 256}), k = zeros(device, {rows, 4 * 256});
    const Rope rope{{1.0f}};
    return kernels_of([&] {
      attend({q, k, k, nullptr, nullptr, nullptr, positions, &rope, 16, {0.0625f}}, spans);
    });
  };
  using Names = std::vector<std::string>;
  for (const FakeCard& card : {kH200, kA100, kA10, kRtx5090})
    on_card(card, [&](Device& device) {
      const bool hopper = card.capability == 90;
      EXPECT_EQ(names(device, {{0, 1}}), (Names{"attend"}));
      EXPECT_EQ(names(device, {{9000, 1}}), (Names{"attend", "combine"}));
      EXPECT_EQ(names(device, {{9000, 2}}), (Names{"prepare", "attend", "combine"}));
      EXPECT_EQ(names(device, std::vector(300, std::pair{700, 1})), (Names{"attend"}));
      EXPECT_EQ(names(device, {{0, 2048}}), (Names{"prepare", hopper ? "attend_many" : "attend"}));
      const auto both = names(device, {{9000, 1}, {0, 1000}});
      if (hopper) {
        EXPECT_EQ(both, (Names{"prepare", "attend_many", "attend", "combine"}));
      } else {
        EXPECT_EQ(both.front(), "prepare");
      }
    });
}

// Weights and states of a small model on a device, and a step of it.
class SmallModel {
 public:
  explicit SmallModel(Device& device)
      : device_(device),
        weight_(Weight::make(device, matrix_.source())),
        norm_{zeros(device, {64}), 1e-6f},
        delta_weights_{zeros(device, {4, kDelta.conv_channels()}), zeros(device, {2}), zeros(device, {2}),
                       zeros(device, {32})},
        delta_(make_recurrence_state(device, kDelta)) {
    kv_.kv_heads = 1;
    kv_.head_dim = 32;
  }

  // Every tensor that it makes must be on the device.
  void step(int rows) {
    const Tensor x = here(embed(std::vector<int>(static_cast<size_t>(rows), 3), weight_));
    const Tensor y = here(linear_add(linear_swiglu(x, weight_, weight_, norm_), weight_, x));
    attend_to(y);
    const Tensor qkv = zeros(device_, {rows, kDelta.conv_channels()}), b = zeros(device_, {rows, 2});
    const RecurrenceState snapshot = delta_;
    const RecurrenceSpan span{&delta_, 0, rows, true};
    here(recurrence({qkv, y, b, b}, kDelta, delta_weights_, {&span, 1}).values);
    recurrence_commit(delta_, 1);
    here(delta_.s);
    EXPECT_EQ(best_of_rows(y).size(), static_cast<size_t>(rows));
    EXPECT_TRUE(to_host(add(y, y)).device().is_host());
    // Copies are the only work that the fake driver does.
    Rng rng(static_cast<unsigned>(rows));
    const Tensor random = random_tensor({rows, 64}, rng), copy = here(device_.to_device(random));
    const Tensor stacked = here(concat_rows({copy.slice_rows(0, 1), copy}));
    expect_same_bits(stacked.slice_rows(1, rows + 1), random, "stacked rows");
  }

 private:
  static constexpr RecurrenceShape kDelta{1, 2, 32, 32, 4};

  const Tensor& here(const Tensor& x) {
    const int index = static_cast<cuda::CudaDevice&>(device_).info().index;
    EXPECT_EQ(&x.device(), &device_);
    EXPECT_TRUE(fake_cards[index].owns(x.device_address()));
    return x;
  }

  void attend_to(const Tensor& q) {
    const int rows = q.shape(0);
    std::vector<int> positions, second_heads;
    for (int i = 0; i < rows; i++) {
      positions.push_back(kv_.length + i);
      second_heads.push_back(2 * i + 1);
    }
    const Tensor k = here(take_rows(q.reshape({rows * 2, 32}), second_heads));
    const PagedKv snapshot = kv_;  // its last block is copied before it changes
    const AttentionSpan span{&kv_, 0, rows};
    const Rope rope{{1.0f, 0.1f}};
    const AttentionInputs in{q, k, k, nullptr, nullptr, nullptr, positions, &rope, 2, {0.2f}};
    here(attend(in, {&span, 1}).values);
    here(kv_.k.back());
  }

  Device& device_;
  Matrix matrix_ = affine_matrix(64, 64, 4, 64, ScaleType::bf16, false, 1);
  Weight weight_;
  RowNorm norm_;
  RecurrenceWeights delta_weights_;
  RecurrenceState delta_;
  PagedKv kv_;
};

TEST(CudaDevices, TwoInOneProcess) {
  fake_cards[0] = kH200;
  fake_cards[1] = kA100;
  {
    const auto first = open(0), second = open(1);
    EXPECT_EQ(first->name(), "a fake card");
    EXPECT_EQ(second->name(), "another fake card");
    {
      SmallModel one(*first), two(*second);
      for (int rows = 1; rows <= 16; rows++) {
        one.step(rows);
        two.step(rows);
      }
      std::thread([&] {
        for (int i = 0; i < 3; i++) {
          two.step(2);
          one.step(2);
        }
      }).join();
      const auto launches = [](const FakeCard& card) {
        std::vector<std::string> names;
        for (const FakeLaunch& launch : card.launches) names.push_back(launch.kernel);
        return names;
      };
      EXPECT_GT(launches(fake_cards[0]).size(), 150u);
      EXPECT_EQ(launches(fake_cards[0]), launches(fake_cards[1]));
      EXPECT_GT(fake_cards[0].modules, 5);
      EXPECT_GT(fake_cards[1].modules, 5);
    }
    const Tensor x = zeros(*first, {3}), y = zeros(*second, {3});
    EXPECT_THROW(add(x, y), std::invalid_argument);
    EXPECT_EQ(&second->to_device(x).device(), second.get());  // by way of the host
  }
  expect_closed();
}

TEST(CudaDevices, OneClosesAndTheOtherStays) {
  fake_cards[0] = fake_cards[1] = kH200;
  {
    auto first = open(0);
    const auto second = open(1);
    SmallModel model(*second);
    SmallModel(*first).step(2);
    first.reset();
    EXPECT_TRUE(fake_cards[0].is_closed());
    model.step(2);
    first = open(0);  // with another context, which this thread must choose anew
    SmallModel(*first).step(2);
    model.step(2);
  }
  expect_closed();
}

TEST(CudaDevices, TwoOfOneCard) {
  fake_cards[0] = kH200;
  {
    auto first = open(0);
    const auto second = open(0);
    {
      SmallModel one(*first), two(*second);
      one.step(3);
      two.step(3);
    }
    first.reset();
    SmallModel(*second).step(1);
  }
  expect_closed();
}

TEST(CudaDevices, EachWithAThreadOfItsOwn) {
  fake_cards[0] = kH200;
  fake_cards[1] = kA10;
  {
    const std::unique_ptr<Device> devices[] = {open(0), open(1)};
    std::vector<std::thread> threads;
    for (const auto& device : devices)
      threads.emplace_back([&device] {
        SmallModel model(*device);
        for (int rows = 1; rows <= 10; rows++) model.step(rows);
      });
    for (auto& thread : threads) thread.join();
  }
  expect_closed();
}

TEST(CudaDevices, CardsThatCannotBeUsed) {
  EXPECT_EQ(cuda::unsupported(kFakeCards), "CUDA sees no device of index 8");
  const auto missing = cuda::open_cuda(kFakeCards, 1);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::unsupported);
  fake_cards[1] = FakeCard{.capability = 75};
  EXPECT_EQ(cuda::unsupported(1), "another fake card has compute capability 7.5; 8.0 or later is needed");
  fake_cards[1] = kH200;
  EXPECT_EQ(cuda::unsupported(1), "");
  expect_closed();
}

// The tests above can fail.
TEST(CudaDevices, TheFakeDriverNoticesMixedCards) {
  fake_cards[0] = fake_cards[1] = kH200;
  {
    const auto first = open(0), second = open(1);
    auto& here = static_cast<cuda::CudaDevice&>(*first);
    cuda::Context& other = static_cast<cuda::CudaDevice&>(*second).context();
    const Tensor x = zeros(*first, {4}), y = zeros(*second, {4});
    const auto address = [](const Tensor& t) { return reinterpret_cast<float*>(t.device_address()); };
    const auto expect_fault = [&](const auto& call) {
      const size_t before = fake_faults.size();
      try {
        call();
      } catch (const std::runtime_error&) {
      }
      EXPECT_EQ(fake_faults.size(), before + 1);
    };
    expect_fault([&] { other.copy_on_device(address(y), address(x), 16); });
    expect_fault([&] { other.copy_to_device(address(x), "0123456789abcdef", 16); });
    expect_fault([&] { other.copy_to_device(address(y), address(x), 16); });
    expect_fault([&] { other.clear(address(x), 16); });
    expect_fault([&] { other.release(address(x)); });
    cuda::KernelCache kernels(other);
    const cuda::Variant rows = cuda::Source::rows;
    const cuda::PairArgs mixed{address(x), address(x), address(y), 4, 4, 0},
        fine{address(x), address(x), address(x), 4, 4, 0};
    expect_fault([&] { here.launch(rows, "pairs", {1}, 256, 0, &mixed); });
    expect_fault([&] { here.context().launch(kernels.get(rows, "pairs"), {1}, 256, 0, &fine); });
    here.launch(rows, "pairs", {1}, 256, 0, &fine);
  }
  fake_faults.clear();
  expect_closed();
}

// Blocks that wait for each other's sums: not where another device's kernels might do so, too.
TEST(CudaDispatch, SegmentsAreSplitOnTheOnlyDeviceOfACard) {
  fake_cards[0] = fake_cards[1] = kH200;
  const auto most_split = [] {
    const auto device = open();
    const Matrix matrix = affine_matrix(512, 4096, 4, 64, ScaleType::bf16, false, 1);
    const Weight weight = Weight::make(*device, matrix.source());
    int most = 0;
    for (const FakeLaunch& launch : launches_of([&] { linear(zeros(*device, {64, 4096}), weight); }))
      if (launch.kernel == "gemm") most = std::max(most, launch.variant<cuda::GemmVariant>().split);
    return most;
  };
  EXPECT_GT(most_split(), 1);
  const auto of_another_card = open(1);
  EXPECT_GT(most_split(), 1);
  const auto other = open();
  EXPECT_EQ(most_split(), 1);
}

}  // namespace
}  // namespace anabranch::ops

int main(int count, char** words) {
  ::testing::InitGoogleTest(&count, words);
  // The fakes, which this program is linked with, are what is found; what they "compile" is kept apart.
  unsetenv("ANABRANCH_NVRTC");
  std::string directory = (std::filesystem::temp_directory_path() / "anabranch-dispatch-XXXXXX").string();
  if (!mkdtemp(directory.data())) return 1;
  setenv("XDG_CACHE_HOME", directory.c_str(), 1);
  const int failed = RUN_ALL_TESTS();
  std::filesystem::remove_all(directory);
  return failed;
}
