// What the CUDA ops launch on cards of several kinds, with a driver and a compiler that do nothing: no card
// is needed. Launches that a driver would refuse (more shared memory than a block may have, no blocks) fail
// there.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "cuda/fake_card.h"
#include "ops/cuda/array.h"
#include "ops/elementwise.h"
#include "ops/gated_delta.h"
#include "ops/matrices.h"

namespace anabranch::ops {
namespace {

const FakeCard kH200{}, kSlice{.multiprocessors = 16, .clusters = 0},
    kA100{.capability = 80, .multiprocessors = 108, .shared_bytes = 166912, .clusters = 0},
    kA10{.capability = 86, .multiprocessors = 72, .shared_bytes = 101376, .clusters = 0};

// A process has one card for good, so each has its own process.
void on_card(const FakeCard& card, const std::function<void()>& work) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    fake_card = card;
    try {
      const auto chosen = choose_backend("cuda", false, false);
      EXPECT_TRUE(chosen.ok()) << chosen.error().message;
      if (chosen) work();
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
    fflush(stdout);
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "on the card of compute capability " << card.capability;
}

// The kernels that `work` launches, in order.
std::vector<FakeLaunch> launches_of(const std::function<void()>& work) {
  fake_card.launches.clear();
  work();
  return fake_card.launches;
}
std::vector<std::string> kernels_of(const std::function<void()>& work) {
  std::vector<std::string> names;
  for (const FakeLaunch& launch : launches_of(work)) names.push_back(launch.kernel);
  return names;
}

mx::array zeros(mx::Shape shape) {
  mx::array x = empty(std::move(shape), mx::float32);
  std::fill_n(x.data<float>(), x.size(), 0.0f);
  return to_device(x);
}

std::vector<Matrix> matrices(int rows, int cols) {
  return {affine_matrix(rows, cols, 4, 64, ScaleType::bf16, false, 1),
          affine_matrix(rows, cols, 3, 32, ScaleType::f16, true, 2),
          affine_matrix(rows, cols, 6, 16, ScaleType::f32, true, 3),
          affine_matrix(rows, cols, 8, 64, ScaleType::f16, false, 4),
          dense_matrix(rows, cols, WeightKind::bf16, 5),
          dense_matrix(rows, cols, WeightKind::f16, 6)};
}

// Every kind of product of so many rows: the kernels of its matrices are `wanted`.
void expect_products(std::initializer_list<int> rows, const std::vector<std::string>& wanted) {
  for (const auto& [n, k] : {std::pair{48, 128}, {300, 1536}, {40, 8192}, {12304, 64}})
    for (const Matrix& matrix : matrices(n, k)) {
      const Weight weight = Weight::make(matrix.source());
      const RowNorm norm{zeros({k}), 1e-6f};
      for (const int m : rows) {
        const mx::array x = zeros({m, k}), residual = zeros({m, n});
        const auto products = [&](const std::function<void()>& work) {
          auto names = kernels_of(work);
          std::erase_if(names, [](const std::string& name) { return name == "norm_rows" || name == "sums"; });
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
  on_card(kH200, [] {
    expect_products({1, 4, 5, 8, 9, 16}, {"gemv"});
    expect_products({17, 24, 25, 32}, {"gemv_cluster"});
    expect_products({33, 64, 200}, {"gemm"});
  });
}

TEST(CudaDispatch, ProductsWithoutClusters) {
  on_card(kSlice, [] {
    expect_products({1, 16}, {"gemv"});
    expect_products({17, 32, 33}, {"gemm"});
  });
}

// Where shared memory has no room for 32 rows of so many inputs.
TEST(CudaDispatch, ManyInputs) {
  on_card(kH200, [] {
    const Matrix matrix = affine_matrix(48, 32832, 4, 64, ScaleType::bf16, false, 1);
    const Weight weight = Weight::make(matrix.source());
    const mx::array x = zeros({32, 32832});
    EXPECT_EQ(kernels_of([&] { linear(x, weight); }),
              (std::vector<std::string>{"norm_rows", "sums", "gemm"}));
  });
}

// No share of a cluster has more passes than it needs, and warps no more tiles than four.
TEST(CudaDispatch, SharesOfClusters) {
  on_card(kH200, [] {
    const mx::array x = zeros({32, 64});
    for (const auto& [tiles, of_a_warp] : {std::pair{15, 1},
                                           {15 * 16, 1},
                                           {15 * 16 + 1, 2},
                                           {15 * 64, 4},
                                           {15 * 64 + 1, 3},
                                           {15 * 96, 3},
                                           {15 * 128, 4}}) {
      const Matrix matrix = affine_matrix(16 * tiles, 64, 4, 64, ScaleType::bf16, false, 1);
      const Weight weight = Weight::make(matrix.source());
      const auto launches = launches_of([&] { linear(x, weight); });
      ASSERT_EQ(launches.back().kernel, "gemv_cluster");
      EXPECT_EQ(launches.back().grid, 8u * 15) << tiles;
      EXPECT_EQ(launches.back().macro("TILES"), of_a_warp) << tiles;
      EXPECT_EQ(launches.back().macro("NT"), 4);
    }
  });
}

// There many rows go through the kernel for few, as many at a time as shared memory has room for.
TEST(CudaDispatch, ProductsBeforeHopper) {
  for (const auto& [card, most] : {std::pair{kA100, 32}, {kA10, 16}})
    on_card(card, [most = most] {
      expect_products({1, 8}, {"gemv"});
      const Matrix matrix = affine_matrix(48, 128, 4, 64, ScaleType::bf16, false, 1);
      const Weight weight = Weight::make(matrix.source());
      for (const int rows : {16, 17, 32, 33, 200}) {
        std::vector<std::string> wanted((rows + most - 1) / most, "gemv");
        wanted.insert(wanted.begin(), "norm_rows");
        EXPECT_EQ(kernels_of([&] { linear(zeros({rows, 128}), weight); }), wanted) << rows << " rows";
      }
    });
}

TEST(CudaDispatch, DeltaRuleOfManySequences) {
  on_card(kH200, [] {
    const GatedDeltaShape shape{2, 4, 128, 128, 4};
    const GatedDeltaWeights weights{zeros({4, shape.conv_channels()}), zeros({4}), zeros({4}), zeros({128})};
    for (const auto& [sequences, tokens, launches, threads_of_makers] : {std::tuple{1, 1, 1, 288},
                                                                         {1, 100, 1, 288},
                                                                         {8, 1, 1, 0},
                                                                         {32, 4, 1, 0},
                                                                         {32, 5, 1, 288},
                                                                         {40, 1, 2, 0}}) {
      const int rows = sequences * tokens;
      std::vector<GatedDeltaState> states;
      for (int i = 0; i < sequences; i++) states.push_back(make_gated_delta_state(shape));
      std::vector<GatedDeltaSpan> spans;
      for (int i = 0; i < sequences; i++)
        spans.push_back({&states[static_cast<size_t>(i)], i * tokens, tokens});
      const mx::array qkv = zeros({rows, shape.conv_channels()}), z = zeros({rows, 512}),
                      b = zeros({rows, 4}), a = zeros({rows, 4});
      const auto seen = launches_of([&] { gated_delta_rows({qkv, z, b, a}, shape, weights, spans); });
      ASSERT_EQ(static_cast<int>(seen.size()), launches + 1) << sequences;
      EXPECT_EQ(seen.front().kernel, "delta");
      EXPECT_EQ(seen.front().macro("MAKERS"), threads_of_makers) << sequences << " x " << tokens;
      EXPECT_EQ(seen.back().kernel, "norm_heads");
    }
  });
}

}  // namespace
}  // namespace anabranch::ops

int main(int count, char** words) {
  testing::InitGoogleTest(&count, words);
  // The fakes, which this program is linked with, are what is found; what they "compile" is kept apart.
  unsetenv("ANABRANCH_NVRTC");
  std::string directory = (std::filesystem::temp_directory_path() / "anabranch-dispatch-XXXXXX").string();
  if (!mkdtemp(directory.data())) return 1;
  setenv("XDG_CACHE_HOME", directory.c_str(), 1);
  const int failed = RUN_ALL_TESTS();
  std::filesystem::remove_all(directory);
  return failed;
}
