// A GGUF file as a checkpoint: names and row orders as Hugging Face has them.
#pragma once

#include <string>

#include "checkpoint/file_bytes.h"
#include "checkpoint/store.h"

namespace anabranch {

// files: for a split model, the files of all parts, in order. Leaves out vision towers that we do not
// support, and tensors for sound.
Result<StoreParts> read_gguf(std::vector<FileBytes> files);
// `path`: the model's file, or one of its parts, with a vision tower beside it or within it.
Result<StoreParts> open_gguf(const std::string& path, Extent extent = Extent::whole);

}  // namespace anabranch
