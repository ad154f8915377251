// What `convert` measures on text: which inputs matter, and perplexity before and after.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/importance.h"
#include "models/perplexity.h"

namespace anabranch::cli {

using Documents = std::vector<std::vector<int>>;  // tokens

struct ConvertTexts {
  std::string calibration, perplexity;  // paths; "": none

  bool empty() const { return calibration.empty() && perplexity.empty(); }
};

struct SourceFindings {
  Importance importance;
  int64_t calibration_tokens = 0;
  Documents held_out;  // that perplexity is measured on; by the tokenizer of the source
  Likelihood before;
};

// Loads the source on the CPU, with fp32 activations. Errors: as load_model's; invalid (a text that cannot be
// read, or is too short).
Result<SourceFindings> measure_source(const std::string& source, const ConvertTexts& texts);

// Of the converted model, on the same tokens.
Result<Likelihood> measure_result(const std::string& output, const SourceFindings& source);

// For the recipe of the output: {"calibration": {...}, "perplexity": {...}}.
Json findings_json(const ConvertTexts& texts, const SourceFindings& source, const Likelihood& after);

}  // namespace anabranch::cli
