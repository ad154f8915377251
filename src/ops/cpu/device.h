// The CPU as a device: the host's memory, its threads, and the kernels of one instruction set.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ops/cpu/buffer_pool.h"
#include "ops/cpu/kernels.h"
#include "tensor/device.h"

namespace anabranch::ops::cpu {

class CpuDevice final : public Device {
 public:
  // precise: activations of quantised matrices stay fp32 and keys and values are kept in fp32; otherwise
  // activations are rounded to int8 with one scale per row and group, and keys and values to f16.
  CpuDevice(int threads, bool precise, const CpuKernels& kernels);
  ~CpuDevice() override;

  bool precise() const { return precise_; }
  const CpuKernels& kernels() const { return kernels_; }

  // An uninitialised f32 tensor.
  Tensor make(const Shape& shape) { return empty(shape, Dtype::f32); }

  Tensor empty(const Shape& shape, Dtype dtype) override;
  Tensor zeros(const Shape& shape, Dtype dtype) override;
  Tensor empty_host(const Shape& shape, Dtype dtype) override { return empty(shape, dtype); }
  Tensor to_device(const Tensor& x) override;
  Tensor to_host(const Tensor& x) override { return x; }
  bool favours_8_bits() const override { return !precise_; }
  void begin_pass() override { pool_.begin_pass(); }
  uint64_t memory_bytes() const override;
  uint64_t free_bytes() const override;
  std::vector<std::vector<uint64_t>> expert_rows() override;
  // Counts rows for expert_rows(): adds begins[e + 1] - begins[e] for expert e. mixture: the address of its
  // weights, which identifies it.
  void count_experts(const void* mixture, std::span<const int> begins);

 private:
  bool precise_;
  const CpuKernels& kernels_;
  BufferPool pool_;
  std::mutex counts_mutex_;
  std::vector<std::pair<const void*, std::vector<uint64_t>>> expert_rows_;  // by mixture
};

// Null if the machine or the build cannot run the target (names: ops/cpu/dispatch.h; empty: the best one).
std::unique_ptr<Device> open_cpu(int threads, bool precise, const std::string& target = "");

// The device of a tensor or weight that a CPU op was called with.
inline CpuDevice& cpu_device(Device& device) {
  return static_cast<CpuDevice&>(device);
}
inline CpuDevice& cpu_device(const Tensor& x) {
  return cpu_device(x.device());
}

// Uninitialised memory for weights, 64-byte aligned, in huge pages if the system has them (with 4 KiB pages,
// weights that are read once per token lose a fifth of the bandwidth). Throws std::bad_alloc if there is no
// memory. Any thread.
std::shared_ptr<void> allocate_large(uint64_t bytes);

// The same, 2 MiB aligned, and not sharing its pages with other allocations.
std::shared_ptr<void> allocate_huge(uint64_t bytes);

// A scratch buffer of the calling thread that grows and is kept, for one op at a time. 64-byte aligned.
// `slot` distinguishes buffers that one op uses at the same time.
void* thread_scratch(int slot, size_t bytes);

}  // namespace anabranch::ops::cpu
