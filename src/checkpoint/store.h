// The one implementation of Checkpoint: readers of each format fill in a Store's parts.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mapped_file.h"
#include "checkpoint/checkpoint.h"

namespace anabranch {

struct Entry {
  TensorInfo info;
  WeightSource source;                // rows * cols == elements of info.shape; cols is its last dimension
  std::optional<Error> unreadable{};  // why there are no readers in `source`
  bool zeros_optional = false;        // if all its values are zero, no model needs to take it
};

struct StoreParts {
  std::string path;
  std::string side_directory;  // directory of further files; empty: none
  Json config;
  Json gguf_metadata;
  std::vector<Entry> entries;
  size_t left_out = 0;
  std::vector<std::shared_ptr<const MappedFile>> maps{};
  GgufTexts gguf_texts{};  // in one of `maps`
  std::shared_ptr<StoreParts> vision = nullptr;
};

// Error (invalid): a name that occurs twice, with both files.
Result<std::unique_ptr<Checkpoint>> make_store(StoreParts parts);

// rows and cols of a row-contiguous tensor whose last dimension is the columns ([] is one by one).
std::pair<int64_t, int64_t> rows_and_cols(const std::vector<int64_t>& shape);

}  // namespace anabranch
