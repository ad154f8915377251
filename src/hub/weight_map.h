// model.safetensors.index.json: maps tensors to files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace anabranch::hub {

constexpr size_t kMaxIndexBytes = 256u << 20;

struct WeightMap {
  std::vector<std::string> files;      // sorted
  std::vector<std::string> mtp_files;  // subset of `files` with tensors of the MTP head
  // A subset of `files` with all kinds of tensors: the first file, and in order each further one with a new
  // kind. Names that differ only in numbers are of one kind.
  std::vector<std::string> telling;
};

// Errors: invalid (not such an index, or a file name that leads out of the directory).
Result<WeightMap> parse_weight_map(std::string_view json);

}  // namespace anabranch::hub
