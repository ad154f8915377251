// A vision tower as llama.cpp's converter writes it, a GGUF file of its own ("mmproj"), or as Ollama does,
// within the model's file: with names and metadata in Hugging Face's terms.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/file_bytes.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_split.h"
#include "checkpoint/store.h"

namespace anabranch {

// The file *mmproj*.gguf (in capitals or not) in the directory of a model's file; of several the one that
// shares the most words with the model's name, and then the first by name. For a model below a snapshot of
// Hugging Face's store that has none beside it, the one at the snapshot's top.
std::optional<std::string> find_mmproj(const std::string& model_path);

// Errors: as read_gguf(), and unsupported (another kind of tower).
Result<StoreParts> read_mmproj(const FileBytes& file);
Result<StoreParts> open_mmproj(const std::string& path);

// Whether a tensor of a model's file belongs to a tower, for images or for sound.
bool is_tower_tensor(std::string_view name);
// The tower within a model's file. Errors: as read_mmproj(), of an architecture whose tower we do not have,
// too.
Result<StoreParts> read_inner_tower(const GgufParts& parts, const GgufConfig& model);

}  // namespace anabranch
