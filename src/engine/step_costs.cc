#include "engine/step_costs.h"

#include <algorithm>
#include <numeric>

namespace anabranch {
namespace {

// The weight of the newest step with prefill; and of one that took less than half of what was expected, which
// never happens by accident.
constexpr double kGain = 0.3, kMuchFasterGain = 0.7;
// Steps without prefill are slow by accident more often than fast, and what they take when nothing disturbs
// them is wanted; one below half the estimate shows that the estimate was an accident.
constexpr double kSlowerGain = 0.1, kFasterGain = 0.5;
// A step counts as at most so many times as slow as expected: it may have been slow by accident.
constexpr double kSlowest = 2;
// The least share of a step's time that its prefill is taken to have cost.
constexpr double kLeastShare = 0.05;
// After so many steps with prefill, one without is measured again.
constexpr int kMeasureAfter = 32;
// A step has at most so many times the prompt tokens of recent ones, which are forgotten by and by.
constexpr double kGrowth = 4, kForget = 0.9, kForgetLargest = 0.99;
// Where an error of the estimate is put: down to about this many tokens it is the fixed cost's, and from
// about this position on it is attention's.
constexpr double kFewTokens = 64, kFarPosition = 4096;
// Steps of so many tokens are large.
constexpr double kMuch = 512;

using Terms = StepCosts::Terms;

Terms terms(double tokens, double positions, double fixed) {
  return {tokens / kFewTokens, positions / (kFewTokens * kFarPosition), fixed};
}

double dot(const Terms& a, const Terms& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace

// Counts that were not seen take what their neighbours do, if one within a quarter is known.
double StepCosts::decode_s(int decoding) const {
  // More sequences never take less: where they seem to, the estimate for fewer was an accident, such as a
  // kernel's compilation.
  const auto known = [&](int n) {
    if (n <= 0 || n >= static_cast<int>(decode_s_.size())) return 0.0;
    double least = decode_s_[static_cast<size_t>(n)];
    for (auto m = static_cast<size_t>(n) + 1; least > 0 && m < decode_s_.size(); m++)
      if (decode_s_[m] > 0) least = std::min(least, decode_s_[m]);
    return least;
  };
  int below = decoding, above = decoding;
  while (below > decoding - decoding / 4 && known(below) <= 0) below--;
  while (above < decoding + decoding / 4 && known(above) <= 0) above++;
  const double least = known(below), most = known(above);
  if (least > 0 && most > 0 && above > below)
    return least + (most - least) * (decoding - below) / (above - below);
  return least > 0 ? least : most * decoding / std::max(above, 1);
}

bool StepCosts::should_measure(int decoding) const {
  return steps_beside_ >= kMeasureAfter || decode_s(decoding) <= 0;
}

double StepCosts::prefill_s(int tokens, double positions) const {
  return dot(costs_, terms(tokens, positions, std::max(1.0, tokens / std::max(tried_, 1.0))));
}

int StepCosts::most_tokens() const {
  return static_cast<int>(kGrowth * tried_);
}

void StepCosts::observe(const StepLoad& load, double seconds) {
  if (!(seconds > 0)) return;
  if (load.prompt_tokens > 0)
    observe_prefill(load, seconds);
  else if (load.decoding > 0)
    observe_decode(load.decoding, seconds);
}

void StepCosts::observe_decode(int decoding, double seconds) {
  const auto i = static_cast<size_t>(decoding);
  if (i >= decode_s_.size()) decode_s_.resize(i + 1);
  double& estimate = decode_s_[i];
  if (estimate <= 0 || seconds < estimate / 2)
    estimate = seconds;
  else
    estimate += (seconds > estimate ? kSlowerGain : kFasterGain) *
                (std::min(seconds, kSlowest * estimate) - estimate);
  steps_beside_ = 0;
}

// Until prefill was seen beside decoding sequences, a step of prefill alone tells what it costs at most.
// Later the costs move towards the newest step (normalised least mean squares): each takes a share of the
// error by the square of its weight, and none falls below 0.
void StepCosts::observe_prefill(const StepLoad& load, double seconds) {
  if (load.decoding == 0 && beside_) return;
  if (load.decoding > 0) {
    steps_beside_++;
    beside_ = true;
  }
  const Terms step = terms(load.prompt_tokens, load.positions, load.decoding > 0 ? 1 : 0);
  const double added = std::max(seconds - decode_s(load.decoding), kLeastShare * seconds);
  if (observed_ == 0) {
    costs_[0] = added / step[0];
  } else {
    const double expected = dot(costs_, step);
    const double gain = added < expected / 2 ? kMuchFasterGain : std::max(kGain, 1.0 / (observed_ + 1));
    const double error = gain * (std::min(added, kSlowest * expected) - expected);
    Terms share{};
    for (size_t i = 0; i < share.size(); i++) share[i] = error < 0 && costs_[i] <= 0 ? 0 : step[i];
    // Beside much larger steps, one of few tokens says little of what a token costs: its error is not blown
    // up.
    const double experience = std::min(1.0, largest_ / kMuch);
    const double sum = std::max(experience * experience, dot(share, share));
    for (size_t i = 0; i < share.size() && sum > 0; i++)
      costs_[i] = std::max(0.0, costs_[i] + error * share[i] / sum);
  }
  observed_ = std::min(observed_ + 1, 1000);
  tried_ = std::max<double>(load.prompt_tokens, kForget * tried_);
  largest_ = std::max<double>(load.prompt_tokens, kForgetLargest * largest_);
}

}  // namespace anabranch
