// A key for the contents of a model's files.
#pragma once

#include <string>

#include "base/result.h"
#include "cache/prefix_key.h"

namespace anabranch {

// Hashes every byte of config.json and the weights of a model directory, or of a single-file model with all
// its parts (some GB/s from the page cache). Errors: io.
//
// memory: a directory, or empty. The hash of a file is kept there, in a file `weights-<16 digits>` of the
// model's, and is not made again while the system's notes on the file (device, inode, size, times of change)
// are the same.
Result<Fingerprint> weights_key(const std::string& model_path, const std::string& memory = {});

// Removes what weights_key() keeps in the directory.
void forget_weights(const std::string& memory);

}  // namespace anabranch
