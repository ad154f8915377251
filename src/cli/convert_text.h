// Measurements of `convert` on text: the importance of inputs for the weights, and perplexity before and
// after.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/importance.h"
#include "models/divergence.h"

namespace anabranch::cli {

using Documents = std::vector<std::vector<int>>;  // tokens

struct ConvertTexts {
  std::string calibration, perplexity;  // paths; "": none

  bool empty() const { return calibration.empty() && perplexity.empty(); }
};

// The path without its folders.
std::string file_name(const std::string& path);

struct SourceFindings {
  Importance importance;
  int64_t calibration_tokens = 0;
  Documents held_out;  // for measuring perplexity; tokenized by the source's tokenizer
};

// Loads the source on the CPU, with fp32 activations. Errors: as load_model's; invalid (a text that cannot be
// read, or is too short).
Result<SourceFindings> measure_source(const std::string& source, const ConvertTexts& texts);

// Compares the converted model's predictions with the source's. Loads the source again.
Result<Comparison> measure_result(const std::string& source, const std::string& output,
                                  const Documents& held_out);

// For the recipe of the output: {"calibration": {...}, "perplexity": {...}}.
Json findings_json(const ConvertTexts& texts, const SourceFindings& source, const Comparison& result);

}  // namespace anabranch::cli
