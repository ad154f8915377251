// A key for the contents of a model's files.
#pragma once

#include <string>

#include "base/result.h"
#include "cache/prefix_key.h"

namespace anabranch {

// Hashes every byte of config.json and the weights of a model directory, or of a single-file model with all
// its parts (some GB/s from the page cache). Errors: io.
//
// memory: a directory, or empty. The hashes of a model's files are cached there, in a file `weights-<16
// digits>`. A hash is reused while the file's device, inode, size and times of change are the same.
Result<Fingerprint> weights_key(const std::string& model_path, const std::string& memory = {});

// Removes the files that weights_key() keeps in the directory.
void forget_weights(const std::string& memory);

}  // namespace anabranch
