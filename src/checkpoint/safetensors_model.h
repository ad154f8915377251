// Safetensors files and their config.json as a checkpoint: MLX triples joined, names folded, norms told
// apart, experts of a mixture stacked.
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

Result<StoreParts> open_safetensors_directory(const std::string& path, Extent extent = Extent::whole);
Result<StoreParts> open_safetensors_file(const std::string& path, Extent extent = Extent::whole);

// Only the prediction head ("mtp.*") of a directory or file, empty if it has none. Of the files that the
// index names, only those of the head need to be there; config.json is only needed when the head is
// quantised.
Result<std::vector<Entry>> open_safetensors_mtp(const std::string& path);
// Whether a file holds tensors of the head and no others.
Result<bool> holds_only_mtp(const std::string& path);

}  // namespace anabranch
