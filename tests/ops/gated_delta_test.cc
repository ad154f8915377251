#include "ops/gated_delta.h"

#include <algorithm>

#include "ops/elementwise.h"
#include "ops/testing.h"

namespace anabranch::ops {
namespace {

class GatedDelta : public OpsTest {};

const GatedDeltaShape kShapes[] = {
    {2, 4, 32, 32, 4}, {3, 3, 128, 128, 4}, {2, 6, 24, 40, 3}, {1, 2, 7, 5, 2}};

std::string name(const GatedDeltaShape& s) {
  return fmt::format("{} key heads of {}, {} value heads of {}", s.key_heads, s.key_dim, s.value_heads,
                     s.value_dim);
}

struct Inputs {
  mx::array qkv, z, b, a;
  GatedDeltaWeights weights;
};

Inputs make_inputs(const GatedDeltaShape& s, int tokens, Rng& rng) {
  const int c = s.conv_channels(), hv = s.value_heads;
  GatedDeltaWeights w{random_array({s.conv_kernel, c}, rng, 0.5f), random_array({hv}, rng),
                      random_array({hv}, rng), random_array({s.value_dim}, rng)};
  return {random_array({tokens, c}, rng), random_array({tokens, hv * s.value_dim}, rng),
          random_array({tokens, hv}, rng), random_array({tokens, hv}, rng), w};
}

mx::array step(const GatedDeltaShape& s, const Inputs& in, int begin, int end, GatedDeltaState& state) {
  return gated_delta(slice_rows(in.qkv, begin, end), slice_rows(in.z, begin, end),
                     slice_rows(in.b, begin, end), slice_rows(in.a, begin, end), s, in.weights, state);
}

mx::array run(const GatedDeltaShape& s, const Inputs& in, const std::vector<int>& chunks,
              GatedDeltaState& state) {
  std::vector<mx::array> parts;
  const int tokens = in.qkv.shape(0);
  size_t i = 0;
  for (int t = 0; t < tokens;) {
    const int end = std::min(tokens, t + chunks[std::min(i++, chunks.size() - 1)]);
    parts.push_back(step(s, in, t, end, state));
    t = end;
  }
  return concat_rows(parts);
}

TEST_F(GatedDelta, EqualsReference) {
  Rng rng(1);
  for (const auto& s : kShapes) {
    const Inputs in = make_inputs(s, 40, rng);
    auto ours_state = make_gated_delta_state(s), theirs_state = make_gated_delta_state(s);
    const mx::array ours = run(s, in, {25, 15}, ours_state);
    set_backend(Backend::reference);
    const mx::array theirs = run(s, in, {40}, theirs_state);
    set_backend(Backend::cpu);
    // The output norm brings everything to size 1; errors of the recurrence stay near 1e-6 of that.
    expect_close(ours, theirs, 5e-4, name(s));
    expect_close(ours_state.s, theirs_state.s, 1e-5, name(s) + " state");
    expect_close(ours_state.conv, theirs_state.conv, 0, name(s) + " conv rows");
  }
}

TEST_F(GatedDelta, SameBitsForAnyChunks) {
  Rng rng(2);
  for (const auto& s : kShapes) {
    const Inputs in = make_inputs(s, 150, rng);  // the kernel takes 64 at a time
    auto whole_state = make_gated_delta_state(s);
    const mx::array whole = run(s, in, {150}, whole_state);
    for (const auto& chunks : {std::vector<int>{1}, {2}, {5, 1, 3, 20}, {32, 5}, {64}, {65}}) {
      auto state = make_gated_delta_state(s);
      const auto what = fmt::format("{} first chunk {}", name(s), chunks[0]);
      expect_same_bits(run(s, in, chunks, state), whole, what);
      expect_same_bits(state.s, whole_state.s, what + " state");
      expect_same_bits(state.conv, whole_state.conv, what + " conv rows");
    }
  }
}

TEST_F(GatedDelta, SameBitsForAnyThreadsAndTarget) {
  Rng rng(3);
  for (const auto& s : kShapes) {
    const Inputs in = make_inputs(s, 131, rng);
    set_thread_count(1);
    auto first_state = make_gated_delta_state(s);
    const mx::array first = run(s, in, {129, 1}, first_state);
    for (const auto& target : cpu::runnable_targets()) {
      ASSERT_TRUE(set_cpu_target(target));
      for (int threads : {1, 3}) {
        set_thread_count(threads);
        auto state = make_gated_delta_state(s);
        const auto what = fmt::format("{} {} threads {}", name(s), target, threads);
        expect_same_bits(run(s, in, {129, 1}, state), first, what);
        expect_same_bits(state.s, first_state.s, what + " state");
      }
    }
    set_cpu_target(cpu::runnable_targets().front());
  }
}

TEST_F(GatedDelta, ASharedStateIsNotChanged) {
  Rng rng(4);
  const auto s = kShapes[0];
  const Inputs in = make_inputs(s, 12, rng);
  for (auto backend : {Backend::cpu, Backend::reference}) {
    set_backend(backend);
    auto state = make_gated_delta_state(s);
    step(s, in, 0, 6, state);
    const GatedDeltaState snapshot = state;
    const auto s_before = to_vector(snapshot.s), conv_before = to_vector(snapshot.conv);
    const mx::array on = step(s, in, 6, 12, state);
    EXPECT_EQ(to_vector(snapshot.s), s_before);
    EXPECT_EQ(to_vector(snapshot.conv), conv_before);
    GatedDeltaState again = snapshot;
    expect_same_bits(step(s, in, 6, 12, again), on, "continued from the snapshot");
    if (backend == Backend::reference) continue;
    const void* place = state.s.data<char>();
    step(s, in, 0, 1, state);
    EXPECT_EQ(state.s.data<char>(), place) << "an unshared state is advanced in place";
  }
}

TEST_F(GatedDelta, RefusesWrongShapes) {
  Rng rng(5);
  const auto s = kShapes[0];
  Inputs in = make_inputs(s, 2, rng);
  auto state = make_gated_delta_state(s), other = make_gated_delta_state(kShapes[1]);
  EXPECT_THROW(step(s, in, 0, 2, other), std::invalid_argument);
  in.b = mx::zeros({2, 3});
  EXPECT_THROW(step(s, in, 0, 2, state), std::invalid_argument);
}

}  // namespace
}  // namespace anabranch::ops
