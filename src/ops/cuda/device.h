// A CUDA device and everything that belongs to it: context and stream, memory, loaded kernels. A process may
// have several, even on the same card.
//
// A device outlives its tensors and weights, and the host tensors that empty_host() and to_host() return,
// because they use its pinned memory. to_host() may be called, and tensors may be destroyed, on any thread.
// Everything else must be called on the thread that runs the device's models.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/result.h"
#include "ops/cuda/compiler.h"
#include "ops/cuda/driver.h"
#include "ops/cuda/memory.h"
#include "ops/probe.h"
#include "tensor/device.h"

namespace anabranch::ops::cuda {

// Says why the device with this index (0: the first in CUDA_VISIBLE_DEVICES) cannot be used; empty: it can.
// The first call opens driver and compiler.
std::string unsupported(int index = 0);

// threads: host threads for packing weights; 0 = chosen for this machine. expert_bytes: device memory for the
// experts of mixtures; 0: all free memory. Error: unsupported.
Result<std::unique_ptr<Device>> open_cuda(int index, int threads, uint64_t expert_bytes = 0);

class CudaDevice final : public Device {
 public:
  CudaDevice(std::unique_ptr<Context> context, int threads, uint64_t expert_bytes);
  ~CudaDevice() override;

  // Whether no other device of this process is open on the card, so that blocks of a kernel may wait for each
  // other. If kernels on two streams did so, neither might get all of its blocks onto the card.
  bool alone() const { return of_card() == 1; }

  Tensor empty(const Shape& shape, Dtype dtype) override;
  Tensor zeros(const Shape& shape, Dtype dtype) override;
  Tensor empty_host(const Shape& shape, Dtype dtype) override;
  Tensor to_device(const Tensor& x) override;
  Tensor to_host(const Tensor& x) override;
  void synchronize() override { context_->synchronize(); }
  // For a group of devices, both are those of the device with the smallest value.
  uint64_t memory_bytes() const override;
  uint64_t free_bytes() const override;
  int prefill_chunk() const override { return 2048; }
  int parallel() const override { return 256; }
  std::vector<std::vector<uint64_t>> expert_rows() override;
  bool lost() const override;
  void plan_experts(uint64_t experts, uint64_t others) override;
  void prepare_kernels(const std::function<void()>& passes) override;
  int finish_kernels() override;
  void note(const Variant& variant, const char* name) { kernels_.get(variant, name); }
  bool noting() const {
    return kernels_.noting();
  }  // no kernel runs: the device only notes which kernels it needs
  // How many of a mixture's experts are stored in the device's memory.
  int resident_experts(int experts) const {
    return std::min(experts, static_cast<int>(expert_share_ * experts));
  }

  Context& context() { return *context_; }
  const DeviceInfo& info() const { return context_->info(); }

  // The address of x on this device. Throws std::invalid_argument, naming `op`, if x is on another device.
  template <class T = float>
  T* data(const Tensor& x, const char* op) const {
    const Storage& storage = x.storage();  // a single call, because a step looks up a thousand addresses
    if (&storage.device() != this) refuse(x, op);
    const auto offset = static_cast<size_t>(x.offset()) * bytes_of(x.dtype());
    return reinterpret_cast<T*>(static_cast<char*>(storage.address()) + offset);
  }
  // A tensor whose storage is larger than its elements.
  Tensor empty_padded(const Shape& shape, Dtype dtype, size_t bytes);
  Tensor copy(const Tensor& x, const char* op);

  // scratch(): work space for one op. upload(): the same with a copy of host bytes, for the next launches.
  Block scratch(size_t bytes) { return pool_.take(bytes); }
  Block upload(const void* from, size_t bytes);
  // Host memory that every device can access.
  Block pinned(size_t bytes) { return pinned_.take(bytes); }
  // Returns unused memory to the system.
  void trim();
  // Reserves memory to which experts of two matrices that are not on the device are copied during a long
  // pass. bytes: of one matrix.
  void reserve_stage(size_t bytes);
  unsigned char* stage() { return stage_.address<unsigned char>(); }

  // The kernel's only parameter is a struct of `args`; `name` is a literal (compiler.h).
  void launch(const Variant& variant, const char* name, Grid grid, unsigned threads, unsigned shared_bytes,
              const void* args) {
    context_->launch(kernels_.get(variant, name), grid, threads, shared_bytes, args);
  }
  // kMostSplitTiles counters for blocks that share a tile of a product: all are 0 between launches.
  static constexpr int kMostSplitTiles = 4096;
  unsigned* tile_counters();
  // The frequencies of rope() in the device's memory. They are cached: a model has one or two sets.
  const float* frequencies(std::span<const float> inv_freq);
  // A table in the device's memory. Recent tables are cached, so that a repeated one is not copied again.
  const unsigned long long* table(std::span<const unsigned long long> entries);
  // Counters on the device for expert_rows(), one per expert of a mixture. mixture: the address of its
  // weights, which identifies it. Null beyond kMostCounters.
  unsigned long long* expert_counters(const void* mixture, int experts);

 private:
  struct Frequencies {
    std::vector<float> host;
    Tensor device;
  };
  struct Table {
    std::vector<unsigned long long> host;
    Block device;
  };
  struct Mixture {
    const void* weights;
    int first, experts;  // indices of its counters
  };
  static constexpr size_t kMostCards = 64;
  static inline std::atomic<int> open_[kMostCards] = {};
  std::atomic<int>& of_card() const { return open_[static_cast<size_t>(info().index) % kMostCards]; }
  static constexpr int kMostCounters = 1 << 16;
  [[noreturn]] void refuse(const Tensor& x, const char* op) const;

  // The order matters: a member may use the members above it until it is destroyed.
  std::unique_ptr<Context> context_;
  Pool pool_, pinned_;
  Staging staging_;
  KernelCache kernels_;
  uint64_t expert_bytes_;
  double expert_share_ = 1;
  Tensor tile_counters_;
  std::vector<Frequencies> frequencies_;
  std::vector<Table> tables_;  // the most recently used
  size_t oldest_table_ = 0;
  std::mutex counters_mutex_;
  Tensor counters_;  // 8 bytes each
  std::vector<Mixture> mixtures_;
  Block stage_ = {};
  size_t stage_bytes_ = 0;
};

// The device of an operand of an op of this backend.
inline CudaDevice& cuda_device(Device& device) {
  if (device.kind() != DeviceKind::cuda)
    throw std::invalid_argument("an operand of a CUDA op is on the device " + device.name());
  return static_cast<CudaDevice&>(device);
}
inline CudaDevice& cuda_device(const Tensor& x) {
  return cuda_device(x.device());
}

// Implements OpTable::measure_limits.
MachineLimits measure_limits(Device& device);

}  // namespace anabranch::ops::cuda
