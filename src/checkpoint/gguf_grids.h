// The codebooks of GGUF's IQ types: each entry stands for 8 weights as indices of 2 bits (IQ2, IQ1) or for 4
// weights as indices of 4 bits (IQ3), the first weight in the lowest bits.
#pragma once

#include <cstdint>

namespace anabranch {

extern const uint16_t kGridIq2Xxs[256], kGridIq2Xs[512], kGridIq2S[1024];  // indices of 8, 25, 43
extern const uint16_t kGridIq3Xxs[256], kGridIq3S[512];                    // indices of 8 magnitudes
extern const uint16_t kGridIq1[2048];                                      // indices of -1, 0, 1

}  // namespace anabranch
