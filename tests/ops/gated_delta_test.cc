#include "ops/gated_delta.h"

#include <algorithm>
#include <numeric>

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

// Rows of the inputs, on trial.
mx::array try_rows(const GatedDeltaShape& s, const Inputs& in, int begin, int end, GatedDeltaState& state,
                   std::span<const int> parents = {}) {
  return gated_delta_trial(slice_rows(in.qkv, begin, end), slice_rows(in.z, begin, end),
                           slice_rows(in.b, begin, end), slice_rows(in.a, begin, end), s, in.weights, state,
                           parents);
}

Inputs take(const Inputs& in, const std::vector<int>& rows) {
  return {take_rows(in.qkv, rows), take_rows(in.z, rows), take_rows(in.b, rows), take_rows(in.a, rows),
          in.weights};
}

// A random tree in preorder: each row hangs on the row before it or on one of its ancestors.
std::vector<int> random_tree(int rows, Rng& rng) {
  std::vector<int> parents;
  for (int i = 0; i < rows; i++) {
    int at = i - 1;
    while (at >= 0 && rng() % 3 == 0) at = parents[at];
    parents.push_back(at);
  }
  return parents;
}

std::vector<int> path_to(const std::vector<int>& parents, int row) {
  std::vector<int> path;
  for (int at = row; at >= 0; at = parents[at]) path.insert(path.begin(), at);
  return path;
}

std::vector<int> first_rows(int n) {
  std::vector<int> path(n);
  std::iota(path.begin(), path.end(), 0);
  return path;
}

void expect_same_state(const GatedDeltaState& a, const GatedDeltaState& b, const std::string& what) {
  expect_same_bits(a.s, b.s, what + " state");
  expect_same_bits(a.conv, b.conv, what + " conv rows");
}

TEST_F(GatedDelta, ACommittedTrialEqualsNeverHavingTried) {
  Rng rng(6);
  for (const auto& s : kShapes) {
    const Inputs in = make_inputs(s, 60, rng);
    auto plain = make_gated_delta_state(s), tried = make_gated_delta_state(s);
    expect_same_bits(step(s, in, 0, 5, plain), step(s, in, 0, 5, tried), "before");
    int at = 5;
    // Rounds: `rows` on trial in `launches`, of which `keep` turn out real.
    const struct {
      int rows, launches, keep;
    } rounds[] = {{1, 1, 1},   {4, 1, 0},   {4, 1, 2}, {3, 1, 3}, {6, 3, 4},
                  {16, 1, 16}, {16, 16, 7}, {2, 1, 0}, {5, 5, 1}};
    for (const auto& r : rounds) {
      const auto what =
          fmt::format("{}: {} rows in {} launches, {} kept", name(s), r.rows, r.launches, r.keep);
      std::vector<mx::array> parts;
      for (int l = 0; l < r.launches; l++)
        parts.push_back(
            try_rows(s, in, at + r.rows * l / r.launches, at + r.rows * (l + 1) / r.launches, tried));
      auto ahead = plain;
      expect_same_bits(concat_rows(parts), step(s, in, at, at + r.rows, ahead), what);
      gated_delta_commit(tried, first_rows(r.keep));
      if (r.keep > 0) step(s, in, at, at + r.keep, plain);
      at += r.keep;
      auto settled = tried;  // the trial goes on from the unsettled one
      gated_delta_settle(s, settled);
      expect_same_state(settled, plain, what);
    }
    expect_same_bits(step(s, in, at, at + 3, tried), step(s, in, at, at + 3, plain), name(s) + " after");
    expect_same_state(tried, plain, name(s) + " after");
  }
}

TEST_F(GatedDelta, ATreeSeesOnlyAncestors) {
  Rng rng(7);
  for (const auto& s : kShapes) {
    for (int round = 0; round < 12; round++) {
      const int rows = 1 + round % kMaxTrial;
      const Inputs in = make_inputs(s, 4 + rows, rng);
      auto base = make_gated_delta_state(s);
      step(s, in, 0, 4, base);
      const auto parents = random_tree(rows, rng);
      auto tried = base;
      const mx::array out = try_rows(s, in, 4, 4 + rows, tried, parents);
      const Inputs tree = {slice_rows(in.qkv, 4, 4 + rows), slice_rows(in.z, 4, 4 + rows),
                           slice_rows(in.b, 4, 4 + rows), slice_rows(in.a, 4, 4 + rows), in.weights};
      for (int row = 0; row < rows; row++) {
        const auto path = path_to(parents, row);
        const auto what = fmt::format("{} round {} row {}", name(s), round, row);
        auto plain = base;
        const Inputs alone = take(tree, path);
        const mx::array want = step(s, alone, 0, static_cast<int>(path.size()), plain);
        expect_same_bits(slice_rows(out, row, row + 1),
                         slice_rows(want, static_cast<int>(path.size()) - 1, static_cast<int>(path.size())),
                         what);
        auto kept = tried;
        gated_delta_commit(kept, path);
        gated_delta_settle(s, kept);
        expect_same_state(kept, plain, what);
      }
    }
  }
}

TEST_F(GatedDelta, TrialsEqualReferenceAndAnyTarget) {
  Rng rng(8);
  for (const auto& s : kShapes) {
    const Inputs in = make_inputs(s, 20, rng);
    const std::vector<int> tree = {-1, 0, 1, 1, 0, -1, 5};
    const auto play = [&](GatedDeltaState& state) {
      std::vector<mx::array> parts = {step(s, in, 0, 6, state), try_rows(s, in, 6, 8, state),
                                      try_rows(s, in, 8, 9, state)};
      gated_delta_commit(state, first_rows(2));
      parts.push_back(try_rows(s, in, 8, 15, state, tree));
      gated_delta_commit(state, std::vector<int>{0, 1, 3});
      parts.push_back(step(s, in, 15, 20, state));
      return concat_rows(parts);
    };
    auto first = make_gated_delta_state(s), oracle = make_gated_delta_state(s);
    const mx::array ours = play(first);
    for (const auto& target : cpu::runnable_targets()) {
      ASSERT_TRUE(set_cpu_target(target));
      for (const int threads : {1, 3}) {
        set_thread_count(threads);
        auto state = make_gated_delta_state(s);
        expect_same_bits(play(state), ours, name(s) + " " + target);
        expect_same_state(state, first, name(s) + " " + target);
      }
    }
    set_backend(Backend::reference);
    const mx::array theirs = play(oracle);
    expect_close(ours, theirs, 5e-4, name(s));
    expect_close(first.s, oracle.s, 1e-5, name(s) + " state");
    expect_close(first.conv, oracle.conv, 0, name(s) + " conv rows");
    set_backend(Backend::cpu);
  }
}

TEST_F(GatedDelta, TrialsLeaveSharedStatesAlone) {
  Rng rng(9);
  const auto s = kShapes[0];
  const Inputs in = make_inputs(s, 12, rng);
  auto state = make_gated_delta_state(s);
  step(s, in, 0, 2, state);
  try_rows(s, in, 2, 6, state);
  gated_delta_commit(state, first_rows(3));
  auto copy = state, again = state;  // the same window, S and conv rows
  const mx::array out = try_rows(s, in, 5, 8, state);
  expect_same_bits(try_rows(s, in, 5, 8, copy), out, "from a copy");
  gated_delta_settle(s, again);
  gated_delta_commit(copy, {});
  gated_delta_settle(s, copy);
  expect_same_state(copy, again, "nothing kept");
}

TEST_F(GatedDelta, RefusesTrialsThatCannotBe) {
  Rng rng(10);
  const auto s = kShapes[0];
  const Inputs in = make_inputs(s, 20, rng);
  auto state = make_gated_delta_state(s);
  EXPECT_THROW(try_rows(s, in, 0, 17, state), std::invalid_argument);
  EXPECT_THROW(try_rows(s, in, 0, 3, state, std::vector<int>{-1, 0, 3}), std::invalid_argument);
  EXPECT_THROW(try_rows(s, in, 0, 3, state, std::vector<int>{-1, -1, 0}), std::invalid_argument)
      << "not preorder";
  EXPECT_THROW(try_rows(s, in, 0, 3, state, std::vector<int>{-1, 0}), std::invalid_argument);
  EXPECT_THROW(gated_delta_commit(state, first_rows(1)), std::invalid_argument);
  try_rows(s, in, 0, 3, state);
  EXPECT_THROW(step(s, in, 3, 4, state), std::invalid_argument) << "tokens are on trial";
  EXPECT_THROW(gated_delta_settle(s, state), std::invalid_argument);
  EXPECT_THROW(gated_delta_commit(state, first_rows(4)), std::invalid_argument);
  EXPECT_THROW(gated_delta_commit(state, std::vector<int>{1, 0}), std::invalid_argument);
  gated_delta_commit(state, first_rows(3));
  try_rows(s, in, 3, 6, state, std::vector<int>{-1, 0, 0});
  EXPECT_THROW(try_rows(s, in, 6, 7, state), std::invalid_argument) << "a tree takes no more";
  EXPECT_TRUE(is_preorder(std::vector<int>{-1, 0, 1, 0, -1, 4}));
  EXPECT_FALSE(is_preorder(std::vector<int>{-1, 0, 0, 1}));
  EXPECT_FALSE(is_preorder(std::vector<int>{0}));
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
