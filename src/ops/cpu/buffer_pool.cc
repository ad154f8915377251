#include "ops/cpu/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

#include "base/poison.h"

namespace anabranch::ops::cpu {
namespace {

constexpr size_t kAlign = 64;
constexpr size_t kLeastKept = size_t{32} << 20, kMostKept = size_t{512} << 20;

// Pieces of a slab are neighbours: one that is written beyond its end would spoil the next one, and
// AddressSanitizer would not see it.
bool is_piece(size_t size) {
  return !kPoison && Slabs::suits(size);
}

}  // namespace

BufferPool::~BufferPool() {
  drop_beyond(0);
}

size_t BufferPool::size_class(size_t bytes) {
  const size_t size = std::max(bytes, kAlign);
  const size_t step = std::max(kAlign, std::bit_floor(size) / 8);
  return (size + step - 1) / step * step;
}

void* BufferPool::take(size_t bytes) {
  const size_t size = size_class(bytes);
  std::lock_guard lock(mutex_);
  void* buffer = find(size);
  if (!buffer) {
    drop_beyond(0);
    buffer = find(size);
  }
  if (!buffer) throw std::bad_alloc();
  used_ += size;
  peak_ = std::max(peak_, used_);
  poison_beyond(buffer, bytes, size);
  return buffer;
}

// Returns a free buffer, or a new one; null: no memory.
void* BufferPool::find(size_t size) {
  if (is_piece(size)) return slabs_.take(size);
  const auto found = free_.find(size);
  if (found == free_.end() || found->second.empty()) return std::aligned_alloc(kAlign, size);
  void* buffer = found->second.back();
  found->second.pop_back();
  kept_ -= size;
  return buffer;
}

void BufferPool::put(void* buffer, size_t bytes) {
  const size_t size = size_class(bytes);
  std::lock_guard lock(mutex_);
  const size_t most = std::max(limit_, kLeastKept);
  used_ -= size;
  poison(buffer, size);
  if (is_piece(size)) return slabs_.put(buffer, size, most);
  free_[size].push_back(buffer);
  kept_ += size;
  if (kept_ > most) drop_beyond(most);
}

void BufferPool::begin_pass() {
  std::lock_guard lock(mutex_);
  limit_ = std::max(limit_, std::min(peak_ - used_, kMostKept));
  peak_ = used_;
}

size_t BufferPool::kept_bytes() const {
  std::lock_guard lock(mutex_);
  return kept_ + slabs_.idle_bytes();
}

// Drops the largest first: per byte they are the cheapest to allocate again.
void BufferPool::drop_beyond(size_t limit) {
  if (limit == 0) slabs_.trim();
  for (auto at = free_.rbegin(); at != free_.rend() && kept_ > limit; ++at) {
    while (!at->second.empty() && kept_ > limit) {
      std::free(at->second.back());
      at->second.pop_back();
      kept_ -= at->first;
    }
  }
}

}  // namespace anabranch::ops::cpu
