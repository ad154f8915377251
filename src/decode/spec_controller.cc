#include "decode/spec_controller.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace anabranch {
namespace {

// Assumptions before any measurement: costs in plain rounds, by DraftSource; acceptance by class.
constexpr double kRowCost = 0.15;
constexpr std::array<double, kDraftSources> kDraftCost = {0, 0, 0.1, 0.3, 0.3, 0.5};
constexpr std::array<double, kDraftClasses> kAcceptance = {0.3, 0.45, 0.6, 0.8, 0.6, 0.6, 0.5, 0.5};

// Learning. A memory of m samples forgets by a factor 1 - 1 / m for each new one.
constexpr double kCostMemory = 12, kModelMemory = 300, kSequenceMemory = 16;
constexpr double kCostPrior = 0.5, kModelPrior = 2, kSequencePrior = 5;  // samples the assumption counts for
// A slow sample counts as at most this multiple of the estimate.
constexpr double kSlowest = 2;
// If the time of a count with at least kMature samples changes, the costs of all other counts change by this
// share of it.
constexpr double kShared = 0.8, kMature = 8;
// The share of a sequence's deviation from the model's acceptance rate (in log-odds) that is expected at the
// next position, too.
constexpr double kCarry = 0.8;
constexpr long kRecent = 32;  // rounds of all sequences until recent_acceptance() computes its result again

// Choosing. The factors by which another choice must be better than the held one: to leave plain decoding, a
// source, a depth.
constexpr double kEnter = 1.03, kOtherSource = 1.03, kOtherDepth = 1.02;
constexpr int kFirstPlain = 3;  // plain rounds at first, for a model whose plain round was never measured
// Two accounts, in plain rounds: start value, share of the time that is added, and maximum. When the credit
// is below zero, drafts have at most one token; when it is below -kCreditShort, there are none.
constexpr double kExplorationStart = 1.5, kExplorationShare = 0.008, kExplorationMost = 3;
constexpr double kCreditStart = 2, kCreditShare = 0.01, kCreditMost = 4, kCreditShort = 1;
// Trials, in rounds: the first and the longest interval, the interval of an arm with fewer than kKnown
// trials; and the number of drafts in a trial.
constexpr int kProbeAfter = 16, kProbeAtMost = 256, kProbeUnknownAfter = 4, kKnown = 4, kProbeDepth = 2;
// A trial of a plain round that loses less than this does not lengthen its interval.
constexpr double kCheap = 0.1;

int index_of(DraftSource source) {
  return static_cast<int>(source);
}

double logit(double p) {
  return std::log(p / (1 - p));
}
double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}
double clamp_probability(double p) {
  return std::clamp(p, 0.005, 0.995);
}

// Adds a sample to an average of logarithms; returns the change of the logarithm. A slow sample may be caused
// by other programs and counts little. A sample below half the estimate replaces it.
double learn(CostCurve& curve, int count, double sample) {
  double &estimate = curve.seconds[count], &weight = curve.weight[count];
  const double surprise = std::log(sample / estimate),
               gain = 1 / std::min(weight + 1 + kCostPrior, kCostMemory);
  const double step = surprise < -std::log(2) ? surprise : gain * std::min(surprise, std::log(kSlowest));
  estimate *= std::exp(step);
  weight = std::min(weight + 1, kCostMemory);
  return step;
}

// Weighted monotone regression (pool adjacent violators) through the known points from `start` on, beginning
// at (start, first) if that point is not known. Linear between points. Beyond the last one it continues with
// the mean slope, mixed with one step of the assumed slope.
SpecCosts::Curve fit(const CostCurve& known, int start, double first, double slope) {
  struct Pool {
    double sum, weight;
    int last;  // count
    double mean() const { return sum / weight; }
  };
  std::array<Pool, kMaxDraft + 2> pools;
  int n = 0;
  for (int i = start; i <= kMaxDraft + 1; i++) {
    if (known.weight[i] <= 0) continue;
    pools[n++] = {known.seconds[i] * known.weight[i], known.weight[i], i};
    for (; n > 1 && pools[n - 2].mean() > pools[n - 1].mean(); n--)
      pools[n - 2] = {pools[n - 2].sum + pools[n - 1].sum, pools[n - 2].weight + pools[n - 1].weight,
                      pools[n - 1].last};
  }
  SpecCosts::Curve curve{};
  curve[start] = known.weight[start] > 0 ? pools[0].mean() : first;
  int at = start;  // the last point drawn
  for (int pool = 0; pool < n; pool++)
    while (at < pools[pool].last) {
      int next = at + 1;
      while (known.weight[next] <= 0) next++;
      const double from = curve[at], to = std::max(pools[pool].mean(), curve[start]);
      for (int i = at + 1; i <= next; i++) curve[i] = std::lerp(from, to, double(i - at) / (next - at));
      at = next;
    }
  const double step = (curve[at] - curve[start] + slope) / (at - start + 1);
  for (int i = at + 1; i <= kMaxDraft + 1; i++) curve[i] = curve[i - 1] + step;
  return curve;
}

void count(AcceptanceCounts& counts, const RoundResult& result, double memory) {
  for (int i = 0; i < result.drafted; i++) {
    const bool accepted = i < result.accepted;
    if (!accepted && !result.counts) return;
    counts.tried[i] = counts.tried[i] * (1 - 1 / memory) + 1;
    counts.accepted[i] = counts.accepted[i] * (1 - 1 / memory) + accepted;
    if (!accepted) return;
  }
}

bool is_time(double seconds) {
  return std::isfinite(seconds) && seconds > 0;
}

}  // namespace

void SpecCounters::add(const RoundResult& result) {
  Source& s = sources[index_of(result.source)];
  s.rounds++;
  s.drafted += result.drafted;
  s.accepted += result.accepted;
  for (int i = 0; i < result.drafted; i++) s.drafted_at[i]++;
  for (int i = 0; i < result.accepted; i++) s.accepted_at[i]++;
  s.draft_s += result.draft_s;
  s.verify_s += result.verify_s;
}

SpecCounters& SpecCounters::operator+=(const SpecCounters& other) {
  for (int k = 0; k < kDraftSources; k++) {
    Source& s = sources[k];
    const Source& o = other.sources[k];
    s.rounds += o.rounds;
    s.drafted += o.drafted;
    s.accepted += o.accepted;
    for (int i = 0; i < kMaxDraft; i++) {
      s.drafted_at[i] += o.drafted_at[i];
      s.accepted_at[i] += o.accepted_at[i];
    }
    s.draft_s += o.draft_s;
    s.verify_s += o.verify_s;
  }
  return *this;
}

int draft_class(DraftSource source, int ngram_match) {
  CHECK(source != DraftSource::none, "plain decoding has no class of drafts");
  if (source != DraftSource::ngram) return kNgramClasses + index_of(source) - index_of(DraftSource::mtp);
  return ngram_match <= 2 ? 0 : ngram_match <= 4 ? 1 : ngram_match <= 8 ? 2 : 3;
}

SpecCosts::SpecCosts(const SpecStats& stats)
    : stats_(stats), exploration_(kExplorationStart), credit_(kCreditStart) {
  fit_verify();
}

void SpecCosts::fit_verify() {
  int rows = 1;  // the smallest number of rows that was measured
  while (rows < kMaxDraft + 1 && stats_.verify.weight[rows] <= 0) rows++;
  const bool known = stats_.verify.weight[rows] > 0;
  const double first = known ? stats_.verify.seconds[rows] / (1 + kRowCost * (rows - 1)) : 1;
  verify_costs_ = fit(stats_.verify, 1, first, kRowCost * first);
  round_s_ = known ? verify_costs_[1] : 0;
  const double unit = verify_costs_[1];
  for (double& cost : verify_costs_) cost /= unit;
}

SpecCosts::Curve SpecCosts::draft_costs(DraftSource source) const {
  const double unit = round_s_ > 0 ? round_s_ : 1;
  Curve curve = fit(stats_.draft[index_of(source)], 0, 0, kDraftCost[index_of(source)] * unit);
  for (double& cost : curve) cost /= unit;
  return curve;
}

Chances SpecCosts::acceptance(int draft_class) const {
  const AcceptanceCounts& counts = stats_.acceptance[draft_class];
  Chances chances;
  double p = kAcceptance[draft_class];
  // Each position starts from the estimate of the one before it.
  for (int i = 0; i < kMaxDraft; i++)
    chances[i] = p =
        clamp_probability((counts.accepted[i] + kModelPrior * p) / (counts.tried[i] + kModelPrior));
  return chances;
}

// A pass's time depends on its number of rows, and on the machine and the context, which affect all costs.
// Once the cost of this number of rows is well known, a change is mostly attributed to machine and context,
// so it changes all costs.
void SpecCosts::observe_verify(int rows, double seconds) {
  CostCurve& verify = stats_.verify;
  if (verify.weight[rows] == 0)
    verify.seconds[rows] = round_s_ > 0 ? round_s_ * verify_costs_[rows] : seconds;
  const bool mature = verify.weight[rows] >= kMature;
  const double step = learn(verify, rows, seconds);
  if (mature) {
    const double shared = std::exp(kShared * step);
    for (int i = 1; i <= kMaxDraft + 1; i++)
      if (i != rows) verify.seconds[i] *= shared;
    for (CostCurve& curve : stats_.draft)
      for (double& s : curve.seconds) s *= shared;
  }
  fit_verify();
}

void SpecCosts::observe_times(const RoundResult& result) {
  if (is_time(result.verify_s)) observe_verify(result.drafted + 1, result.verify_s);
  if (result.drafted == 0) return;
  // An n-gram proposal exists before the source is chosen, so it costs nothing.
  if (result.source == DraftSource::ngram || !is_time(result.draft_s) || round_s_ == 0) return;
  CostCurve& curve = stats_.draft[index_of(result.source)];
  if (curve.weight[result.drafted] == 0)
    curve.seconds[result.drafted] = draft_costs(result.source)[result.drafted] * round_s_;
  learn(curve, result.drafted, result.draft_s);
}

SpecController::SpecController(SpecCosts& costs, SpecMode mode) : costs_(costs), mode_(mode) {
  const bool plain_known = costs.stats_.verify.weight[1] >= kMature;
  arms_.fill({kProbeUnknownAfter, kProbeUnknownAfter});
  if (plain_known) arms_[kPlainArm] = {kProbeAfter, kProbeAfter};
  for (int c = 0; c < kDraftClasses; c++)
    if (costs.stats_.acceptance[c].tried[0] >= kKnown) arms_[kFirstClassArm + c] = {kProbeAfter, kProbeAfter};
}

// Estimates the chances from the sequence's own counts, with the model's chances as a prior. If the sequence
// deviates from other sequences at one position, it is expected to deviate in part at the next.
Chances SpecController::acceptance(int draft_class) const {
  const AcceptanceCounts& counts = acceptance_[draft_class];
  Chances chances = costs_.acceptance(draft_class);
  double surprise = 0;
  for (int i = 0; i < kMaxDraft; i++) {
    const double model = logit(chances[i]), prior = logistic(model + kCarry * surprise);
    chances[i] =
        clamp_probability((counts.accepted[i] + kSequencePrior * prior) / (counts.tried[i] + kSequencePrior));
    surprise = logit(chances[i]) - model;
  }
  return chances;
}

const Chances& SpecController::recent_acceptance(int draft_class) const {
  Recent& recent = recent_[draft_class];
  const long counted = costs_.counted_[draft_class];
  if (recent.counted < 0 || counted - recent.counted > kRecent) recent = {counted, acceptance(draft_class)};
  return recent.chances;
}

SpecController::Options SpecController::options(DraftSource source, const RoundLimits& limits) const {
  Options options;
  if (!limits.available[index_of(source)]) return options;
  options.longest = std::min(limits.max_drafts, kMaxDraft);
  if (source == DraftSource::ngram) options.longest = std::min(options.longest, limits.ngram_length);
  if (mode_.depth > 0) options.longest = std::min(options.longest, mode_.depth);
  if (mode_.automatic && costs_.credit_ < 0) options.longest = std::min(options.longest, 1);
  if (options.longest <= 0) return {};

  const Chances chances = acceptance(draft_class(source, limits.ngram_match));
  const SpecCosts::Curve draft = costs_.draft_costs(source);
  double path = 1, tokens = 1;
  for (int n = 1; n <= options.longest; n++) {
    tokens += path *= chances[n - 1];
    options.at[n] = {{source, n}, tokens, costs_.verify_costs()[n + 1] + draft[n]};
    if (n == 1 || options.at[n].rate() > options.best.rate()) options.best = options.at[n];
  }
  if (held_.source == source && held_.depth <= options.longest &&
      options.best.rate() < kOtherDepth * options.at[held_.depth].rate())
    options.best = options.at[held_.depth];
  return options;
}

int SpecController::arm_of(DraftSource source, int ngram_match) {
  return source == DraftSource::none ? kPlainArm : kFirstClassArm + draft_class(source, ngram_match);
}

// The option with the best rate; a change from the held choice must promise a little more. If the request
// fixes a source and it can draft, the result is never plain decoding.
SpecController::Option SpecController::best_option(const AllOptions& all) const {
  Option best;
  double best_value = 0;
  for (const Options& options : all) {
    if (options.longest == 0) continue;
    const bool held = options.best.choice.source == held_.source;
    const double value = options.best.rate() * (held ? kOtherSource : 1);
    if (value <= best_value) continue;
    best = options.best;
    best_value = value;
  }
  const double enter = held_.source == DraftSource::none ? kEnter : 1;

  return mode_.automatic && best.rate() < enter ? Option{} : best;
}

// The option that a trial of the arm would use now; plain if there is none.
SpecController::Option SpecController::arm_option(int arm, const AllOptions& all, const Option& best,
                                                  int ngram_match) const {
  if (arm == kDeeperArm) {
    const Options& options = all[index_of(best.choice.source)];
    const int depth = best.choice.depth + 1;
    if (best.choice.depth == 0 || depth > options.longest) return {};
    const double rows_tried = costs_.stats_.verify.weight[depth + 1];
    const int c = draft_class(best.choice.source, ngram_match);
    const bool known = rows_tried >= 3 && costs_.stats_.acceptance[c].tried[depth - 1] >= 8;
    return known ? Option{} : options.at[depth];
  }
  for (int k = 1; k < kDraftSources; k++) {
    const DraftSource source = static_cast<DraftSource>(k);
    if (arm_of(source, ngram_match) != arm || all[k].longest == 0 || source == best.choice.source) continue;
    return all[k].at[std::min(all[k].best.choice.depth, kProbeDepth)];
  }
  return {};
}

// Records the best choice; it needs no trial for a while.
void SpecController::hold(const DraftDecision& choice, int ngram_match) {
  arms_[arm_of(choice.source, ngram_match)] = {round_ + kProbeAfter, kProbeAfter};
  // N-gram proposals come and go, so the choice without them stays held.
  if (choice.source != DraftSource::ngram) held_ = choice;
}

// Automatic mode guarantees three things. It makes the choice with the best rate, unless that is hardly
// better than the held one. It loses at most a few rounds plus a small share of the time against plain
// decoding (credit_). Trials lose at most as much again (exploration_): a source that loses is parked, and
// tried again after 16, 32, ... 256 rounds.
DraftDecision SpecController::choose(const RoundLimits& limits) {
  trying_ = -1;
  best_rate_ = 1;
  if (limits.max_drafts <= 0) return {};
  const bool unmeasured = costs_.stats_.verify.weight[1] < kFirstPlain && round_ < kFirstPlain;
  if (mode_.automatic && unmeasured) return {};

  const bool overdrawn = mode_.automatic && costs_.credit_ < -kCreditShort;
  AllOptions all;
  for (int k = 1; k < kDraftSources; k++) {
    const DraftSource source = static_cast<DraftSource>(k);
    if (mode_.automatic || mode_.source == source) all[k] = options(source, limits);
  }
  if (!mode_.automatic && mode_.depth > 0) {
    const int longest = all[index_of(mode_.source)].longest;
    return longest > 0 ? DraftDecision{mode_.source, longest} : DraftDecision{};
  }
  const Option best = overdrawn ? Option{} : best_option(all);
  hold(best.choice, limits.ngram_match);

  best_rate_ = best.rate();
  for (int arm = 0; arm < kArms; arm++) {
    if (round_ < arms_[arm].due || (arm == kPlainArm && !mode_.automatic)) continue;
    const Option option = arm_option(arm, all, best, limits.ngram_match);
    const bool different =
        option.choice.source != best.choice.source || option.choice.depth != best.choice.depth;
    if (!different || (option.choice.depth == 0 && arm != kPlainArm)) continue;
    // All costs are relative to a plain round, so where that is cheap it is measured often.
    const double allowed = arm == kPlainArm ? std::max(kCheap, costs_.exploration_) : costs_.exploration_;
    if (option.cost - option.tokens / best_rate_ > allowed) continue;

    trying_ = arm;
    return option.choice;
  }
  return best.choice;
}

void SpecController::observe_shared(const RoundResult& result) {
  CHECK(0 <= result.accepted && result.accepted <= result.drafted && result.drafted <= kMaxDraft,
        "a round of {} drafts, {} of them accepted", result.drafted, result.accepted);
  counters_.add(result);
  if (result.drafted == 0) return;
  const int c = draft_class(result.source, result.ngram_match);
  count(costs_.stats_.acceptance[c], result, kModelMemory);
  count(acceptance_[c], result, kSequenceMemory);
  costs_.counted_[c]++;
  recent_[c].counted = -1;
}

void SpecController::observe(const RoundResult& result) {
  observe_shared(result);
  costs_.observe_times(result);
  round_++;

  const double tokens = 1 + result.accepted;
  const double cost =
      costs_.verify_costs()[result.drafted + 1] + costs_.draft_costs(result.source)[result.drafted];
  if (mode_.automatic)  // losses of a source that the request fixed do not count
    costs_.credit_ =
        std::clamp(costs_.credit_ + tokens - (1 - kCreditShare) * cost, -2 * kCreditShort, kCreditMost);
  double& exploration = costs_.exploration_;
  exploration += kExplorationShare * cost;
  if (trying_ >= 0) {
    const double loss = cost - tokens / best_rate_;
    exploration -= loss;
    Arm& arm = arms_[trying_];
    if (loss < 0) {
      arm = {round_, kProbeAfter};
    } else {
      const bool often = trying_ == kPlainArm && loss < kCheap;
      arm = {round_ + arm.interval, often ? arm.interval : std::min(2 * arm.interval, kProbeAtMost)};
    }
    trying_ = -1;
  }
  exploration = std::clamp(exploration, -kExplorationMost, kExplorationMost);
}

}  // namespace anabranch
