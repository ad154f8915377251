// Sizes that several layers must agree on.
#pragma once

namespace anabranch {

// Positions in a block of keys and values: what attention reads at a time, memory grows by, and the state
// cache shares between sequences.
constexpr int kKvBlock = 256;
// Tokens that can be on trial at a time: a draft and the token before it.
constexpr int kMaxTrial = 16;
// Taps of a convolution, at most.
constexpr int kMaxConvKernel = 16;

}  // namespace anabranch
