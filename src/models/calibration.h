// What `anabranch calibrate` found out about a model by running it on text, kept beside it in
// speculation.json: which tokens drafts should be chosen from, and which of its own layers make good drafts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace anabranch {

// Agreement: how often the most likely token (of the draft vocabulary) is the full model's, on text.
// Rate: tokens a second that drafts promise, against decoding without any (decode/calibrate.h).
struct Calibration {
  int layers = 0;    // of the model that was measured; 0: not said
  std::string text;  // what was measured on, for people
  int tokens = 0;    // of it, that were predicted

  std::vector<int> draft_vocab;  // ascending; empty: not calibrated
  double vocab_coverage = 0;     // share of tokens of text that it was not made from

  std::vector<int> exit_layers;  // 0 .. n - 1
  double exit_agreement = 0, exit_rate = 0;
  std::vector<int> skip_layers;  // that are left out, ascending
  double skip_agreement = 0, skip_rate = 0;

  // Of the text, with all layers, and without skip_layers: what leaving them out for good costs. 0: unknown.
  double perplexity = 0, skip_perplexity = 0;
  double lossy_agreement = 0;  // of the model without skip_layers
};

// Where it is kept: speculation.json in the directory or beside the .safetensors file; for model.gguf,
// model.speculation.json beside it, since folders of GGUF files hold several models.
std::string calibration_path(const std::string& model_path);

// Keys that are not known are passed over. Errors: invalid (not what calibration_text writes).
Result<Calibration> parse_calibration(std::string_view text);
std::string calibration_text(const Calibration& calibration);

// Error (invalid) unless it can be of a model with so many layers.
Result<void> check_calibration(const Calibration& calibration, int layers);

// Writes the file whole, or not at all. Error: io.
Result<void> save_calibration(const Calibration& calibration, const std::string& path);

}  // namespace anabranch
