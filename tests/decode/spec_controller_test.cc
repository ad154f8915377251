// The controller in a fake world: true costs and chances are known, so the best possible speed is too.
#include "decode/spec_controller.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
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
  double per_row = 0.1;  // of every row after the first
  int cheap_rows = 16;   // from one row more on, a pass takes `dearer` more
  double dearer = 0;
  double noise = 0, outliers = 0;  // relative deviation of times; share of them that are ten times longer
  double round_s = 0.02;
  int max_drafts = 8;
  std::function<Proposal(int t)> proposal = [](int) { return Proposal{}; };
  std::function<double(int t)> slowness = [](int) { return 1.0; };  // of the whole machine

  double verify(int rows) const { return 1 + per_row * (rows - 1) + (rows > cheap_rows ? dearer : 0); }
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
  DraftDecision best(const RoundLimits& limits, int t) const {
    DraftDecision best;
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

struct Answer {
  double cost = 0;  // true mean costs of the rounds, in plain rounds; plain decoding would cost `tokens`
  int tokens = 0, rounds = 0;
  std::vector<DraftDecision> choices;
  std::vector<int> at;  // token at which each choice was made
  double speedup() const { return tokens / cost; }
  Answer& operator+=(const Answer& other) {
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

using Policy = std::function<DraftDecision(const RoundLimits&, int t)>;

Answer play(const World& world, int tokens, std::mt19937_64& rng, const Policy& policy,
            const std::function<void(const RoundResult&)>& observe = {}) {
  std::uniform_real_distribution<double> uniform;
  std::normal_distribution<double> normal;
  const auto measured = [&](double cost, int t) {
    const double noise = std::exp(world.noise * normal(rng));
    return cost * world.round_s * world.slowness(t) * noise * (uniform(rng) < world.outliers ? 10 : 1);
  };
  Answer run;
  for (int t = 0; t < tokens;) {
    const RoundLimits limits = world.limits(t, tokens);
    const DraftDecision choice = policy(limits, t);
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
    result.draft_s = measured(draft_cost, t);
    result.verify_s = measured(world.verify(choice.depth + 1), t);
    run.cost += world.verify(choice.depth + 1) + draft_cost;
    run.rounds++;
    run.tokens += result.accepted + 1;
    t += result.accepted + 1;
    if (observe) observe(result);
  }
  return run;
}

Answer play(const World& world, int tokens, std::mt19937_64& rng, SpecCosts& costs, SpecMode mode = {}) {
  SpecController controller(costs, mode);
  return play(
      world, tokens, rng, [&](const RoundLimits& limits, int) { return controller.choose(limits); },
      [&](const RoundResult& result) { controller.observe(result); });
}

Answer play_best(const World& world, int tokens, std::mt19937_64& rng) {
  return play(world, tokens, rng, [&](const RoundLimits& limits, int t) { return world.best(limits, t); });
}

World::Drafter drafter(DraftSource source, double first, double further, double p, double fall = 1) {
  return {source, first, further, [=](int, int i, int) { return p * std::pow(fall, i - 1); }};
}

// Means over many runs, each of some sequences that share a SpecCosts which begins with nothing known.
struct Score {
  double speedup = 0, best = 0, worst = 1e9;  // over plain decoding; worst: of one run
  double of_best() const { return speedup / best; }
};

Score score(const World& world, int tokens, int sequences, int runs = 40) {
  Answer all, all_best;
  Score score;
  for (int run = 0; run < runs; run++) {
    std::mt19937_64 rng(run), best_rng(run + 1000);
    SpecCosts costs;
    Answer one;
    for (int i = 0; i < sequences; i++) {
      one += play(world, tokens, rng, costs);
      all_best += play_best(world, tokens, best_rng);
    }
    all += one;
    score.worst = std::min(score.worst, one.speedup());
  }
  score.speedup = all.speedup();
  score.best = all_best.speedup();
  std::printf("  speed-up %.3f of %.3f (%.3f), worst run %.3f\n", score.speedup, score.best, score.of_best(),
              score.worst);
  return score;
}

World noisy(World world) {
  world.noise = 0.2;
  world.outliers = 0.02;
  return world;
}

World cheap_world() {
  World world;
  world.per_row = 0.06;
  world.drafters = {drafter(kMtp, 0.05, 0.05, 0.9)};
  return world;
}

World usual_world() {
  World world;
  world.per_row = 0.15;
  world.drafters = {drafter(kMtp, 0.1, 0.1, 0.75, 0.9)};
  return world;
}

// Many drafters, all of them bad, in a place where rows are dear.
World dear_world() {
  World world;
  world.per_row = 0.6;
  world.drafters = {drafter(kMtp, 0.2, 0.2, 0.2), drafter(kDraft, 0.4, 0.4, 0.2),
                    drafter(kExit, 0.4, 0.4, 0.1), drafter(kSkip, 0.5, 0.5, 0.1), drafter(kNgram, 0, 0, 0.1)};
  world.proposal = [](int t) { return Proposal{8, t % 12}; };
  return world;
}

World useless_world() {
  World world = dear_world();
  world.per_row = 0.15;
  for (World::Drafter& d : world.drafters) d.chance = [](int, int, int) { return 0.05; };
  return world;
}

// An n-gram drafter that is right on long matches only; they come for 20 tokens in 40.
World copying_world() {
  World world;
  world.per_row = 0.15;
  world.max_drafts = kMaxDraft;
  world.drafters = {{kNgram, 0, 0, [](int, int, int match) { return match > 4 ? 0.95 : 0.1; }}};
  world.proposal = [](int t) { return Proposal{15, t / 20 % 2 ? 12 : 2}; };
  return world;
}

World changing_world(double before, double after) {
  World world;
  world.drafters = {{kMtp, 0.1, 0.1, [=](int t, int, int) { return t < 256 ? before : after; }}};
  return world;
}

TEST(SpecController, ComesNearTheBestDepth) {
  EXPECT_GT(score(cheap_world(), 256, 1).of_best(), 0.92);  // three plain rounds cost 5 % at a rate of 3
  EXPECT_GT(score(cheap_world(), 256, 8).of_best(), 0.96);
  EXPECT_GT(score(usual_world(), 256, 1).of_best(), 0.94);
  EXPECT_GT(score(usual_world(), 256, 8).of_best(), 0.96);
}

TEST(SpecController, FindsWhereRowsBecomeDear) {
  World world;
  world.drafters = {drafter(kMtp, 0.05, 0.05, 0.85)};
  world.per_row = 0.03;
  world.cheap_rows = 4;
  world.dearer = 1;
  EXPECT_GT(score(world, 256, 1).of_best(), 0.87);  // finding out costs some dear rounds
  EXPECT_GT(score(world, 256, 8).of_best(), 0.95);
  EXPECT_GT(score(noisy(world), 256, 8).of_best(), 0.93);
}

TEST(SpecController, LosesLittleWhereDraftingDoesNotPay) {
  World one_drafter = dear_world();
  one_drafter.drafters.resize(1);
  EXPECT_GT(score(one_drafter, 256, 1).worst, 0.97);
  const Score dear = score(dear_world(), 256, 1), useless = score(useless_world(), 256, 1);
  EXPECT_GT(dear.speedup, 0.97);
  EXPECT_GT(dear.worst, 0.965);
  EXPECT_GT(useless.worst, 0.97);
  // What one answer learnt, the next ones know; short ones too.
  EXPECT_GT(score(dear_world(), 256, 8).worst, 0.985);
  EXPECT_GT(score(useless_world(), 32, 16).worst, 0.98);
}

TEST(SpecController, ProbesLessAndLessOften) {
  World world = dear_world();
  world.drafters.resize(1);
  std::mt19937_64 rng(1);
  SpecCosts costs;
  const Answer run = play(world, 2000, rng, costs);
  std::vector<int> tries;
  for (size_t i = 0; i < run.choices.size(); i++)
    if (run.choices[i].depth > 0) tries.push_back(run.at[i]);
  ASSERT_GE(tries.size(), 6u);
  EXPECT_LE(tries.size(), 30u);
  EXPECT_LT(tries[2] - tries[1], 40);
  EXPECT_GE(tries.back() - tries[tries.size() - 2], 128);
  EXPECT_GT(tries.back(), 1400) << "it must not stop probing";
}

TEST(SpecController, FollowsAcceptance) {
  EXPECT_GT(score(changing_world(0.85, 0.1), 512, 1).of_best(), 0.94);
  EXPECT_GT(score(changing_world(0.1, 0.85), 512, 1).of_best(), 0.87);
  double down = 0, up = 0;
  for (int seed = 0; seed < 20; seed++) {
    std::mt19937_64 rng(seed);
    SpecCosts costs, other_costs;
    down += play(changing_world(0.85, 0.1), 512, rng, costs).share(kMtp, 320) / 20;
    up += play(changing_world(0.1, 0.85), 1024, rng, other_costs).share(kMtp, 640) / 20;
  }
  EXPECT_LT(down, 0.1);
  EXPECT_GT(up, 0.85);
}

TEST(SpecController, TakesLongMatchesOnly) {
  EXPECT_GT(score(copying_world(), 256, 1).of_best(), 0.95);
  std::mt19937_64 rng(3);
  SpecCosts costs;
  const Answer run = play(copying_world(), 1000, rng, costs);
  int taken[2] = {}, seen[2] = {};
  for (size_t i = 0; i < run.choices.size(); i++) {
    const int is_long = run.at[i] / 20 % 2;
    seen[is_long]++;
    taken[is_long] += run.choices[i].source == kNgram;
  }
  EXPECT_GT(taken[1], 0.9 * seen[1]);
  EXPECT_LT(taken[0], 0.1 * seen[0]);
}

TEST(SpecController, UsesTwoSourcesEachInItsPlace) {
  World both = copying_world();
  both.drafters.push_back(drafter(kMtp, 0.1, 0.1, 0.7, 0.9));
  EXPECT_GT(score(both, 256, 8).of_best(), 0.94);

  World turning;
  turning.drafters = {{kMtp, 0.1, 0.1, [](int t, int, int) { return t < 256 ? 0.85 : 0.4; }},
                      {kDraft, 0.2, 0.2, [](int t, int, int) { return t < 256 ? 0.4 : 0.9; }}};
  EXPECT_GT(score(turning, 768, 4).of_best(), 0.85);
  double before = 0, after = 0;
  for (int seed = 0; seed < 20; seed++) {
    std::mt19937_64 rng(seed);
    SpecCosts costs;
    const Answer run = play(turning, 1024, rng, costs);
    before += run.share(kMtp, 64, 256) / 20;
    after += run.share(kDraft, 640) / 20;
  }
  EXPECT_GT(before, 0.85);
  EXPECT_GT(after, 0.85);
}

TEST(SpecController, NoiseAndOutliersDoNotBreakIt) {
  EXPECT_GT(score(noisy(cheap_world()), 256, 8).of_best(), 0.94);
  EXPECT_GT(score(noisy(usual_world()), 256, 8).of_best(), 0.94);
  EXPECT_GT(score(noisy(copying_world()), 256, 8).of_best(), 0.95);
  EXPECT_GT(score(noisy(changing_world(0.85, 0.1)), 512, 1).of_best(), 0.93);
  const Score dear = score(noisy(dear_world()), 256, 1), useless = score(noisy(useless_world()), 256, 1);
  EXPECT_GT(dear.speedup, 0.965);
  EXPECT_GT(useless.speedup, 0.965);
  EXPECT_GT(score(noisy(dear_world()), 256, 8).worst, 0.97);
  EXPECT_GT(score(noisy(useless_world()), 256, 8).worst, 0.97);
}

TEST(SpecController, AMachineThatSlowsDownChangesNoChoice) {
  for (const double slower : {3.0, 1 / 3.0}) {
    World world = usual_world();
    world.slowness = [=](int t) { return t < 256 ? 1 : slower; };
    EXPECT_GT(score(world, 512, 2).of_best(), 0.93) << slower;
    World bad = dear_world();
    bad.slowness = world.slowness;
    EXPECT_GT(score(bad, 512, 2).speedup, 0.975) << slower;
  }
}

TEST(SpecController, KeepsToTheLimits) {
  std::mt19937_64 rng(5);
  const std::vector<SpecMode> modes = {{},
                                       {true, kNone, 3},
                                       {false, kNone},
                                       {false, kMtp},
                                       {false, kNgram},
                                       {false, kNgram, 4},
                                       {false, kDraft, 2}};
  for (const SpecMode mode : modes) {
    SpecCosts costs;
    SpecController controller(costs, mode);
    for (int round = 0; round < 3000; round++) {
      RoundLimits limits;
      limits.max_drafts = static_cast<int>(rng() % 24) - 3;
      for (bool& a : limits.available) a = rng() % 2;
      limits.ngram_length = rng() % 20;
      limits.ngram_match = rng() % 20;
      const DraftDecision choice = controller.choose(limits);
      ASSERT_EQ(choice.depth == 0, choice.source == kNone);
      ASSERT_LE(choice.depth, std::max(0, std::min(limits.max_drafts, kMaxDraft)));
      if (choice.source == kNone) {
        controller.observe({kNone, 0, 0, 0, 0, 0.02});
        continue;
      }
      ASSERT_TRUE(limits.available[static_cast<int>(choice.source)]);
      if (choice.source == kNgram) {
        ASSERT_LE(choice.depth, limits.ngram_length);
      }
      if (mode.depth > 0) {
        ASSERT_LE(choice.depth, mode.depth);
      }
      if (!mode.automatic) {
        ASSERT_EQ(choice.source, mode.source);
      }
      // The drafter may give less than was asked for.
      const int drafted = rng() % (choice.depth + 1), accepted = rng() % (drafted + 1);
      controller.observe({choice.source, drafted, accepted, limits.ngram_match, 0.001 * drafted, 0.02});
    }
  }
}

TEST(SpecController, ForcedModesObey) {
  World world = dear_world();
  const auto play_forced = [&](SpecMode mode) {
    std::mt19937_64 rng(1);
    SpecCosts costs;
    return play(world, 200, rng, costs, mode);
  };
  for (const DraftDecision& choice : play_forced({false, kNone}).choices) EXPECT_EQ(choice.depth, 0);
  const auto expect_source = [&](DraftSource source, int depth) {
    const Answer run = play_forced({false, source, depth});
    for (size_t i = 0; i < run.choices.size(); i++) {
      const int most = std::min(world.max_drafts, 200 - run.at[i] - 1);
      EXPECT_EQ(run.choices[i].source, most > 0 ? source : kNone);
      if (depth > 0) {
        EXPECT_EQ(run.choices[i].depth, std::min(depth, most));
      }
    }
  };
  for (const DraftSource source : {kNgram, kMtp, kDraft, kExit, kSkip}) {
    expect_source(source, 0);
    expect_source(source, 3);
  }
  // The best depth of the source asked for, although plain decoding would be better.
  const Answer run = play_forced({false, kMtp});
  int shortest = 0;
  for (const DraftDecision& choice : run.choices) shortest += choice.depth == 1;
  EXPECT_GT(shortest, 0.9 * static_cast<double>(run.choices.size()));
  // No proposal, no drafts; and a source that is not there.
  world.proposal = [](int) { return Proposal{}; };
  EXPECT_EQ(play_forced({false, kNgram, 4}).share(kNone), 1);
  world.drafters.clear();
  EXPECT_EQ(play_forced({false, kMtp}).share(kNone), 1);
}

TEST(SpecController, SameInputsSameChoices) {
  const auto choices = [] {
    std::mt19937_64 rng(9);
    SpecCosts costs;
    std::vector<int> all;
    for (int i = 0; i < 2; i++)
      for (const DraftDecision& choice : play(noisy(dear_world()), 256, rng, costs).choices)
        all.push_back(static_cast<int>(choice.source) * 100 + choice.depth);
    return all;
  };
  EXPECT_EQ(choices(), choices());
}

TEST(SpecController, WhatWasLearntMakesANewSequenceStartRight) {
  for (const bool good : {true, false}) {
    const World world = good ? cheap_world() : dear_world();
    std::mt19937_64 rng(2);
    SpecCosts costs;
    for (int i = 0; i < 4; i++) play(world, 256, rng, costs);
    SpecCosts again(costs.stats());
    SpecController controller(again, {});
    const DraftDecision choice = controller.choose(world.limits(0, 256));
    EXPECT_EQ(choice.source, good ? kMtp : kNone);
    const RoundLimits limits = world.limits(0, 256);
    EXPECT_NEAR(choice.depth, world.best(limits, 0).depth, 2);
  }
}

TEST(SpecCosts, AssumesThenLearnsWhatRowsCost) {
  SpecCosts costs;
  EXPECT_EQ(costs.round_s(), 0);
  EXPECT_DOUBLE_EQ(costs.verify_costs()[1], 1);
  EXPECT_NEAR(costs.verify_costs()[5], 1.6, 1e-9);
  // Rows 1, 2 and 6 are seen: between them straight, beyond them the mean slope.
  SpecController controller(costs, {});
  for (int i = 0; i < 40; i++)
    for (const int rows : {1, 2, 6})
      controller.observe(
          {rows == 1 ? kNone : kMtp, rows - 1, 0, 0, 0.002 * (rows - 1), 0.01 * (1 + 0.1 * rows)});
  EXPECT_NEAR(costs.round_s(), 0.011, 1e-4);
  const SpecCosts::Curve& verify = costs.verify_costs();
  EXPECT_NEAR(verify[2], 1.2 / 1.1, 0.01);
  EXPECT_NEAR(verify[4], 1.4 / 1.1, 0.01);
  EXPECT_NEAR(verify[6], 1.6 / 1.1, 0.02);
  EXPECT_NEAR(verify[10], 2.0 / 1.1, 0.1);
  EXPECT_NEAR(costs.draft_costs(kMtp)[5], 0.01 / 0.011, 0.02);
  EXPECT_NEAR(costs.draft_costs(kMtp)[3], 0.006 / 0.011, 0.02);
  // One pass out of line moves it little; never does a longer pass cost less than a shorter one.
  controller.observe({kMtp, 5, 0, 0, 0.01, 0.2});
  EXPECT_NEAR(verify[6], 1.6 / 1.1, 0.05);
  std::mt19937_64 rng(4);
  for (int i = 0; i < 500; i++) {
    const int rows = 1 + static_cast<int>(rng() % 16);
    const double seconds = 0.01 * (1 + static_cast<double>(rng() % 100) / 50);
    controller.observe({rows == 1 ? kNone : kDraft, rows - 1, 0, 0, seconds, seconds});
    for (int n = 2; n <= 16; n++) ASSERT_GE(verify[n], verify[n - 1]);
    const SpecCosts::Curve draft = costs.draft_costs(kDraft);
    for (int n = 1; n <= kMaxDraft; n++) ASSERT_GE(draft[n], draft[n - 1]);
  }
}

TEST(SpecCosts, TimesThatAreNoTimesAreNotLearnt) {
  SpecCosts costs;
  SpecController controller(costs, {});
  for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    controller.observe({kNone, 0, 0, 0, 0, bad});
    controller.observe({kMtp, 2, 0, 0, bad, bad});
  }
  EXPECT_EQ(costs.round_s(), 0);
  EXPECT_NEAR(costs.verify_costs()[3], 1.3, 1e-9);
}

TEST(SpecController, CountsOnlyWhatWasJudged) {
  SpecCosts costs;
  SpecController controller(costs, {});
  const int mtp = draft_class(kMtp, 0);
  const Chances before = controller.acceptance(mtp);
  // Ended by eos after one draft: the second one says nothing.
  controller.observe({kMtp, 4, 1, 0, 0.001, 0.02, false});
  EXPECT_EQ(costs.stats().acceptance[mtp].tried[0], 1);
  EXPECT_EQ(costs.stats().acceptance[mtp].tried[1], 0);
  EXPECT_GT(controller.acceptance(mtp)[0], before[0]);
  // Rejected at the second: the third and fourth were not judged.
  controller.observe({kMtp, 4, 1, 0, 0.001, 0.02});
  EXPECT_EQ(costs.stats().acceptance[mtp].tried[1], 1);
  EXPECT_EQ(costs.stats().acceptance[mtp].accepted[1], 0);
  EXPECT_EQ(costs.stats().acceptance[mtp].tried[2], 0);
  // Matches of different lengths are counted apart.
  controller.observe({kNgram, 1, 1, 2, 0, 0.02});
  controller.observe({kNgram, 1, 1, 9, 0, 0.02});
  EXPECT_EQ(costs.stats().acceptance[draft_class(kNgram, 1)].tried[0], 1);
  EXPECT_EQ(costs.stats().acceptance[draft_class(kNgram, 40)].tried[0], 1);
}

TEST(SpecController, ASurpriseAtOnePositionIsExpectedAtTheNextToo) {
  SpecCosts costs;
  const int mtp = draft_class(kMtp, 0);
  SpecController usual(costs, {});
  for (int i = 0; i < 200; i++) usual.observe({kMtp, 2, i % 2 + i % 4 / 3, 0, 0.001, 0.02});
  SpecController good(costs, {});
  for (int i = 0; i < 8; i++) good.observe({kMtp, 1, 1, 0, 0.001, 0.02});
  EXPECT_GT(good.acceptance(mtp)[1], usual.acceptance(mtp)[1] + 0.1);
  EXPECT_LT(good.acceptance(mtp)[1], good.acceptance(mtp)[0]);
}

// Two sources that are equally good: noise alone must not send it from one to the other all the time.
TEST(SpecController, NoiseDoesNotFlipTheChoice) {
  World world = noisy(usual_world());
  world.drafters.push_back(drafter(kDraft, 0.1, 0.1, 0.75, 0.9));
  int flips = 0, depth_flips = 0, rounds = 0;
  for (int seed = 0; seed < 20; seed++) {
    std::mt19937_64 rng(seed);
    SpecCosts costs;
    const std::vector<DraftDecision> choices = play(world, 512, rng, costs).choices;
    for (size_t i = 1; i < choices.size(); i++) {
      rounds++;
      flips += choices[i].source != choices[i - 1].source;
      depth_flips += choices[i].source == choices[i - 1].source && choices[i].depth != choices[i - 1].depth;
    }
  }
  std::printf("  source changed in %.3f of the rounds, depth in %.3f\n", 1.0 * flips / rounds,
              1.0 * depth_flips / rounds);
  EXPECT_LT(flips, 0.1 * rounds);
  EXPECT_LT(depth_flips, 0.07 * rounds);  // 0.075 without hysteresis
}

TEST(SpecCounters, AddUp) {
  SpecCounters counters;
  counters.add({kMtp, 3, 1, 0, 0.5, 2});
  counters.add({kMtp, 2, 2, 0, 0.25, 1});
  counters.add({kNone, 0, 0, 0, 0, 4});
  SpecCounters total = counters;
  total += counters;
  EXPECT_EQ(total.of(kMtp).rounds, 4);
  EXPECT_EQ(total.of(kMtp).drafted, 10);
  EXPECT_EQ(total.of(kMtp).accepted, 6);
  EXPECT_EQ(total.of(kMtp).drafted_at[2], 2);
  EXPECT_EQ(total.of(kMtp).accepted_at[0], 4);
  EXPECT_EQ(total.of(kMtp).accepted_at[1], 2);
  EXPECT_EQ(total.of(kMtp).draft_s, 1.5);
  EXPECT_EQ(total.of(kNone).rounds, 2);
  EXPECT_EQ(total.of(kNone).verify_s, 8);
}

TEST(Speculation, SourcesHaveNames) {
  for (int i = 0; i < kDraftSources; i++) {
    const DraftSource source = static_cast<DraftSource>(i);
    EXPECT_EQ(source_named(name_of(source)), source);
  }
  EXPECT_EQ(source_named("auto"), std::nullopt);
  EXPECT_EQ(source_named(""), std::nullopt);
}

}  // namespace
}  // namespace anabranch
