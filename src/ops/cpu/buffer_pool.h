// Keeps the memory of freed tensors for later ones, because fresh pages cost more than the kernels that fill
// them.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "ops/cpu/slabs.h"

namespace anabranch::ops::cpu {

// A freed buffer is kept for the next tensor of its size class. The pool keeps at most as many bytes as the
// largest pass so far needed beyond the memory that stayed in use after it; without that limit, one buffer of
// every size that was ever needed would accumulate. Any thread.
class BufferPool {
 public:
  BufferPool() = default;
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // At least `bytes`, 64-byte aligned, uninitialised. Throws std::bad_alloc.
  void* take(size_t bytes);
  // Returns a buffer from take(bytes).
  void put(void* buffer, size_t bytes);
  void begin_pass();

  size_t kept_bytes() const;  // free for reuse, including slabs with no piece in use
  // The bytes that take(bytes) really allocates: at most an eighth more.
  static size_t size_class(size_t bytes);

 private:
  void drop_beyond(size_t limit);

  void* find(size_t size);

  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_;  // by size class; sizes that suit slabs are in slabs_ instead
  Slabs slabs_;
  size_t kept_ = 0, used_ = 0, peak_ = 0, limit_ = 0;
};

}  // namespace anabranch::ops::cpu
