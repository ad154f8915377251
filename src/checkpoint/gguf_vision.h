// A vision tower as llama.cpp's converter writes it: a GGUF file of its own ("mmproj"), with names and
// metadata in Hugging Face's terms.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/file_bytes.h"
#include "checkpoint/store.h"

namespace anabranch {

// The file mmproj*.gguf (in capitals or not) in the directory of a model's file; of several the first by
// name. For a model below a snapshot of Hugging Face's store that has none beside it, the one at the
// snapshot's top.
std::optional<std::string> find_mmproj(const std::string& model_path);

// Errors: as read_gguf(), and unsupported (another kind of tower).
Result<StoreParts> read_mmproj(const FileBytes& file);
Result<StoreParts> open_mmproj(const std::string& path);

}  // namespace anabranch
