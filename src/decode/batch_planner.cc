#include "decode/batch_planner.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace anabranch {
namespace {

// Costs are learnt by class of the number of draft rows. Each entry is the upper end of a class.
constexpr std::array<int, 20> kClassRows = {0,  1,  2,  3,  4,   6,   8,   12,  16,   24,
                                            32, 48, 64, 96, 128, 192, 256, 512, 1024, 4096};
// Assumptions before any measurement: the cost of a draft row as a share of a sequence's cost, and the number
// of rows for which this assumption counts.
constexpr double kRowShare = 0.5, kRowPrior = 4;
constexpr double kMoreChains = 0.1;  // the share by which each further sequence makes drafting slower

constexpr double kMemory = 12;  // number of samples that an average remembers
// If the time of a row class with at least kMature samples changes, all other classes change by this share of
// it.
constexpr double kShared = 0.8, kMature = 8;
constexpr double kSlowest = 2;  // a slow sample counts as at most this multiple of the estimate
constexpr double kKnown = 3;    // samples after which the time of a row class is known
constexpr int kFirstPlain = 2;  // steps without drafts that are measured first
// To replace the held plan, another must be better by this factor: kEnter if the held plan is plain decoding,
// otherwise kHeld.
constexpr double kEnter = 1.03, kHeld = 1.02;
// If a request sets the source but no depth: one more token is drafted while the chance that the whole draft
// is accepted with it is at least this.
constexpr double kAsked = 0.3;
constexpr double kWorthless = 0.03;
// Limits on trials of plans that seem worse: the share of time that they may lose; the account of this time,
// in plain steps (maximum, at the start); and the loss of a plain step that is always allowed. Then the steps
// until the next trial.
constexpr double kTryShare = 0.006, kTryMost = 2, kTryStart = 1.5, kCheap = 0.1;
constexpr int kTryAfter = 16, kTryFirst = 4, kTryAtMost = 512;
constexpr long kParkedAfter = 64;

int class_of_rows(int rows) {
  const auto* at = std::lower_bound(kClassRows.begin(), kClassRows.end(), rows);
  return static_cast<int>(std::min<std::ptrdiff_t>(at - kClassRows.begin(), kClassRows.size() - 1));
}

// Classes of sequence counts: 1 wide up to 16, then 4 wide up to 64, then 16 wide.
size_t class_of_load(int sequences) {
  if (sequences <= 16) return static_cast<size_t>(sequences);
  return static_cast<size_t>(sequences <= 64 ? 16 + (sequences - 13) / 4 : 28 + (sequences - 49) / 16);
}

int index_of(DraftSource source) {
  return static_cast<int>(source);
}

bool runs_model(int source) {
  return source > index_of(DraftSource::ngram);
}

// Adds a sample to an average of logarithms, as in spec_controller.cc: a sample below half the estimate
// replaces it. Returns the change of the logarithm.
double learn(double& estimate, double& weight, double sample) {
  const double surprise = std::log(sample / estimate), gain = 1 / std::min(weight + 1, kMemory);
  const double step = surprise < -std::log(2) ? surprise : gain * std::min(surprise, std::log(kSlowest));
  estimate *= std::exp(step);
  weight = std::min(weight + 1, kMemory);
  return step;
}

}  // namespace

// Pools adjacent points that would make the line fall (monotone regression).
void BatchPlanner::Load::fit() {
  line.clear();
  for (const Point& point : points) {
    if (point.weight <= 0) continue;
    line.push_back(point);
    while (line.size() > 1 && line[line.size() - 2].seconds > line.back().seconds) {
      Point& before = line[line.size() - 2];
      const Point last = line.back();
      const double weight = before.weight + last.weight;
      before.seconds = (before.seconds * before.weight + last.seconds * last.weight) / weight;
      before.weight = weight;
      line.pop_back();
    }
  }
}

// The time is linear between the points of `line`. Beyond the last one it rises with the mean slope, mixed
// with the assumed cost of a row.
double BatchPlanner::Load::pass_s(double rows) const {
  const Point &first = line.front(), &last = line.back();
  if (rows <= first.rows) return first.seconds;
  const auto above = std::find_if(line.begin(), line.end(), [&](const Point& p) { return p.rows >= rows; });
  if (above != line.end()) {
    const Point& below = *(above - 1);
    return std::lerp(below.seconds, above->seconds, (rows - below.rows) / (above->rows - below.rows));
  }
  const double assumed = kRowShare * first.seconds / sequences;
  const double slope =
      (last.seconds - first.seconds + kRowPrior * assumed) / (last.rows - first.rows + kRowPrior);
  return last.seconds + (rows - last.rows) * slope;
}

// A load that was never measured starts with the costs of the nearest one.
BatchPlanner::Load& BatchPlanner::load_of(int sequences) {
  const size_t at = class_of_load(sequences);
  if (at >= loads_.size()) loads_.resize(at + 1);
  if (loads_[at].sequences > 0) return loads_[at];
  const Load* nearest = nullptr;
  for (const Load& load : loads_)
    if (load.sequences > 0 && !load.inherited && !load.line.empty() &&
        (!nearest || std::abs(load.sequences - sequences) < std::abs(nearest->sequences - sequences)))
      nearest = &load;
  Load load;
  if (nearest) {
    load = *nearest;
    for (Point& point : load.points) point.weight = std::min(point.weight, 1.0);
    for (ChainCost& chain : load.chains) chain.weight = std::min(chain.weight, 1.0);
    load.inherited = true;
    load.steps = 0;
  }
  load.sequences = sequences;
  load.probes.fill({kTryFirst, kTryFirst});
  loads_[at] = std::move(load);
  return loads_[at];
}

double BatchPlanner::chain_s(const Load& load, DraftSource source, int levels, int chains) const {
  const ChainCost& known = load.chains[index_of(source)];
  if (known.weight > 0)
    return (known.first_s + (levels - 1) * known.next_s) * (1 + chains) / (1 + known.chains);
  const double unit = costs_.round_s() > 0 ? costs_.round_s() : load.plain_s();
  return costs_.draft_costs(source)[levels] * unit * (1 + kMoreChains * (chains - 1));
}

// The drafts that the sequence may make. Chances are computed only for the sources under consideration.
BatchPlanner::SequenceEstimate BatchPlanner::estimate_of(
    const DraftCandidate& in, const std::array<bool, kDraftSources>& considered) const {
  SequenceEstimate estimate;
  const SpecMode& mode = in.controller->mode();
  int most = std::min(in.limits.max_drafts, kMaxDraft);
  if (mode.depth > 0) most = std::min(most, mode.depth);
  if (most <= 0) return estimate;
  const auto paths = [&](DraftSource source, std::span<double> out) {
    const Chances& chances = in.controller->recent_acceptance(draft_class(source, in.limits.ngram_match));
    double path = 1;
    for (size_t i = 0; i < out.size(); i++) out[i] = path *= chances[i];
  };
  const auto available = [&](DraftSource source) {
    return in.limits.available[index_of(source)] &&
           (mode.automatic ? considered[index_of(source)] : mode.source == source);
  };
  if (available(DraftSource::ngram)) estimate.ngram = std::min(in.limits.ngram_length, most);
  if (estimate.ngram > 0)
    paths(DraftSource::ngram, std::span(estimate.ngram_paths).first(static_cast<size_t>(estimate.ngram)));
  for (int k = index_of(DraftSource::mtp); k < kDraftSources; k++) {
    if (!available(static_cast<DraftSource>(k))) continue;
    estimate.levels[k] = std::min(most, kLevels);
    paths(static_cast<DraftSource>(k),
          std::span(estimate.paths[k]).first(static_cast<size_t>(estimate.levels[k])));
  }
  for (const double path : estimate.ngram_paths) estimate.ngram_tokens += path;
  if (mode.automatic) return estimate;
  const bool by_ngram = mode.source == DraftSource::ngram;
  const int longest = by_ngram                                                      ? estimate.ngram
                      : available(mode.source) && runs_model(index_of(mode.source)) ? most
                                                                                    : 0;
  if (longest == 0) return estimate;
  int depth = mode.depth > 0 ? longest : 1;
  if (mode.depth == 0 && by_ngram)
    while (depth < longest && estimate.ngram_paths[depth] >= kAsked) depth++;
  if (mode.depth == 0 && !by_ngram)
    while (depth < std::min(longest, kLevels) && estimate.paths[index_of(mode.source)][depth] >= kAsked)
      depth++;
  estimate.fixed = {mode.source, depth};
  return estimate;
}

bool BatchPlanner::takes_chain(const SequenceEstimate& estimate, const DraftPlan& plan) const {
  const int k = index_of(plan.source), levels = std::min(plan.levels, estimate.levels[k]);
  double tokens = 0;
  for (int i = 0; i < levels; i++) tokens += estimate.paths[k][i];
  return tokens > estimate.ngram_tokens;
}

// Finds the best cut: adds rows in descending order of their chances as long as they raise the rate. Chances
// fall along a draft, so only the end of a draft is ever cut off.
BatchPlanner::DraftPlan BatchPlanner::plan(const Load& load, const Base& base, DraftSource source,
                                           int levels) const {
  DraftPlan out;
  out.source = source;
  out.levels = levels;
  std::array<int, kBuckets> rows{};
  std::array<double, kBuckets> tokens{};
  const auto add = [&](double path) {
    if (path < kWorthless) return;
    const int bucket = std::min(static_cast<int>(path * kBuckets), kBuckets - 1);
    rows[bucket]++;
    tokens[bucket] += path;
  };
  for (const SequenceEstimate& estimate : estimates_) {
    if (estimate.fixed.depth > 0) continue;
    if (levels > 0 && takes_chain(estimate, out)) {
      out.chains++;
      for (int i = 0; i < std::min(levels, estimate.levels[index_of(source)]); i++)
        add(estimate.paths[index_of(source)][i]);
    } else {
      for (int i = 0; i < estimate.ngram; i++) add(estimate.ngram_paths[i]);
    }
  }
  const double drafting = base.seconds + (out.chains > 0 ? chain_s(load, source, levels, out.chains) : 0);
  Cut at{2, base.rows, base.tokens, load.pass_s(base.rows) + drafting};
  out.best = at;
  bool any = levels == 0;  // a plan with chains must draft at least one row
  for (int bucket = kBuckets - 1; bucket >= 0; bucket--) {
    if (rows[bucket] == 0) continue;
    at.chance = static_cast<double>(bucket) / kBuckets;
    at.rows += rows[bucket];
    at.tokens += tokens[bucket];
    at.seconds = load.pass_s(at.rows) + drafting;
    if (!any || at.rate() > out.best.rate()) {
      out.best = at;
      out.further = {};
      any = true;
    } else if (out.further.rows == 0 && load.points[class_of_rows(at.rows)].weight < kKnown) {
      out.further = at;
    }
  }
  return out;
}

DraftDecision BatchPlanner::choice(const SequenceEstimate& estimate, const DraftPlan& plan) const {
  if (estimate.fixed.depth > 0) return estimate.fixed;
  const double least = std::max(plan.best.chance, kWorthless);
  if (plan.levels > 0 && takes_chain(estimate, plan)) {
    const int k = index_of(plan.source);
    int depth = 0;
    while (depth < std::min(plan.levels, estimate.levels[k]) && estimate.paths[k][depth] >= least) depth++;
    return depth > 0 ? DraftDecision{plan.source, depth} : DraftDecision{};
  }
  int depth = 0;
  while (depth < estimate.ngram && estimate.ngram_paths[depth] >= least) depth++;
  return depth > 0 ? DraftDecision{DraftSource::ngram, depth} : DraftDecision{};
}

// Returns the plan with the best rate, or an alternative that is due for a trial.
BatchPlanner::DraftPlan BatchPlanner::choose_plan(Load& load,
                                                  const std::array<DraftPlan, kDraftSources>& plans,
                                                  bool measured) {
  const int plain_rows = plans[0].best.rows;
  const auto drafts = [&](int kind) { return kind == 0 || plans[kind].best.rows > plain_rows; };
  int kind = 0;
  double value = plans[0].best.rate() * (load.held == 0 ? kEnter : 1);
  for (int k = 1; k < kDraftSources; k++) {
    if (!drafts(k)) continue;
    const double its = plans[k].best.rate() * (k == load.held ? kHeld : 1);
    if (its <= value) continue;
    kind = k;
    value = its;
  }
  load.held = kind;
  load.probes[kind] = {load.steps + kTryAfter, kTryAfter};
  best_rate_ = plans[kind].best.rate();
  DraftPlan further = plans[kind];
  further.best = further.further;
  for (int k = 0; measured && k <= kDraftSources; k++) {
    const DraftPlan& plan = k == kDraftSources ? further : plans[k];
    const bool there = k == kDraftSources ? further.best.rows > 0 : k != kind && drafts(k);
    if (!there || load.steps < load.probes[k].due) continue;
    const double loss = plan.best.seconds - plan.best.tokens / best_rate_;
    if (loss > std::max(load.allowance, k == 0 ? kCheap * load.plain_s() : 0)) continue;
    trying_ = k;
    return plan;
  }
  return plans[kind];
}

BatchPlanner::Base BatchPlanner::base_of(const Load& load, int sequences) const {
  Base base{0, static_cast<double>(sequences), 0};
  std::array<int, kDraftSources> chains{}, levels{};
  for (const SequenceEstimate& estimate : estimates_) {
    const int k = index_of(estimate.fixed.source), depth = estimate.fixed.depth;
    if (depth == 0) continue;
    const std::span<const double> paths =
        runs_model(k) ? std::span<const double>(estimate.paths[k]) : estimate.ngram_paths;
    for (size_t i = 0; i < std::min(paths.size(), static_cast<size_t>(depth)); i++) base.tokens += paths[i];
    base.rows += depth;
    chains[k]++;
    levels[k] = std::max(levels[k], depth);
  }
  for (int k = 0; k < kDraftSources; k++)
    if (runs_model(k) && chains[k] > 0)
      base.seconds += chain_s(load, static_cast<DraftSource>(k), levels[k], chains[k]);
  return base;
}

// The best plan of each kind: without drafts, with n-grams only, with chains of each source.
std::array<BatchPlanner::DraftPlan, kDraftSources> BatchPlanner::plans_of(const Load& load,
                                                                          const Base& base) const {
  std::array<DraftPlan, kDraftSources> best;
  best[0].best = {2, base.rows, base.tokens, load.pass_s(base.rows) + base.seconds};
  best[1] = plan(load, base, DraftSource::none, 0);
  for (int k = index_of(DraftSource::mtp); k < kDraftSources; k++) {
    int longest = 0;
    for (const SequenceEstimate& estimate : estimates_)
      longest = std::max(longest, estimate.fixed.depth > 0 ? 0 : estimate.levels[k]);
    for (int n = 1; n <= longest; n++) {
      const DraftPlan deeper = plan(load, base, static_cast<DraftSource>(k), n);
      if (deeper.chains == 0 || (n > 1 && deeper.best.rate() <= best[k].best.rate())) break;
      best[k] = deeper;
    }
  }
  return best;
}

std::vector<DraftDecision> BatchPlanner::choose(int sequences, std::span<const DraftCandidate> candidates,
                                                bool measured) {
  CHECK(sequences >= 2 && candidates.size() <= static_cast<size_t>(sequences));
  trying_ = -1;
  steps_++;
  Load& load = load_of(sequences);
  std::array<bool, kDraftSources> considered{};
  for (int k = 0; k < kDraftSources; k++)
    considered[k] = !parked(static_cast<DraftSource>(k)) || !runs_model(k) ||
                    (measured && load.steps >= load.probes[k].due);
  estimates_.clear();
  for (const DraftCandidate& candidate : candidates) estimates_.push_back(estimate_of(candidate, considered));
  std::vector<DraftDecision> out;
  DraftPlan chosen;                                              // without drafts
  if (load.points[0].weight >= kFirstPlain || load.inherited) {  // plain steps are measured first
    chosen = choose_plan(load, plans_of(load, base_of(load, sequences)), measured);
  }
  expected_tokens_ = chosen.best.tokens;
  for (const SequenceEstimate& estimate : estimates_) out.push_back(choice(estimate, chosen));
  if (trying_ < 0)
    for (const DraftDecision& c : out) used_[index_of(c.source)] = steps_;
  return out;
}

bool BatchPlanner::parked(DraftSource source) const {
  return steps_ - used_[index_of(source)] > kParkedAfter;
}

void BatchPlanner::observe_pass(Load& load, const BatchResult& step) {
  if (load.inherited && step.drafted == 0) {  // scale all inherited costs by the first measurement
    const double ratio = step.rest_s / load.plain_s();
    for (Point& point : load.points) point.seconds *= ratio;
    for (ChainCost& chain : load.chains) {
      chain.first_s *= ratio;
      chain.next_s *= ratio;
    }
    load.inherited = false;
  }
  Point& point = load.points[static_cast<size_t>(class_of_rows(step.drafted))];
  if (point.weight <= 0) {
    point = {static_cast<double>(step.drafted), step.rest_s, 1};
    if (load.allowance == 0) load.allowance = kTryStart * step.rest_s;
  } else {
    const bool mature = point.weight >= kMature;
    point.rows += (step.drafted - point.rows) / std::min(point.weight + 1, kMemory);
    const double shared = std::exp(kShared * learn(point.seconds, point.weight, step.rest_s));
    if (mature)
      for (Point& other : load.points)
        if (&other != &point) other.seconds *= shared;
  }
  load.fit();
}

void BatchPlanner::observe_chains(Load& load, const BatchResult& step) const {
  if (step.chains == 0 || !runs_model(index_of(step.source)) || !(step.draft_s > 0)) return;
  ChainCost& chain = load.chains[index_of(step.source)];
  const double expected = chain_s(load, step.source, step.levels, step.chains);
  double scale = 1;
  if (chain.weight <= 0) {
    chain.first_s = chain_s(load, step.source, 1, step.chains);
    chain.next_s = step.levels > 1 ? (expected - chain.first_s) / (step.levels - 1) : chain.first_s;
    chain.weight = 1;
    scale = step.draft_s / expected;
  } else {
    const double more = (1.0 + step.chains) / (1 + chain.chains);  // scale the costs to this number of chains
    chain.first_s *= more;
    chain.next_s *= more;
    learn(scale, chain.weight, step.draft_s / expected);
  }
  chain.chains = step.chains;
  chain.first_s *= scale;
  if (step.levels > 1) chain.next_s *= scale;
}

void BatchPlanner::observe_trial(Load& load, double seconds) {
  if (trying_ < 0) return;
  const double loss = seconds - expected_tokens_ / best_rate_;
  Probe& probe = load.probes[trying_];
  const bool cheap = trying_ == 0 && loss < kCheap * load.plain_s();
  load.allowance -= loss;
  if (loss < 0)
    probe = {load.steps, kTryAfter};
  else
    probe = {load.steps + probe.interval, cheap ? probe.interval : std::min(2 * probe.interval, kTryAtMost)};
  trying_ = -1;
}

void BatchPlanner::observe(const BatchResult& step) {
  if (std::isfinite(step.rest_s) && step.rest_s > 0 && step.sequences >= 2) {
    Load& load = load_of(step.sequences);
    const double seconds = step.rest_s + step.draft_s;
    load.steps++;
    observe_pass(load, step);
    observe_chains(load, step);
    load.allowance += kTryShare * seconds;
    observe_trial(load, seconds);
    const double most = kTryMost * load.plain_s();
    load.allowance = std::clamp(load.allowance, -most, most);
  }
  trying_ = -1;
}

}  // namespace anabranch
