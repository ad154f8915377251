#include "engine/step_costs.h"

#include <algorithm>
#include <numeric>

namespace anabranch {
namespace {

// The weight of the newest step with prefill, and of a step that took less than half of the expected time,
// which is never a measurement error.
constexpr double kGain = 0.3, kMuchFasterGain = 0.7;
// Weights of the newest decode-only step. The estimate should be the undisturbed time, and disturbances only
// slow a step down, so a slower sample counts less. A sample below half the estimate replaces it.
constexpr double kSlowerGain = 0.1, kFasterGain = 0.5;
// A sample counts as at most this multiple of the expected time, because something else may have slowed it
// down.
constexpr double kSlowest = 2;
// At least this share of a step's time is attributed to its prefill.
constexpr double kLeastShare = 0.05;
// After this many steps with prefill, a decode-only step is measured again.
constexpr int kMeasureAfter = 32;
// A step may have at most kGrowth times the prompt tokens of recent steps. The record of older steps decays
// by these factors per step.
constexpr double kGrowth = 4, kForget = 0.9, kForgetLargest = 0.99;
// How an error of the estimate is distributed: below about kFewTokens tokens mostly to the fixed cost, and
// above about kFarPosition mostly to attention.
constexpr double kFewTokens = 64, kFarPosition = 4096;
// A step with this many prompt tokens is large.
constexpr double kMuch = 512;

using Terms = StepCosts::Terms;

Terms terms(double tokens, double positions, double fixed) {
  return {tokens / kFewTokens, positions / (kFewTokens * kFarPosition), fixed};
}

double dot(const Terms& a, const Terms& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

}  // namespace

// If no step with `decoding` sequences was measured: interpolates between the nearest measured counts, at
// most a quarter below and above it. With one of them only: the lower one's time, or the upper one's scaled.
double StepCosts::decode_s(int decoding) const {
  // More sequences never take less time. If they seem to, the estimate for fewer is too high, for instance
  // because a kernel was compiled in that step.
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

// Fits the three costs to the newest step by normalised least mean squares: each cost takes a share of the
// error in proportion to the square of its term, and none falls below 0. Steps with prefill alone give an
// upper bound, and are used only until the first step with both prefill and decoding.
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
    // After much larger steps, a step of few tokens says little about the cost of a token, so its error is
    // not scaled up.
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
