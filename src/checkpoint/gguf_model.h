// A GGUF file as a checkpoint: names and row orders as Hugging Face has them.
#pragma once

#include <string>

#include "checkpoint/file_bytes.h"
#include "checkpoint/store.h"

namespace anabranch {

// Of a split model the files of all its parts, in their order. A vision tower that we do not have, and what
// is for sound, is left out.
Result<StoreParts> read_gguf(std::vector<FileBytes> files);
// `path`: the model's file, or one of its parts, with a vision tower beside it or within it.
Result<StoreParts> open_gguf(const std::string& path, Extent extent = Extent::whole);

}  // namespace anabranch
