// The GGUF container (version 3; 2 differs in nothing we read): metadata, tensor directory, data.
// Only structure is judged here; names are as in the file.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/file_bytes.h"
#include "checkpoint/gguf_blocks.h"
#include "checkpoint/gguf_texts.h"

namespace anabranch {

struct GgufTensor {
  std::string name;
  const GgufType* type;
  std::vector<int64_t> shape;  // slowest dimension first: [out, in], the file's order reversed
  std::span<const std::byte> data;
  size_t file = 0;  // number of the file that contains it, in a split model
};

// A tensor of a type that is not read.
struct UnreadGgufTensor {
  std::string name;
  std::vector<int64_t> shape;
  Error why;
};

struct GgufFile {
  Json metadata;                    // an object; arrays included, but for those in `texts`
  GgufTexts texts;                  // of keys below "tokenizer.", which lie in the file
  std::vector<GgufTensor> tensors;  // sorted by name
  std::vector<UnreadGgufTensor> unread;
  Extent extent = Extent::whole;
};

// Errors (naming `path`, and the key or tensor where there is one): invalid, unsupported (version, byte
// order), exhausted. A part of a split model is parsed alone (gguf_split.h).
Result<GgufFile> parse_gguf(std::span<const std::byte> bytes, const std::string& path);

// The size of the metadata and tensor directory of a file that begins with `first`. If it is more than
// first.size(), they are incomplete: call again with that many bytes. first.size() is also returned for a
// damaged header; parsing `first` then gives the error. 0: not a GGUF file.
uint64_t gguf_header_bytes(std::span<const std::byte> first);

}  // namespace anabranch
