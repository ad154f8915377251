// Keys and values in 8 bits, for a cache that may lose precision (`--cache-kv q8`): half the bytes of f16, a
// quarter of f32. docs/cache-format.md has the layout, and what it costs.
//
// Each row (a position's keys, or values, in one head) has a scale: its largest magnitude, in the block's own
// type T and so exact. A code is a value in 127ths of it, rounded to nearest. So
//   |x - decoded x| <= scale / 254, and what rounding the result to T adds (half a unit in its last place);
// the largest value, zeros and rows of zeros come back exactly, and what was decoded encodes to the same
// bytes: a state that is found, extended and kept again loses nothing more. A row does not depend on others.
// Infinities become +-scale (of the finite values), NaN becomes 0.
#pragma once

#include <cstddef>

#include "base/thread_pool.h"
#include "ops/attention.h"

namespace anabranch {

// A block's tensor of keys, or of values (ops/attention.h).
enum class KvPart { keys, values };

// How many bytes a block's tensor of this shape and type takes: codes (int8, in the tensor's order), then
// scales (T, [Hkv, kKvBlock]).
size_t q8_bytes(const Shape& shape, Dtype dtype, KvPart part);
// block: f16 or f32, on the host -> u8 [q8_bytes] on the host.
Tensor to_q8(const Tensor& block, KvPart part, ThreadPool& threads);
// Overwrites `block`, which nothing else refers to. Any bytes give some values.
void from_q8(const Tensor& packed, KvPart part, Tensor& block, ThreadPool& threads);

}  // namespace anabranch
