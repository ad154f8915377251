// A key for the contents of a model's files.
#pragma once

#include <string>

#include "base/result.h"
#include "cache/prefix_key.h"

namespace anabranch {

// Hashes every byte of config.json and the weights of a model directory, or of a single-file model. Reads all
// of them (10 GB/s from the page cache). Errors: io.
Result<Fingerprint> weights_key(const std::string& model_path);

}  // namespace anabranch
