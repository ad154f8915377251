// Reads a vision tower from a separate GGUF file ("mmproj"), as llama.cpp's converter writes it, or from the
// model's file, as Ollama writes it. Translates names and metadata to Hugging Face's.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/file_bytes.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/gguf_split.h"
#include "checkpoint/store.h"

namespace anabranch {

// Finds the file *mmproj*.gguf (in any case) in the directory of a model's file. If there are several, it
// prefers the one that shares the most words with the model's name, then the first by name. If there is none,
// and the directory lies in a snapshot of Hugging Face's store, it looks at the snapshot's top.
std::optional<std::string> find_mmproj(const std::string& model_path);

// Errors: those of read_gguf(), and unsupported (another kind of tower).
Result<StoreParts> read_mmproj(const FileBytes& file);
Result<StoreParts> open_mmproj(const std::string& path);

// Whether a tensor of a model's file belongs to a tower, for images or for sound.
bool is_tower_tensor(std::string_view name);
// The tower within a model's file. Errors: those of read_mmproj(), also for an architecture whose tower we do
// not support.
Result<StoreParts> read_inner_tower(const GgufParts& parts, const GgufConfig& model);

}  // namespace anabranch
