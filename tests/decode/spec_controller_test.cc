// The controller in a fake world: true costs and chances are known, so the best possible speed is too.
#include "decode/spec_controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace anabranch {
namespace {

constexpr DraftSource kNone = DraftSource::none, kNgram = DraftSource::ngram, kMtp = DraftSource::mtp,
                      kDraft = DraftSource::draft, kExit = DraftSource::exit, kSkip = DraftSource::skip;

struct Proposal {
  int length = 0, match = 0;
};

// Costs in plain rounds; a plain round takes round_s seconds.
struct World {
  struct Drafter {
    DraftSource source;
    double first, further;
    // Chance that draft i (from 1 on) at token t of the answer is accepted, the earlier ones being accepted.
    std::function<double(int t, int i, int match)> chance;
  };
  std::vector<Drafter> drafters;
  double per_row = 0.1;             // of every row after the first
  double noise = 0, outliers = 0;   // relative deviation of times; share of them that are ten times longer
  double round_s = 0.02;
  int max_drafts = 8;
  std::function<Proposal(int t)> proposal = [](int) { return Proposal{}; };

  double verify(int rows) const { return 1 + per_row * (rows - 1); }
  static double draft(const Drafter& d, int n) { return n == 0 ? 0 : d.first + d.further * (n - 1); }
  const Drafter* drafter(DraftSource source) const {
    for (const Drafter& d : drafters)
      if (d.source == source) return &d;
    return nullptr;
  }
  RoundLimits limits(int t, int tokens) const {
    RoundLimits limits;
    limits.max_drafts = std::min(max_drafts, tokens - t - 1);
    for (const Drafter& d : drafters) limits.available[static_cast<int>(d.source)] = true;
    const Proposal p = proposal(t);
    limits.ngram_length = p.length;
    limits.ngram_match = p.match;
    return limits;
  }
  // The choice with the best true rate.
  RoundChoice best(const RoundLimits& limits, int t) const {
    RoundChoice best;
    double best_rate = 1;
    for (const Drafter& d : drafters) {
      const int longest =
          d.source == kNgram ? std::min(limits.ngram_length, limits.max_drafts) : limits.max_drafts;
      double path = 1, expected = 1;
      for (int n = 1; n <= longest; n++) {
        expected += path *= d.chance(t, n, limits.ngram_match);
        const double rate = expected / (verify(n + 1) + draft(d, n));
        if (rate > best_rate) {
          best_rate = rate;
          best = {d.source, n};
        }
      }
    }
    return best;
  }
};

struct Run {
  double cost = 0;  // true mean costs of the rounds, in plain rounds; plain decoding would cost `tokens`
  int tokens = 0, rounds = 0;
  std::vector<RoundChoice> choices;
  std::vector<int> at;  // token at which each choice was made
  double speedup() const { return tokens / cost; }
  Run& operator+=(const Run& other) {
    cost += other.cost;
    tokens += other.tokens;
    rounds += other.rounds;
    return *this;
  }
  // Of the rounds that begin at tokens [from, to), the share that used the source.
  double share(DraftSource source, int from = 0, int to = 1 << 30) const {
    int n = 0, of = 0;
    for (size_t i = 0; i < choices.size(); i++)
      if (at[i] >= from && at[i] < to) {
        of++;
        n += choices[i].source == source;
      }
    return of == 0 ? 0 : static_cast<double>(n) / of;
  }
};

using Policy = std::function<RoundChoice(const RoundLimits&, int t)>;

Run play(const World& world, int tokens, std::mt19937_64& rng, const Policy& policy,
         const std::function<void(const RoundResult&)>& observe = {}) {
  std::uniform_real_distribution<double> uniform;
  std::normal_distribution<double> normal;
  const auto measured = [&](double cost) {
    const double noise = std::exp(world.noise * normal(rng));
    return cost * world.round_s * noise * (uniform(rng) < world.outliers ? 10 : 1);
  };
  Run run;
  for (int t = 0; t < tokens;) {
    const RoundLimits limits = world.limits(t, tokens);
    const RoundChoice choice = policy(limits, t);
    run.choices.push_back(choice);
    run.at.push_back(t);
    EXPECT_EQ(choice.depth == 0, choice.source == kNone);
    EXPECT_LE(choice.depth, std::max(0, limits.max_drafts));
    if (choice.source != kNone) {
      EXPECT_TRUE(limits.available[static_cast<int>(choice.source)]);
    }
    if (choice.source == kNgram) {
      EXPECT_LE(choice.depth, limits.ngram_length);
    }
    RoundResult result{choice.source, choice.depth, 0};
    double draft_cost = 0;
    if (const World::Drafter* d = world.drafter(choice.source)) {
      result.ngram_match = limits.ngram_match;
      draft_cost = World::draft(*d, choice.depth);
      while (result.accepted < choice.depth &&
             uniform(rng) < d->chance(t, result.accepted + 1, limits.ngram_match))
        result.accepted++;
    }
    result.draft_s = measured(draft_cost);
    result.verify_s = measured(world.verify(choice.depth + 1));
    run.cost += world.verify(choice.depth + 1) + draft_cost;
    run.rounds++;
    run.tokens += result.accepted + 1;
    t += result.accepted + 1;
    if (observe) observe(result);
  }
  return run;
}

Run play(const World& world, int tokens, std::mt19937_64& rng, SpecCosts& costs, SpecMode mode = {}) {
  SpecController controller(costs, mode);
  return play(
      world, tokens, rng, [&](const RoundLimits& limits, int) { return controller.choose(limits); },
      [&](const RoundResult& result) { controller.observe(result); });
}

Run play_best(const World& world, int tokens, std::mt19937_64& rng) {
  return play(world, tokens, rng, [&](const RoundLimits& limits, int t) { return world.best(limits, t); });
}

World::Drafter drafter(DraftSource source, double first, double further, double p, double fall = 1) {
  return {source, first, further, [=](int, int i, int) { return p * std::pow(fall, i - 1); }};
}

}  // namespace
}  // namespace anabranch
