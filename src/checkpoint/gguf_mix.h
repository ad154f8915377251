// Which type each tensor of a GGUF file gets: mixes under the names that llama.cpp gives them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "checkpoint/gguf_blocks.h"

namespace anabranch {

// What the choice of a matrix's type depends on.
struct GgufMatrix {
  std::string_view name;  // as in the file
  int64_t cols = 0;
  int64_t layer = -1;       // -1: in none
  int64_t layers = 0;       // those of a prediction head included
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

// Rows that blocks of the chosen type do not divide fall back as llama.cpp's do: Q4_K to Q5_0, Q5_K to Q5_1,
// Q6_K to Q8_0, IQ4_XS to IQ4_NL, and where groups of 32 do not divide them either, to F16.
const GgufType& choose_gguf_type(const GgufMix& mix, const GgufMatrix& matrix);

}  // namespace anabranch
