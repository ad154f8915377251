// model.safetensors.index.json: which file holds which tensor.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace anabranch::hub {

constexpr size_t kMaxIndexBytes = 256u << 20;

struct WeightMap {
  std::vector<std::string> files;      // sorted
  std::vector<std::string> mtp_files;  // those of them that hold tensors of the MTP head
  // The first file, and in order each further one with a kind of tensor that those before it lack. Names that
  // differ in numbers only are of one kind.
  std::vector<std::string> telling;
};

// Errors: invalid (not such an index, or a file name that leads out of the directory).
Result<WeightMap> parse_weight_map(std::string_view json);

}  // namespace anabranch::hub
