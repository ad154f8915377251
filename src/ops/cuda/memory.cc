#include "ops/cuda/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>

#include "base/log.h"

namespace anabranch::ops::cuda {
namespace {

constexpr size_t kStagingBytes = 8 << 20;

unsigned size_class_of(size_t bytes) {
  const auto log = static_cast<unsigned>(std::bit_width(std::max<size_t>(bytes, 512) - 1));
  return 2 * log - (bytes <= size_t{3} << (log - 2) ? 1 : 0);
}
size_t size_of(unsigned size_class) {
  const unsigned log = (size_class + 1) / 2;
  return size_class % 2 == 1 ? size_t{3} << (log - 2) : size_t{1} << log;
}

}  // namespace

Block::~Block() {
  if (pool_) pool_->put(address_, size_class_);
}

Pool::~Pool() {
  if (taken_ != 0) log_debug("{} blocks of {} are in use when it closes", taken_, context_.info().name);
  release_free();
}

Block Pool::take(size_t bytes) {
  const unsigned size_class = size_class_of(bytes);
  std::lock_guard lock(mutex_);
  auto& free = free_[size_class];
  void* p = nullptr;
  if (!free.empty()) {
    p = free.back();
    free.pop_back();
  } else {
    const size_t size = size_of(size_class);
    p = get(size);
    if (!p) {
      release_free();
      p = get(size);
    }
    if (!p)
      throw std::runtime_error(
          fmt::format("CUDA: no {} left for {} MB",
                      kind_ == MemoryKind::device ? "memory on the device" : "memory to pin", size >> 20));
  }
  taken_++;
  return {*this, p, size_class};
}

void Pool::put(void* address, unsigned size_class) {
  std::lock_guard lock(mutex_);
  free_[size_class].push_back(address);
  taken_--;
}

void Pool::trim() {
  std::lock_guard lock(mutex_);
  release_free();
}

void* Pool::get(size_t bytes) {
  return kind_ == MemoryKind::device ? context_.allocate(bytes) : context_.allocate_pinned(bytes);
}

void Pool::release_free() {
  for (auto& free : free_) {
    for (void* block : free)
      kind_ == MemoryKind::device ? context_.release(block) : context_.release_pinned(block);
    free.clear();
  }
}

Staging::~Staging() {
  if (memory_) context_.release_pinned(memory_);
}

void Staging::copy(void* to, const void* from, size_t bytes) {
  const size_t size = (bytes + 63) / 64 * 64;
  if (size > kStagingBytes) {
    context_.copy_to_device(to, from, bytes);
    context_.synchronize();
    return;
  }
  if (!memory_) memory_ = static_cast<char*>(context_.allocate_pinned(kStagingBytes));
  if (!memory_) throw std::runtime_error("CUDA: no memory to pin left for copies to the device");
  if (at_ + size > kStagingBytes) {
    context_.synchronize();
    at_ = 0;
  }
  std::memcpy(memory_ + at_, from, bytes);
  context_.copy_to_device(to, memory_ + at_, bytes);
  at_ += size;
}

}  // namespace anabranch::ops::cuda
