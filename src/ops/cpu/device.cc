#include "ops/cpu/device.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/check.h"
#include "base/cpu_info.h"
#include "base/memory_info.h"
#include "base/poison.h"
#include "ops/cpu/dispatch.h"
#include "ops/table.h"

namespace anabranch::ops::cpu {
namespace {

constexpr size_t kAlign = 64;

class Buffer final : public Storage {
 public:
  Buffer(CpuDevice& device, BufferPool& pool, size_t bytes)
      : Storage(device, pool.take(bytes), bytes), pool_(pool) {}
  ~Buffer() override { pool_.put(address(), bytes()); }

 private:
  BufferPool& pool_;
};

}  // namespace

CpuDevice::CpuDevice(int threads, bool precise, const CpuKernels& kernels)
    : Device(DeviceKind::cpu, "CPU", &cpu_ops(), precise ? Dtype::f32 : Dtype::f16, threads),
      precise_(precise),
      kernels_(kernels) {}
CpuDevice::~CpuDevice() = default;

Tensor CpuDevice::empty(const Shape& shape, Dtype dtype) {
  const size_t bytes = static_cast<size_t>(shape.count()) * bytes_of(dtype);
  return {std::make_shared<Buffer>(*this, pool_, bytes), shape, dtype};
}

Tensor CpuDevice::zeros(const Shape& shape, Dtype dtype) {
  Tensor x = empty(shape, dtype);
  std::memset(x.data<char>(), 0, x.nbytes());
  return x;
}

Tensor CpuDevice::to_device(const Tensor& x) {
  if (&x.device() == this) return x;
  const Tensor host = anabranch::to_host(x);
  Tensor y = empty(x.shape(), x.dtype());
  std::memcpy(y.data<char>(), host.data<char>(), x.nbytes());
  return y;
}

uint64_t CpuDevice::memory_bytes() const {
  return cpu_info().memory_bytes;
}
std::vector<std::vector<uint64_t>> CpuDevice::expert_rows() {
  const std::lock_guard lock(counts_mutex_);
  std::vector<std::vector<uint64_t>> out;
  for (const auto& [mixture, rows] : expert_rows_) out.push_back(rows);
  return out;
}

void CpuDevice::count_experts(const void* mixture, std::span<const int> begins) {
  const std::lock_guard lock(counts_mutex_);
  auto at = std::find_if(expert_rows_.begin(), expert_rows_.end(),
                         [&](const auto& known) { return known.first == mixture; });
  if (at == expert_rows_.end()) at = expert_rows_.insert(at, {mixture, {}});
  at->second.resize(begins.size() - 1);
  for (size_t e = 0; e + 1 < begins.size(); e++)
    at->second[e] += static_cast<uint64_t>(begins[e + 1] - begins[e]);
}

uint64_t CpuDevice::free_bytes() const {
  return available_memory();
}

std::unique_ptr<Device> open_cpu(int threads, bool precise, const std::string& target) {
  const CpuKernels* kernels = find_target(target);
  return kernels ? std::make_unique<CpuDevice>(threads, precise, *kernels) : nullptr;
}

namespace {

constexpr uint64_t kHugePage = 2u << 20;
// Smaller pieces share chunks: in pages of their own, up to half of a page would be wasted.
constexpr uint64_t kChunk = 16 * kHugePage, kLargestPiece = kChunk / 4;

}  // namespace

std::shared_ptr<void> allocate_huge(uint64_t bytes) {
  const uint64_t size = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  void* p = std::aligned_alloc(kHugePage, size);
  if (!p) throw std::bad_alloc();
#if defined(__linux__)
  madvise(p, size, MADV_HUGEPAGE);
#endif
  poison_beyond(p, bytes, size);
  return {p, [](void* q) { std::free(q); }};
}

std::shared_ptr<void> allocate_large(uint64_t bytes) {
  if (bytes > kLargestPiece) return allocate_huge(bytes);
  static std::mutex mutex;
  static std::weak_ptr<void> current;  // its pieces keep the chunk alive
  static uint64_t used = 0;
  const uint64_t size = (bytes + kAlign - 1) / kAlign * kAlign + (kPoison ? kAlign : 0);
  std::lock_guard lock(mutex);
  auto chunk = current.lock();
  if (!chunk || used + size > kChunk) {
    chunk = allocate_huge(kChunk);
    current = chunk;
    used = 0;
  }
  void* piece = static_cast<char*>(chunk.get()) + used;
  used += size;
  poison_beyond(piece, bytes, size);
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
  poison_beyond(b.data.get(), bytes, b.size);
  return b.data.get();
}

}  // namespace anabranch::ops::cpu
