// Measures the best settings for a model on this machine: `doctor --tune`.
#pragma once

#include <string>
#include <vector>

#include "cli/tuning.h"
#include "engine/tuning_choice.h"

namespace anabranch::cli {

// One setting: its best value, and the value that would be used without tuning.
struct TunedSetting {
  std::string flag;
  int usual = 0, best = 0;
  double usual_rate = 0, best_rate = 0;  // tok/s
  std::string of;                        // what was measured: "decode and prefill", ...
  MeasuredRates measured;                // every value that was tried
};
struct TuneReport {
  Tuning tuning;
  std::vector<TunedSetting> settings;
};

// Takes about `seconds`, and longer with models so slow that they need it. Errors: those of loading.
Result<TuneReport> tune(const EngineOptions& options, double seconds);

}  // namespace anabranch::cli
