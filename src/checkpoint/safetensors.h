// The safetensors container: an 8-byte length, a JSON header of names, types, shapes and offsets, then the
// data. Only structure is judged here; names are as in the file.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/weight_source.h"
#include "checkpoint/file_bytes.h"

namespace anabranch {

struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // "F32" "BF16" "U32" ..., always one whose size is known
  std::vector<int64_t> shape;
  std::span<const std::byte> data;  // of the file's bytes, unaligned
};

struct SafetensorsFile {
  std::vector<SafetensorsTensor> tensors;  // sorted by name
  std::string format;                      // metadata "format" ("pt", "mlx"), or empty
};

// Errors (naming `path`, and the tensor where there is one): invalid, unsupported (an unknown type),
// exhausted.
Result<SafetensorsFile> parse_safetensors(std::span<const std::byte> bytes, const std::string& path);

// The size of the length and header of a file that begins with `first`. If `first` is too short, the number
// of bytes that are needed to find out. 0: not a safetensors file.
uint64_t safetensors_header_bytes(std::span<const std::byte> first);

// model.safetensors.index.json: (tensor, file) pairs. File names are plain names ending in ".safetensors".
Result<std::vector<std::pair<std::string, std::string>>> parse_safetensors_index(std::string_view text,
                                                                                 const std::string& path);

// The kind that reads a type as floats; nullopt for integers and 8-bit floats.
std::optional<WeightKind> dense_kind(std::string_view dtype);
const char* dtype_name(WeightKind kind);  // of a dense kind

}  // namespace anabranch
