// Memory that is taken and returned many times per pass: pools of device memory and of pinned memory, and the
// ring through which small host arrays are copied to the device.
#pragma once

#include <cstddef>
#include <mutex>
#include <utility>
#include <vector>

#include "ops/cuda/driver.h"
#include "tensor/tensor.h"

namespace anabranch::ops::cuda {

enum class MemoryKind : uint8_t { device, pinned };
class Pool;

// A block of a pool, returned to it on destruction.
class Block {
 public:
  Block() = default;
  Block(Pool& pool, void* address, unsigned size_class)
      : pool_(&pool), address_(address), size_class_(size_class) {}
  Block(Block&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        address_(std::exchange(other.address_, nullptr)),
        size_class_(other.size_class_) {}
  Block& operator=(Block&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(address_, other.address_);
    std::swap(size_class_, other.size_class_);
    return *this;
  }
  ~Block();

  template <class T = void>
  T* address() const {
    return static_cast<T*>(address_);
  }

 private:
  Pool* pool_ = nullptr;
  void* address_ = nullptr;
  unsigned size_class_ = 0;
};

// Blocks of 2^n or 1.5 * 2^n bytes, cached when they are returned. All work of a device is on one stream, so
// a block can be reused at once. Any thread. A pool outlives its blocks.
class Pool {
 public:
  Pool(Context& context, MemoryKind kind) : context_(context), kind_(kind) {}
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // Throws std::runtime_error when there is no memory.
  Block take(size_t bytes);
  // Returns unused blocks to the system.
  void trim();

 private:
  friend class Block;
  void* get(size_t bytes);
  void release_free();
  void put(void* address, unsigned size_class);

  Context& context_;
  MemoryKind kind_;
  std::mutex mutex_;
  std::vector<void*> free_[128];  // by size class
  int64_t taken_ = 0;
};

// The memory of a tensor, in a block of a pool.
class PooledStorage final : public Storage {
 public:
  PooledStorage(Device& device, Block block, size_t bytes)
      : Storage(device, block.address(), bytes), block_(std::move(block)) {}

 private:
  Block block_;
};

// A ring of pinned host memory, from which copies to the device read after the call has returned. When the
// ring wraps around, it waits for them.
class Staging {
 public:
  explicit Staging(Context& context) : context_(context) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Copies to the device. `from` may be changed when this returns.
  void copy(void* to, const void* from, size_t bytes);

 private:
  Context& context_;
  char* memory_ = nullptr;
  size_t at_ = 0;
};

}  // namespace anabranch::ops::cuda
