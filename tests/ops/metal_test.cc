// The Metal kernels' text, run as C++ (metal_emulation.h), against the reference without kernels.

#include "ops/elementwise.h"
#include "ops/linear.h"
#include "ops/matrices.h"
#include "ops/metal_emulation.h"
#include "ops/open.h"
#include "ops/recurrence.h"

namespace anabranch::ops {
namespace {

// A device whose kernels are emulated, beside the reference device without kernels.
class Metal : public ::testing::Test {
 protected:
#if defined(__SANITIZE_THREAD__)
  void SetUp() override {
    GTEST_SKIP() << "ThreadSanitizer knows nothing of the emulation's stacks";
  }
#endif
  ReferenceDevice metal_{0, [this](const metal::Launch& launch) {
                           launches_++;
                           return metal::emulate(launch);
                         }};
  // The result of f, which must launch kernels.
  template <typename F>
  Tensor launching(F f) {
    const int before = launches_;
    Tensor result = f();
    EXPECT_GT(launches_, before);
    return result;
  }
  int launches_ = 0;
};

TEST_F(Metal, ProductsEqualTheReferenceAndDoNotDependOnRows) {
  Rng rng(1);
  for (const int bits : {2, 4, 8})
    for (const auto& [outputs, inputs, group] : {std::tuple(9, 64, 32), {16, 192, 64}, {33, 1152, 128}}) {
      const Matrix m =
          affine_matrix(outputs, inputs, bits, group, ScaleType::f32, false, static_cast<uint64_t>(bits));
      const Weight weight = Weight::make(metal_, m.source());
      const Tensor x = metal_.to_device(random_tensor({19, inputs}, rng));
      const Tensor all = launching([&] { return linear(x, weight); });
      const auto what = fmt::format("{} bits, {} x {} by {}", bits, outputs, inputs, group);
      const auto y = to_vector(all), rows = to_vector(x);
      for (int r = 0; r < 19; r++)
        for (int n = 0; n < outputs; n++) {
          double want = 0, size = 0;
          for (int k = 0; k < inputs; k++) {
            want += rows[r * inputs + k] * m.value(n, k);
            size += std::fabs(rows[r * inputs + k]) * m.magnitude(n, k);
          }
          // A sum of `inputs` terms in fp32, each rounded a few times.
          EXPECT_NEAR(y[r * outputs + n], want, (inputs + 4) * kUlp * size) << what << " " << r << " " << n;
        }
      for (const int count : {1, 2, 5, 16})
        expect_same_bits(launching([&] { return linear(x.slice_rows(2, 2 + count), weight); }),
                         all.slice_rows(2, 2 + count), fmt::format("{}, {} rows", what, count));
    }
}

TEST_F(Metal, OtherFormatsStayWithTheReference) {
  Rng rng(2);
  const Matrix m = affine_matrix(8, 64, 5, 32, ScaleType::f32, false, 2);
  const Tensor x = random_tensor({2, 64}, rng);
  const auto product = [&](Device& device) {
    return linear(device.to_device(x), Weight::make(device, m.source()));
  };
  expect_same_bits(product(metal_), product(reference_device()), "5 bits");
  EXPECT_EQ(launches_, 0);
}

struct Inputs {
  Tensor qkv, z, b, a;
  RecurrenceWeights weights;
};

Inputs delta_inputs(const RecurrenceShape& s, int tokens, Rng& rng) {
  const int hv = s.value_heads;
  return {random_tensor({tokens, s.conv_channels()}, rng),
          random_tensor({tokens, hv * s.value_dim}, rng),
          random_tensor({tokens, hv}, rng),
          random_tensor({tokens, hv}, rng),
          {random_tensor({s.conv_kernel, s.conv_channels()}, rng, 0.5f), random_tensor({hv}, rng),
           random_tensor({hv}, rng), random_tensor({s.value_dim}, rng)}};
}

// Prompts in pieces, drafts in one and several launches, some and none of them kept.
TEST_F(Metal, TheDeltaRuleEqualsTheReference) {
  Rng rng(3);
  for (const RecurrenceShape& s : {RecurrenceShape{2, 4, 32, 32, 4}, {1, 2, 128, 40, 4}, {2, 2, 8, 72, 3}}) {
    const Inputs in = delta_inputs(s, 40, rng);
    const auto play = [&](Device& device, RecurrenceState& state) {
      state = make_recurrence_state(device, s);
      const auto put = [&](const Tensor& x) { return device.to_device(x); };
      const RecurrenceWeights weights{put(in.weights.conv_weight), put(in.weights.a_log),
                                      put(in.weights.dt_bias), put(in.weights.norm_weight)};
      int at = 0;
      std::vector<Tensor> parts;
      const auto rows = [&](int count, bool draft) {
        const auto part = [&](const Tensor& x) { return put(x.slice_rows(at, at + count)); };
        const Tensor qkv = part(in.qkv), z = part(in.z), b = part(in.b), a = part(in.a);
        const RecurrenceSpan span{.state = &state, .count = count, .draft = draft};
        parts.push_back(recurrence_plain({qkv, z, b, a}, s, weights, std::span(&span, 1)));
        at += count;
      };
      const auto keep = [&](int count) { recurrence_commit(state, count); };
      rows(7, false);
      rows(1, false);
      rows(4, true);
      keep(2);
      rows(2, true);
      rows(3, true);
      keep(5);
      rows(3, true);
      keep(0);
      rows(5, true);
      keep(4);
      rows(6, false);
      return concat_rows(parts);
    };
    RecurrenceState ours_state, theirs_state;
    const Tensor theirs = play(reference_device(), theirs_state);
    const Tensor ours = launching([&] { return play(metal_, ours_state); });
    const auto what =
        fmt::format("{} x {} keys, {} x {} values", s.key_heads, s.key_dim, s.value_heads, s.value_dim);
    // As in gated_delta_test.cc: the output norm brings everything to size 1.
    expect_close(ours, theirs, 5e-4, what);
    expect_close(ours_state.s, theirs_state.s, 1e-5, what + " state");
    expect_close(ours_state.conv, theirs_state.conv, 0, what + " conv rows");
  }
}

TEST_F(Metal, IsRefusedWhereThereIsNone) {
  if (metal_unsupported().empty()) GTEST_SKIP() << "this machine has Metal";
  const auto opened = open_device({.name = "metal"});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().kind, ErrorKind::unsupported);
}

}  // namespace
}  // namespace anabranch::ops
