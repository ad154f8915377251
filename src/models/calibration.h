// The result of `anabranch calibrate`, which runs a model on text. Stored beside the model in
// speculation.json: the tokens from which drafts should be chosen, and the model's own layers that make good
// drafts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace anabranch {

// Agreement: how often, on text, the most likely token (of the draft vocabulary) after only these layers is
// also the full model's. Rate: the expected tokens per second with drafts, relative to decoding without any
// (decode/calibrate.h).
struct Calibration {
  int layers = 0;    // number of layers of the measured model; 0: not stated
  std::string text;  // description of the text, for people
  int tokens = 0;    // number of its tokens that were predicted

  std::vector<int> draft_vocab;  // ascending; empty: not calibrated
  double vocab_coverage = 0;  // share of tokens that draft_vocab covers, on text from which it was not made

  std::vector<int> exit_layers;  // the layers 0 .. n - 1 before an early exit
  double exit_agreement = 0, exit_rate = 0;
  std::vector<int> skip_layers;  // layers that drafts leave out, ascending
  double skip_agreement = 0, skip_rate = 0;

  // Perplexity of the text with all layers, and without skip_layers: the cost of leaving them out
  // permanently. 0: unknown.
  double perplexity = 0, skip_perplexity = 0;
  double lossy_agreement = 0;  // of the model without skip_layers
};

// The path of the calibration: speculation.json in the directory or beside the .safetensors file; for
// model.gguf, model.speculation.json beside it, since folders of GGUF files hold several models.
std::string calibration_path(const std::string& model_path);

// Ignores unknown keys. Errors: invalid (not the format of calibration_text).
Result<Calibration> parse_calibration(std::string_view text);
std::string calibration_text(const Calibration& calibration);

// Error (invalid) unless the calibration can belong to a model with this many layers.
Result<void> check_calibration(const Calibration& calibration, int layers);

// Writes the file whole, or not at all. Error: io.
Result<void> save_calibration(const Calibration& calibration, const std::string& path);

}  // namespace anabranch
