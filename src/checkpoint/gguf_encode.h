// Encodes weights as blocks of GGUF's types: the inverse of gguf_blocks.h. A search finds scales and biases
// with the least squared error. It needs no data, and the same input always gives the same bytes.
#pragma once

#include <cstdint>
#include <string_view>

namespace anabranch {

struct GgufEncoder {
  const char* type;
  // weights [block], all finite. If they are too large for f16 scales, the decoded values are infinite or
  // NaN. importance [block]: the weight of each squared error.
  void (*encode)(const float* weights, const float* importance, uint8_t* block);
};

// Finds the encoder of a type by name ("Q4_K"); null if it cannot be written. Types that can be written:
// Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K, IQ4_NL and IQ4_XS.
const GgufEncoder* find_gguf_encoder(std::string_view type);

}  // namespace anabranch
