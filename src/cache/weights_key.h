// What tells one model's files from another's.
#pragma once

#include <string>

#include "base/result.h"
#include "cache/prefix_key.h"

namespace anabranch {

// Of every byte of config.json and the weights of a model directory, or of the one file that a model is.
// Reads them all (10 GB/s from the page cache). Errors: io.
Result<Fingerprint> weights_key(const std::string& model_path);

}  // namespace anabranch
