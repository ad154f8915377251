// Memory of tensors, kept for later ones when they go: fresh pages cost more than the kernels that fill them.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "ops/cpu/slabs.h"

namespace anabranch::ops::cpu {

// Buffers of a size class wait for the next tensor of that class. As many bytes are kept as the largest pass
// so far needed beyond what it left behind; without that limit one buffer of every size that was ever needed
// would pile up. Any thread.
class BufferPool {
 public:
  BufferPool() = default;
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // At least `bytes`, 64-byte aligned, uninitialised. Throws std::bad_alloc.
  void* take(size_t bytes);
  // What take(bytes) returned.
  void put(void* buffer, size_t bytes);
  void begin_pass();

  size_t kept_bytes() const;  // waiting for reuse, with slabs of which nothing is in use
  // What a request of so many bytes takes: at most an eighth more.
  static size_t size_class(size_t bytes);

 private:
  void drop_beyond(size_t limit);

  void* find(size_t size);

  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_;  // by size class; those that suit slabs are there
  Slabs slabs_;
  size_t kept_ = 0, used_ = 0, peak_ = 0, limit_ = 0;
};

}  // namespace anabranch::ops::cpu
