// The planner of batches in a fake world: true costs and chances are known, so the best possible speed is
// too.
#include "decode/batch_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <vector>

namespace anabranch {
namespace {

constexpr DraftSource kNone = DraftSource::none, kNgram = DraftSource::ngram, kMtp = DraftSource::mtp;

struct World {
  std::function<double(int sequences, int rows)> pass;  // seconds, all rows
  std::function<double(int chains, int levels)> chain;  // seconds
  double mtp = 0.55, mtp_further = 0.45;                // chances of a draft
  std::function<double(int match)> ngram = [](int m) { return m > 4 ? 0.9 : 0.2; };
  std::function<int(long step, int sequence)> match = [](long, int) { return 0; };  // tokens that matched
  double noise = 0.1, outliers = 0.01;
  bool has_mtp = true;
};

// An H200 with a small hybrid: launches cost, rows hardly do, up to 32 of them.
World gpu() {
  World world;
  world.pass = [](int sequences, int rows) {
    return 0.7e-3 + 20e-6 * sequences + 8e-6 * rows + (rows > 32 ? 0.9e-3 + 10e-6 * (rows - 32) : 0);
  };
  world.chain = [](int chains, int levels) { return (0.12e-3 + 4e-6 * chains) * levels; };
  return world;
}

// Two processor cores: every row beyond the second costs nearly as much as the one before it.
World cpu() {
  World world;
  world.pass = [](int sequences, int rows) { return 4e-3 + 0.2e-3 * sequences + 1.3e-3 * rows; };
  world.chain = [](int chains, int levels) { return (0.5e-3 + 0.25e-3 * chains) * levels; };
  return world;
}

struct Played {
  double tokens = 0, seconds = 0;
  long drafted = 0;
  double rate() const { return tokens / seconds; }
};

// What the best of a few fixed policies brings: plain decoding, n-grams of long matches, MTP at each depth.
double plain_rate(const World& world, int sequences) {
  return sequences / world.pass(sequences, sequences);
}

double mtp_rate(const World& world, int sequences, int depth) {
  double path = 1, tokens = 1;
  for (int i = 0; i < depth; i++) tokens += path *= i == 0 ? world.mtp : world.mtp_further;
  return sequences * tokens /
         (world.pass(sequences, sequences * (1 + depth)) + world.chain(sequences, depth));
}

class Game {
 public:
  Game(World world, int most_sequences, uint64_t seed = 1)
      : world_(std::move(world)), rng_(seed), planner_(costs_) {
    for (int i = 0; i < most_sequences; i++)
      controllers_.push_back(std::make_unique<SpecController>(costs_, SpecMode{}));
  }

  // Steps with so many sequences. measured: without prompts.
  Played play(int sequences, int steps, bool measured = true) {
    Played run;
    for (int i = 0; i < steps; i++) step(sequences, measured, run);
    return run;
  }

  const BatchPlanner& planner() const { return planner_; }

 private:
  double noisy(double seconds) {
    const double factor = std::exp(world_.noise * normal_(rng_));
    return seconds * factor * (uniform_(rng_) < world_.outliers ? 10 : 1);
  }

  void step(int sequences, bool measured, Played& run) {
    std::vector<DraftCandidate> candidates;
    for (int i = 0; i < sequences; i++) {
      RoundLimits limits;
      limits.max_drafts = kMaxDraft;
      limits.available[static_cast<int>(kNgram)] = true;
      limits.available[static_cast<int>(kMtp)] = world_.has_mtp;
      limits.ngram_match = world_.match(step_, i);
      limits.ngram_length = limits.ngram_match > 0 ? kMaxDraft : 0;
      candidates.push_back({controllers_[static_cast<size_t>(i)].get(), limits});
    }
    const auto choices = planner_.choose(sequences, candidates, measured);
    BatchResult done{sequences};
    int tokens = sequences;
    for (size_t i = 0; i < choices.size(); i++) {
      const DraftDecision& choice = choices[i];
      done.drafted += choice.depth;
      if (choice.source == kMtp) {
        done.source = kMtp;
        done.chains++;
        done.levels = std::max(done.levels, choice.depth);
      }
      RoundResult result{choice.source, choice.depth, 0, candidates[i].limits.ngram_match};
      while (result.accepted < choice.depth && uniform_(rng_) < chance(choice.source, result))
        result.accepted++;
      tokens += result.accepted;
      controllers_[i]->observe_shared(result);
    }
    const double draft_s = done.chains > 0 ? world_.chain(done.chains, done.levels) : 0;
    const double pass_s = world_.pass(sequences, sequences + done.drafted);
    done.draft_s = done.chains > 0 ? noisy(draft_s) : 0;
    done.rest_s = measured ? noisy(pass_s) : 0;
    planner_.observe(done);
    run.tokens += tokens;
    run.seconds += draft_s + pass_s;
    run.drafted += done.drafted;
    step_++;
  }

  double chance(DraftSource source, const RoundResult& result) const {
    if (source == kNgram) return world_.ngram(result.ngram_match);
    return result.accepted == 0 ? world_.mtp : world_.mtp_further;
  }

  World world_;
  std::mt19937_64 rng_;
  std::uniform_real_distribution<double> uniform_;
  std::normal_distribution<double> normal_;
  SpecCosts costs_;
  BatchPlanner planner_;
  std::vector<std::unique_ptr<SpecController>> controllers_;
  long step_ = 0;
};

TEST(BatchPlanner, DraftsWhereRowsAreCheapAndStopsWhereTheyAreNot) {
  for (const int sequences : {2, 4, 8, 16, 32, 64}) {
    const World world = gpu();
    Game game(world, sequences);
    game.play(sequences, 300);
    const Played run = game.play(sequences, 1000);
    double best = plain_rate(world, sequences);
    for (int depth = 1; depth <= 4; depth++) best = std::max(best, mtp_rate(world, sequences, depth));
    const double plain = plain_rate(world, sequences);
    std::printf("  gpu %2d sequences: %.2f of plain, best fixed %.2f\n", sequences, run.rate() / plain,
                best / plain);
    EXPECT_GT(run.rate(), 0.95 * best) << sequences;
    EXPECT_GT(run.rate(), 0.98 * plain) << sequences;
  }
}

TEST(BatchPlanner, NeverFarBelowPlainDecoding) {
  for (const double mtp : {0.1, 0.3, 0.5})
    for (const int sequences : {2, 4, 8, 16}) {
      World world = cpu();
      world.mtp = mtp;
      world.match = [](long step, int i) {
        return (step + i * 7) % 5 == 0 ? 2 : 0;
      };  // short matches, mostly wrong
      Game game(world, sequences);
      const Played cold = game.play(sequences, 300);
      const Played warm = game.play(sequences, 2000);
      const double plain = plain_rate(world, sequences);
      std::printf("  cpu %2d sequences, mtp %.1f: %.3f of plain, the first 300 steps %.3f\n", sequences, mtp,
                  warm.rate() / plain, cold.rate() / plain);
      EXPECT_GT(warm.rate(), 0.98 * plain);
      EXPECT_GT(cold.rate(), 0.97 * plain);
    }
}

// A few of many sequences copy: these draft, the others do not.
TEST(BatchPlanner, SpendsRowsOnTheSequencesThatCopy) {
  World world = gpu();
  world.has_mtp = false;
  world.match = [](long, int i) { return i < 2 ? 12 : 2; };
  Game game(world, 16);
  game.play(16, 500);
  const Played run = game.play(16, 1000);
  EXPECT_GT(run.rate(), 1.2 * plain_rate(world, 16));
  EXPECT_LT(run.drafted, 1000 * 2 * kMaxDraft * 2);
}

TEST(BatchPlanner, FollowsTheLoad) {
  const World world = gpu();
  Game game(world, 64);
  for (const int sequences : {2, 4, 8, 16, 24, 32, 48, 64}) game.play(sequences, 120);
  // What each number of sequences needs is known the next time.
  for (const int sequences : {64, 2, 32, 4, 48, 8}) {
    const Played run = game.play(sequences, 100);
    double best = plain_rate(world, sequences);
    for (int depth = 1; depth <= 4; depth++) best = std::max(best, mtp_rate(world, sequences, depth));
    EXPECT_GT(run.rate(), 0.87 * best) << sequences;
  }
}

TEST(BatchPlanner, ParksASourceThatDoesNotPayAndFindsItAgain) {
  World world = cpu();
  world.mtp = 0.2;
  Game game(world, 8);
  game.play(8, 400);
  EXPECT_TRUE(game.planner().parked(kMtp));
  Game better(gpu(), 8);
  better.play(8, 400);
  EXPECT_FALSE(better.planner().parked(kMtp));
}

// Steps whose time is not known (prompts are read beside) follow what was learnt, and try nothing.
TEST(BatchPlanner, TriesNothingWhereItCannotMeasure) {
  Game game(cpu(), 8);
  const Played run = game.play(8, 500, false);
  EXPECT_EQ(run.drafted, 0);
}

TEST(BatchPlanner, DoesWhatWasAskedFor) {
  SpecCosts costs;
  BatchPlanner planner(costs);
  SpecController fixed(costs, {false, kMtp, 3}), free(costs, {false, kNgram}), off(costs, {false, kNone});
  RoundLimits limits;
  limits.max_drafts = 8;
  limits.available.fill(true);
  limits.ngram_length = 5;
  limits.ngram_match = 9;
  RoundLimits last = limits;
  last.max_drafts = 1;
  const std::vector<DraftCandidate> candidates = {
      {&fixed, limits}, {&free, limits}, {&off, limits}, {&fixed, last}};
  for (int i = 0; i < 50; i++) {
    const auto choices = planner.choose(4, candidates, true);
    ASSERT_EQ(choices.size(), 4u);
    EXPECT_EQ(choices[0].source, kMtp);
    EXPECT_EQ(choices[0].depth, 3);
    EXPECT_EQ(choices[1].source, kNgram);
    EXPECT_GE(choices[1].depth, 1);
    EXPECT_LE(choices[1].depth, 5);
    EXPECT_EQ(choices[2].depth, 0);
    EXPECT_EQ(choices[3].depth, 1);
    planner.observe({4, 10, kMtp, 2, 3, 1e-3, 5e-3});
  }
}

TEST(BatchPlanner, SameInputsSameChoices) {
  const auto play = [] {
    Game game(gpu(), 8, 7);
    std::vector<double> out;
    for (int i = 0; i < 300; i++) out.push_back(game.play(8, 1).tokens);
    return out;
  };
  EXPECT_EQ(play(), play());
}

TEST(BatchPlanner, TimesThatAreNoTimesAreNotLearnt) {
  Game game(gpu(), 8);
  SpecCosts costs;
  BatchPlanner planner(costs);
  SpecController controller(costs, {});
  RoundLimits limits;
  limits.max_drafts = 8;
  limits.available.fill(true);
  const std::vector<DraftCandidate> candidates = {{&controller, limits}, {&controller, limits}};
  for (const double bad : {0.0, -1.0, std::nan(""), HUGE_VAL}) {
    for (const DraftDecision& choice : planner.choose(2, candidates, true)) EXPECT_EQ(choice.depth, 0);
    planner.observe({2, 0, kNone, 0, 0, 0, bad});
  }
}

// What failed before it was measured is no load to learn from.
TEST(BatchPlanner, AStepThatWasNeverObservedTeachesNothing) {
  SpecCosts costs;
  BatchPlanner planner(costs);
  SpecController controller(costs, {});
  RoundLimits limits;
  limits.max_drafts = 8;
  limits.available.fill(true);
  limits.ngram_length = 5;
  limits.ngram_match = 9;
  const std::vector<DraftCandidate> candidates(8, {&controller, limits});
  planner.choose(8, candidates, true);
  for (int i = 0; i < 20; i++)
    for (const DraftDecision& choice : planner.choose(7, std::span(candidates).first(7), true))
      EXPECT_EQ(choice.depth, 0);
}

}  // namespace
}  // namespace anabranch
