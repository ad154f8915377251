// Sizes that several layers must agree on.
#pragma once

namespace anabranch {

// Positions in a block of keys and values: the unit in which attention reads, memory grows, and the prefix
// cache shares between sequences.
constexpr int kKvBlock = 256;
// Maximum draft tokens of a sequence at a time, including the token before the draft.
constexpr int kMaxDraftTokens = 16;
// Maximum taps of a convolution.
constexpr int kMaxConvKernel = 16;

}  // namespace anabranch
