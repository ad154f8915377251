// The device of MLX's arrays: memory of its tensors, and views as operands.
#include <mlx/ops.h>

#include <vector>

#include "ops/attention.h"
#include "ops/elementwise.h"
#include "ops/probe.h"
#include "ops/recurrence.h"
#include "ops/reference/device.h"
#include "ops/testing.h"

namespace anabranch::ops {
namespace {

// The buffer of x is no larger than its elements need. MLX may give a buffer a little room.
void expect_own_memory(const Tensor& x, const std::string& what) {
  mx::array array = reference::as_mlx(x);
  array.eval();
  EXPECT_LT(array.buffer_size(), 2 * x.nbytes() + 4096) << what;
}

TEST(Reference, StatesOfALongPromptKeepTheirOwnSize) {
  constexpr int kTokens = 300;
  const RecurrenceShape s = {2, 4, 16, 16, 4};
  Rng rng(1);
  Device& device = reference_device();
  const auto on_device = [&](const Shape& shape) { return device.to_device(random_tensor(shape, rng)); };
  const RecurrenceWeights weights{on_device({4, s.conv_channels()}), on_device({4}), on_device({4}),
                                  on_device({16})};
  const Tensor qkv = on_device({kTokens, s.conv_channels()}), z = on_device({kTokens, 64}),
               b = on_device({kTokens, 4}), a = on_device({kTokens, 4});
  auto state = make_recurrence_state(device, s);
  RecurrenceState kept;
  const RecurrenceSpan spans[] = {{.state = &state, .begin = 0, .count = 200, .keep = &kept},
                                  {.state = &state, .begin = 200, .count = 95},
                                  {.state = &state, .begin = 295, .count = 5, .draft = true}};
  recurrence_plain({qkv, z, b, a}, s, weights, spans);
  const auto check = [&](const RecurrenceState& of, const std::string& what) {
    expect_own_memory(of.s, what + ": s");
    expect_own_memory(of.conv, what + ": conv");
    if (!of.window) return;
    for (const Tensor* x : {&of.window->k, &of.window->delta, &of.window->decay, &of.window->rows})
      expect_own_memory(*x, what + ": window");
  };
  check(kept, "kept");
  check(state, "after the prompt");
  recurrence_commit(state, 3);
  recurrence_fold(s, state);
  check(state, "settled");
}

// One head: the rows of a whole block need no transposition, only a copy.
TEST(Reference, KvBlocksOfALongPromptKeepTheirOwnSize) {
  Rng rng(2);
  Device& device = reference_device();
  for (const int heads : {1, 2}) {
    const Shape shape = {5 * kKvBlock + 20, heads, 16};
    PagedKv kv;
    kv.kv_heads = heads;
    kv.head_dim = 16;
    kv_append(kv, device.to_device(random_tensor(shape, rng)), device.to_device(random_tensor(shape, rng)));
    ASSERT_EQ(kv.k.size(), 6u);
    for (size_t block = 0; block < 6; block++) {
      expect_own_memory(kv.k[block], fmt::format("{} heads, keys of block {}", heads, block));
      expect_own_memory(kv.v[block], fmt::format("{} heads, values of block {}", heads, block));
    }
  }
}

TEST(Reference, CopiedRowsKeepTheirOwnSize) {
  Rng rng(3);
  const Tensor x = reference_device().to_device(random_tensor({1000, 30}, rng));
  expect_own_memory(copy_rows(x, 997, 1000), "copy");
}

// Arrays of MLX may be views with strides; tensors are row-major everywhere else.
TEST(Reference, StridedArraysAreTensors) {
  Rng rng(4);
  Device& device = reference_device();
  const Tensor host = random_tensor({3, 5}, rng);
  const Tensor x = reference::from_mlx(device, mx::transpose(reference::as_mlx(device.to_device(host))));
  EXPECT_EQ(x.shape(), (Shape{5, 3}));
  std::vector<float> want;
  for (int i = 0; i < 5; i++)
    for (int j = 0; j < 3; j++) want.push_back(host.data<float>()[j * 5 + i]);
  EXPECT_EQ(to_vector(x), want);
  EXPECT_EQ(to_vector(x.slice_rows(1, 3)), std::vector<float>(want.begin() + 3, want.begin() + 9));
  EXPECT_EQ(to_vector(x.reshape({15}).slice_rows(4, 6)),
            std::vector<float>(want.begin() + 4, want.begin() + 6));
  const Tensor sum = add(x.slice_rows(1, 3), x.slice_rows(1, 3));
  for (size_t i = 0; i < 6; i++) EXPECT_EQ(to_vector(sum)[i], 2 * want[i + 3]);
}

TEST(Reference, TensorsMoveBetweenDevices) {
  Device& device = reference_device();
  for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::i32, Dtype::u8}) {
    Tensor host = host_device().empty({2, 3}, dtype);
    for (size_t i = 0; i < host.nbytes(); i++) host.data<uint8_t>()[i] = static_cast<uint8_t>(i);
    const Tensor there = device.to_device(host);
    EXPECT_EQ(&there.device(), &device);
    EXPECT_EQ(there.dtype(), dtype);
    EXPECT_EQ(&device.to_device(there).storage(), &there.storage());
    host.data<uint8_t>()[0] = 99;  // a copy was made
    const Tensor back = to_host(there.slice_rows(0, 1));
    EXPECT_EQ(back.shape(), (Shape{1, 3}));
    for (size_t i = 0; i < back.nbytes(); i++) EXPECT_EQ(back.data<uint8_t>()[i], i);
    const Tensor zeros = to_host(device.zeros({1, 3}, dtype));
    for (size_t i = 0; i < zeros.nbytes(); i++) EXPECT_EQ(zeros.data<uint8_t>()[i], 0);
    EXPECT_TRUE(to_host(device.zeros({0, 3}, dtype)).empty());
  }
}

TEST(Reference, HasNoLimitsToMeasure) {
  const MachineLimits limits = measure_limits(reference_device());
  EXPECT_EQ(limits.memory_gb_s + limits.cache_gb_s + limits.int8_gop_s + limits.fp32_gflop_s, 0);
}

}  // namespace
}  // namespace anabranch::ops
