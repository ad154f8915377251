// The multi-token prediction head of Qwen3.5's families (tensors "mtp.*"): checks whether a checkpoint has
// the head that its config.json promises, and adds it to a model directory that lacks it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"

namespace anabranch {

// A sentence for people if config.json promises a head that is missing, otherwise "". With the name of a
// model directory, the sentence also says how to add the head to it.
std::string missing_mtp_note(const Checkpoint& checkpoint, const std::string& directory = "");

struct MtpReport {
  std::string file;  // the file that was written
  int tensors = 0;
  uint64_t bytes = 0;  // of the file
  std::vector<std::string> warnings;
};

// Writes the head of `original` as `model`/mtp.safetensors, in bf16, with Hugging Face's names and norms (w
// of 1 + w), and enters it into the index, if there is one. No other file of the model is touched. `original`
// is a directory (of which only the shards that hold mtp.* need to be there), a .safetensors file (also one
// whose names lack the "mtp."), or a .gguf file. A crash leaves a model that loads.
// Errors: invalid (the model has a head already and not `force`, or keeps it among other tensors; a tensor is
// missing, misshapen or of another kind of model), not_found (no head in `original`), unsupported (a family
// without such a head), io, and what Checkpoint::open says about `model`.
Result<MtpReport> add_mtp_head(const std::string& model, const std::string& original, bool force);

}  // namespace anabranch
