#include "ops/cpu/array.h"

#include <fmt/core.h>
#include <mlx/allocator.h>
#include <mlx/transforms.h>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <stdexcept>
#include <utility>

#include "base/check.h"

namespace anabranch::ops::cpu {
namespace {

constexpr size_t kAlign = 64;

mx::Strides row_strides(const mx::Shape& shape) {
  mx::Strides strides(shape.size());
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0; step *= shape[i]) strides[i] = step;
  return strides;
}

int64_t count_of(const mx::Shape& shape) {
  int64_t n = 1;
  for (auto d : shape) n *= d;
  return n;
}

}  // namespace

mx::array view(const mx::array& x, mx::Shape shape, int64_t offset) {
  const auto strides = row_strides(shape);
  const auto count = count_of(shape);
  mx::array y(std::move(shape), x.dtype(), nullptr, {});
  mx::array::Flags flags{};
  flags.contiguous = flags.row_contiguous = true;
  flags.col_contiguous = y.ndim() <= 1;
  y.copy_shared_buffer(x, strides, flags, static_cast<size_t>(count), offset);
  y.set_status(mx::array::Status::available);
  return y;
}

mx::array make_array(mx::Shape shape, mx::Dtype dtype) {
  const auto count = count_of(shape);
  const size_t size = dtype.size();
  const auto padded = count + static_cast<int64_t>(kAlign / size);
  // MLX's buffers are aligned to 8 bytes only: take the first aligned element inside one.
  mx::array base(mx::allocator::malloc(static_cast<size_t>(padded) * size), mx::Shape{static_cast<int>(1)},
                 dtype);
  const auto address = reinterpret_cast<uintptr_t>(base.data<char>());
  const size_t skip = (kAlign - address % kAlign) % kAlign;
  CHECK(skip % size == 0, "allocation at {}", address);
  return view(base, std::move(shape), static_cast<int64_t>(skip / size));
}

mx::array make_zeros(mx::Shape shape, mx::Dtype dtype) {
  mx::array x = make_array(std::move(shape), dtype);
  std::memset(x.data<char>(), 0, x.nbytes());
  return x;
}

const float* read_f32(const mx::array& x, const char* op) {
  if (x.dtype() != mx::float32)
    throw std::invalid_argument(fmt::format("[{}] an operand is not float32", op));
  if (x.status() != mx::array::Status::available) mx::array(x).eval();
  if (!x.flags().row_contiguous)
    throw std::invalid_argument(fmt::format("[{}] an operand is not contiguous", op));
  return x.data<float>();
}

namespace {

constexpr uint64_t kHugePage = 2u << 20;
// Smaller pieces share chunks: a page of their own each would waste up to half of it.
constexpr uint64_t kChunk = 16 * kHugePage, kLargestPiece = kChunk / 4;

std::shared_ptr<void> allocate_pages(uint64_t bytes) {
  const uint64_t size = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* p = std::aligned_alloc(kHugePage, size);
  if (!p) throw std::bad_alloc();
#if defined(__linux__)
  madvise(p, size, MADV_HUGEPAGE);
#endif
  return {p, [](void* q) { std::free(q); }};
}

}  // namespace

std::shared_ptr<void> allocate_large(uint64_t bytes) {
  if (bytes > kLargestPiece) return allocate_pages(bytes);
  static std::mutex mutex;
  static std::weak_ptr<void> current;  // its pieces keep a chunk alive
  static uint64_t used = 0;
  const uint64_t size = (bytes + kAlign - 1) / kAlign * kAlign;
  std::lock_guard lock(mutex);
  auto chunk = current.lock();
  if (!chunk || used + size > kChunk) {
    chunk = allocate_pages(kChunk);
    current = chunk;
    used = 0;
  }
  void* piece = static_cast<char*>(chunk.get()) + used;
  used += size;
  return {std::move(chunk), piece};
}

void* thread_scratch(int slot, size_t bytes) {
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  struct Buffer {
    std::unique_ptr<void, Free> data;
    size_t size = 0;
  };
  static thread_local Buffer buffers[4];
  CHECK(slot >= 0 && slot < 4, "slot {}", slot);
  Buffer& b = buffers[slot];
  if (b.size < bytes) {
    const size_t size = (bytes + bytes / 2 + kAlign - 1) / kAlign * kAlign;
    b.data.reset();
    b.data.reset(std::aligned_alloc(kAlign, size));
    CHECK(b.data != nullptr, "out of memory: {} bytes", size);
    b.size = size;
  }
  return b.data.get();
}

}  // namespace anabranch::ops::cpu
