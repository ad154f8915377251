// Safetensors files and their config.json as a checkpoint: MLX triples joined, names folded, norms told
// apart.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/file_bytes.h"
#include "checkpoint/store.h"

namespace anabranch {

// The tensors of files that together are one model.
Result<std::vector<Entry>> read_safetensors(const Json& config, const std::string& config_path,
                                            std::vector<FileBytes> files);

Result<StoreParts> open_safetensors_directory(const std::string& path);
Result<StoreParts> open_safetensors_file(const std::string& path);

}  // namespace anabranch
