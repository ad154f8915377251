// Which type each tensor of a GGUF file gets: mixes under the names that llama.cpp gives them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "checkpoint/gguf_blocks.h"

namespace anabranch {

// The properties of a matrix on which the choice of its type depends.
struct GgufMatrix {
  std::string_view name;  // as in the file
  int64_t cols = 0;
  int64_t layer = -1;       // -1: in none
  int64_t layers = 0;       // including those of a prediction head
  bool head = false;        // the output matrix, or the embedding where it is both
  bool predicts = false;    // in the prediction head
  int64_t sharing = 1;      // query heads that share a key head
  bool calibrated = false;  // the file's matrices are weighted by importance
};

struct GgufMix {
  std::string_view name;  // "q4_k_m"
  uint32_t file_type;     // general.file_type
  std::string_view type;  // of matrices without a rule
  // The type of a matrix, without regard to its width.
  std::string_view (*choose)(const GgufMix& mix, const GgufMatrix& matrix);
};

std::span<const GgufMix> gguf_mixes();

// If the rows are no multiple of the type's blocks, the type falls back as in llama.cpp: Q4_K to Q5_0, Q5_K
// to Q5_1, Q6_K to Q8_0, IQ4_XS to IQ4_NL; if they are no multiple of 32 either, to F16.
const GgufType& choose_gguf_type(const GgufMix& mix, const GgufMatrix& matrix);

}  // namespace anabranch
