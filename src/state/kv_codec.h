// Keys and values in 8 bits, for a cache that may lose precision (`--cache-kv q8`): half the bytes of f16, a
// quarter of f32. See docs/cache-format.md for the layout and the loss.
//
// Each row (a position's keys, or values, in one head) has a scale: its largest magnitude, stored exactly in
// the block's own type T. A code is a value in units of 1/127 of the scale, rounded to nearest. So
//   |x - decoded x| <= scale / 254, plus the rounding of the result to T (half a unit in its last place);
// the largest value, zeros and rows of zeros are restored exactly, and decoded values encode to the same
// bytes: a state that is restored, extended and cached again loses nothing more. Rows are independent.
// Infinities become +-scale (of the finite values), NaN becomes 0.
#pragma once

#include <cstddef>

#include "base/thread_pool.h"
#include "ops/attention.h"

namespace anabranch {

// A block's tensor of keys, or of values (ops/attention.h).
enum class KvPart { keys, values };

// The size in bytes of an encoded block tensor of this shape and type: codes (int8, in the tensor's order),
// then scales (T, [Hkv, kKvBlock]).
size_t q8_bytes(const Shape& shape, Dtype dtype, KvPart part);
// block: f16 or f32, on the host -> u8 [q8_bytes] on the host.
Tensor to_q8(const Tensor& block, KvPart part, ThreadPool& threads);
// Overwrites `block`, which must not be shared. Any bytes decode to some values.
void from_q8(const Tensor& packed, KvPart part, Tensor& block, ThreadPool& threads);

}  // namespace anabranch
