// The Metal kernels' text, run as C++ (metal_emulation.h), beside the reference without them.
#include <numeric>

#include "ops/elementwise.h"
#include "ops/gated_delta.h"
#include "ops/linear.h"
#include "ops/matrices.h"
#include "ops/metal_emulation.h"

namespace anabranch::ops {
namespace {

class Metal : public OpsTest {
 protected:
  void SetUp() override {
    metal::set_launcher([this](const metal::Launch& launch) {
      launches_++;
      return metal::emulate(launch);
    });
    set_backend(Backend::reference);
  }
  void TearDown() override {
    metal::use(false);
    metal::set_launcher(nullptr);
    OpsTest::TearDown();
  }
  // With the kernels; each call of f must launch some.
  template <typename F>
  auto on_metal(F f) {
    const int before = launches_;
    metal::use(true);
    auto result = f();
    metal::use(false);
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
      const Weight weight = Weight::make(m.source());
      const mx::array x = random_array({19, inputs}, rng);
      const mx::array all = on_metal([&] { return linear(x, weight); });
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
        expect_same_bits(on_metal([&] { return linear(slice_rows(x, 2, 2 + count), weight); }),
                         slice_rows(all, 2, 2 + count), fmt::format("{}, {} rows", what, count));
    }
}

TEST_F(Metal, OtherFormatsStayWithTheReference) {
  Rng rng(2);
  const Matrix m = affine_matrix(8, 64, 5, 32, ScaleType::f32, false, 2);
  const Weight weight = Weight::make(m.source());
  const mx::array x = random_array({2, 64}, rng);
  const mx::array want = linear(x, weight);
  metal::use(true);
  expect_same_bits(linear(x, weight), want, "5 bits");
  EXPECT_EQ(launches_, 0);
}

struct Inputs {
  mx::array qkv, z, b, a;
  GatedDeltaWeights weights;
};

Inputs delta_inputs(const GatedDeltaShape& s, int tokens, Rng& rng) {
  const int hv = s.value_heads;
  return {random_array({tokens, s.conv_channels()}, rng),
          random_array({tokens, hv * s.value_dim}, rng),
          random_array({tokens, hv}, rng),
          random_array({tokens, hv}, rng),
          {random_array({s.conv_kernel, s.conv_channels()}, rng, 0.5f), random_array({hv}, rng),
           random_array({hv}, rng), random_array({s.value_dim}, rng)}};
}

// Prompts in pieces, drafts on trial in one and several launches, some and none of them kept.
TEST_F(Metal, TheDeltaRuleEqualsTheReference) {
  Rng rng(3);
  for (const GatedDeltaShape& s : {GatedDeltaShape{2, 4, 32, 32, 4}, {1, 2, 128, 40, 4}, {2, 2, 8, 72, 3}}) {
    const Inputs in = delta_inputs(s, 40, rng);
    const auto play = [&](GatedDeltaState& state) {
      int at = 0;
      std::vector<mx::array> parts;
      const auto rows = [&](int count, bool trial) {
        const auto part = [&](const mx::array& x) { return slice_rows(x, at, at + count); };
        const auto qkv = part(in.qkv), z = part(in.z), b = part(in.b), a = part(in.a);
        parts.push_back(trial ? gated_delta_trial(qkv, z, b, a, s, in.weights, state)
                              : gated_delta(qkv, z, b, a, s, in.weights, state));
        at += count;
      };
      const auto keep = [&](int count) {
        std::vector<int> path(static_cast<size_t>(count));
        std::iota(path.begin(), path.end(), 0);
        gated_delta_commit(state, path);
      };
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
    auto ours_state = make_gated_delta_state(s), theirs_state = make_gated_delta_state(s);
    const mx::array theirs = play(theirs_state);
    const mx::array ours = on_metal([&] { return play(ours_state); });
    const auto what =
        fmt::format("{} x {} keys, {} x {} values", s.key_heads, s.key_dim, s.value_heads, s.value_dim);
    // As in gated_delta_test.cc: the output norm brings everything to size 1.
    expect_close(ours, theirs, 5e-4, what);
    expect_close(ours_state.s, theirs_state.s, 1e-5, what + " state");
    expect_close(ours_state.conv, theirs_state.conv, 0, what + " conv rows");
  }
}

TEST_F(Metal, IsRefusedWhereThereIsNone) {
  if (metal::obstacle().empty()) GTEST_SKIP() << "this machine has Metal";
  const auto chosen = choose_backend("metal", false, false);
  ASSERT_FALSE(chosen.ok());
  EXPECT_EQ(chosen.error().kind, ErrorKind::unsupported);
  EXPECT_FALSE(metal::in_use());
}

}  // namespace
}  // namespace anabranch::ops
