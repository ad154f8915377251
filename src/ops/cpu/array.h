// mx::array as the CPU kernels use it: made at once on aligned storage, read as plain pointers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "ops/backend.h"

namespace anabranch::ops::cpu {

// An uninitialised array on 64-byte aligned storage that MLX's allocator owns, so is_unshared can tell who
// uses it.
mx::array make_array(mx::Shape shape, mx::Dtype dtype);
mx::array make_zeros(mx::Shape shape, mx::Dtype dtype);

// x's data. A lazy array is evaluated first. Throws std::invalid_argument, naming `op`, unless x is a
// row-contiguous f32 array.
const float* read_f32(const mx::array& x, const char* op);

// Nothing else refers to x or to its storage: it may be changed in place.
inline bool is_unshared(const mx::array& x) {
  return x.is_donatable();
}

// Elements [offset, ...) of x's storage under another shape (row-contiguous), without a copy.
mx::array view(const mx::array& x, mx::Shape shape, int64_t offset);

// Uninitialised memory for weights, 64-byte aligned, in huge pages where the system has them (4 KiB pages
// cost a fifth of the bandwidth of what is streamed once a token). Throws std::bad_alloc when there is none.
// Any thread.
std::shared_ptr<void> allocate_large(uint64_t bytes);

// A buffer of the calling thread that grows and is kept: work space of one op. 64-byte aligned.
// `slot` tells apart buffers that one op uses at once.
void* thread_scratch(int slot, size_t bytes);

}  // namespace anabranch::ops::cpu
