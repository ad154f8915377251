// What `anabranch calibrate` found out about a model by running it on text, kept beside it in
// speculation.json: which tokens drafts should be chosen from, and which of its own layers make good drafts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace anabranch {

constexpr const char* kCalibrationFile = "speculation.json";

// Agreement: how often the most likely token is the full model's, on text.
struct Calibration {
  std::vector<int> draft_vocab;  // ascending; empty: not calibrated
  double vocab_coverage = 0;     // share of the text's tokens
  std::vector<int> exit_layers;  // 0 .. n - 1
  double exit_agreement = 0;
  std::vector<int> skip_layers;  // that are left out, ascending
  double skip_agreement = 0;
  // Perplexity of the text with all layers, and without skip_layers: what leaving them out for good costs.
  double perplexity = 0, skip_perplexity = 0;
};

// Errors: invalid (not what calibration_text writes).
Result<Calibration> parse_calibration(std::string_view text);
std::string calibration_text(const Calibration& calibration);

}  // namespace anabranch
