// A GGUF model in one file or in the parts of a split one (NAME-00001-of-00003.gguf, ...), as llama.cpp's
// gguf-split writes them: the first part has the metadata, each has some of the tensors.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/file_bytes.h"
#include "checkpoint/gguf.h"

namespace anabranch {

struct GgufParts {
  std::vector<FileBytes> files;
  GgufFile joined;  // metadata of the first file, tensors of all; GgufTensor::file is an index into `files`
};

// `path` may be any of the parts. Errors: those of parse_gguf(), not_found (a part is missing), invalid
// (parts of different models, or with wrong names).
Result<GgufParts> open_gguf_parts(const std::string& path, Extent extent = Extent::whole);
// files: in the order of the parts.
Result<GgufParts> join_gguf(std::vector<FileBytes> files);

}  // namespace anabranch
