// Weights as blocks of GGUF's types: the way back from gguf_blocks.h. Scales and biases are those with the
// least squared error that a search finds; it needs no data, and one input always gives the same bytes.
#pragma once

#include <cstdint>
#include <string_view>

namespace anabranch {

struct GgufEncoder {
  const char* type;
  // weights [block], all finite; what f16 cannot scale becomes infinite or NaN. importance [block]: how much
  // the square of each error counts.
  void (*encode)(const float* weights, const float* importance, uint8_t* block);
};

// By the type's name ("Q4_K"); null: it cannot be written. Blocks of Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K,
// IQ4_NL and IQ4_XS can.
const GgufEncoder* find_gguf_encoder(std::string_view type);

}  // namespace anabranch
