// Sizes that several layers must agree on.
#pragma once

namespace anabranch {

// Positions in a block of keys and values: what attention reads at a time, memory grows by, and the state
// cache shares between sequences.
constexpr int kKvBlock = 256;
// Draft tokens that a sequence can have at a time, the token before the draft included.
constexpr int kMaxDraftTokens = 16;
// Taps of a convolution, at most.
constexpr int kMaxConvKernel = 16;

}  // namespace anabranch
