// Safetensors files and their config.json as a checkpoint: MLX triples joined, names folded, norm conventions
// detected, experts of a mixture stacked.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/file_bytes.h"
#include "checkpoint/store.h"

namespace anabranch {

// The tensors of the files of one model.
Result<std::vector<Entry>> read_safetensors(const Json& config, const std::string& config_path,
                                            std::vector<FileBytes> files);

Result<StoreParts> open_safetensors_directory(const std::string& path, Extent extent = Extent::whole);
Result<StoreParts> open_safetensors_file(const std::string& path, Extent extent = Extent::whole);

// Only the prediction head ("mtp.*") of a directory or file, empty if it has none. Only the files that
// contain the head need to exist; config.json is needed only if the head is quantised.
Result<std::vector<Entry>> open_safetensors_mtp(const std::string& path);
// Whether a file holds tensors of the head and no others.
Result<bool> holds_only_mtp(const std::string& path);

}  // namespace anabranch
