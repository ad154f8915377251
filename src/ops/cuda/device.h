// A CUDA device and everything that belongs to it: context and stream, memory, loaded kernels. A process may
// have several, also of one card.
//
// A device outlives its tensors and weights, and the tensors of the host that empty_host() and to_host()
// give: these lie in its pinned memory. to_host() may be called, and tensors may go, on any thread. The rest
// is for the thread that runs the device's models.
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

// Why the device of this index (0: the first that CUDA_VISIBLE_DEVICES leaves) cannot be used, or empty. The
// first call opens driver and compiler.
std::string unsupported(int index = 0);

// threads: of the host, for the packing of weights; 0 = chosen for this machine. Error: unsupported.
// expert_bytes: of its memory, for the experts of mixtures; 0: what is free.
Result<std::unique_ptr<Device>> open_cuda(int index, int threads, uint64_t expert_bytes = 0);

class CudaDevice final : public Device {
 public:
  CudaDevice(std::unique_ptr<Context> context, int threads, uint64_t expert_bytes);
  ~CudaDevice() override;

  // No other device of this process is open on the card: blocks of a kernel may wait for each other. Beside a
  // second kernel that does so on another stream, neither might get all of its blocks onto the card.
  bool alone() const { return of_card() == 1; }

  Tensor empty(const Shape& shape, Dtype dtype) override;
  Tensor zeros(const Shape& shape, Dtype dtype) override;
  Tensor empty_host(const Shape& shape, Dtype dtype) override;
  Tensor to_device(const Tensor& x) override;
  Tensor to_host(const Tensor& x) override;
  void synchronize() override { context_->synchronize(); }
  // Of a group: of the device that has least.
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
  bool noting() const { return kernels_.noting(); }  // no kernel runs: the device only notes which it needs
  // Of a mixture's experts, those that lie in the device's memory.
  int resident_experts(int experts) const {
    return std::min(experts, static_cast<int>(expert_share_ * experts));
  }

  Context& context() { return *context_; }
  const DeviceInfo& info() const { return context_->info(); }

  // x's address on this device. Throws std::invalid_argument, naming `op`, when x lies elsewhere.
  template <class T = float>
  T* data(const Tensor& x, const char* op) const {
    const Storage& storage = x.storage();  // one call: a step asks for a thousand addresses
    if (&storage.device() != this) refuse(x, op);
    const auto offset = static_cast<size_t>(x.offset()) * bytes_of(x.dtype());
    return reinterpret_cast<T*>(static_cast<char*>(storage.address()) + offset);
  }
  // A tensor whose storage has room for more bytes than its elements take.
  Tensor empty_padded(const Shape& shape, Dtype dtype, size_t bytes);
  Tensor copy(const Tensor& x, const char* op);

  // Work space of one op, and such memory with a copy of bytes of the host, for the next launches.
  Block scratch(size_t bytes) { return pool_.take(bytes); }
  Block upload(const void* from, size_t bytes);
  // Memory of the host that every device reaches.
  Block pinned(size_t bytes) { return pinned_.take(bytes); }
  // Gives memory that nobody uses back to the system.
  void trim();
  // Memory for the experts of two matrices that the device does not hold, while a long pass needs them.
  // bytes: of one matrix.
  void reserve_stage(size_t bytes);
  unsigned char* stage() { return stage_.address<unsigned char>(); }

  // The kernel's only parameter is a struct of `args`; `name` is a literal (compiler.h).
  void launch(const Variant& variant, const char* name, Grid grid, unsigned threads, unsigned shared_bytes,
              const void* args) {
    context_->launch(kernels_.get(variant, name), grid, threads, shared_bytes, args);
  }
  // kMostSplitTiles counters of blocks that share a tile of a product: all are 0 between launches.
  static constexpr int kMostSplitTiles = 4096;
  unsigned* tile_counters();
  // The frequencies of rope() in the device's memory. They are kept: a model has one or two sets.
  const float* frequencies(std::span<const float> inv_freq);
  // A table in the device's memory. One that comes again is not copied again.
  const unsigned long long* table(std::span<const unsigned long long> entries);
  // Counters for expert_rows() of a mixture's experts, on the device. mixture: the address of its weights.
  // Null beyond kMostCounters.
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
    int first, experts;  // of the counters
  };
  static constexpr size_t kMostCards = 64;
  static inline std::atomic<int> open_[kMostCards] = {};
  std::atomic<int>& of_card() const { return open_[static_cast<size_t>(info().index) % kMostCards]; }
  static constexpr int kMostCounters = 1 << 16;
  [[noreturn]] void refuse(const Tensor& x, const char* op) const;

  // In this order: each needs those above it to the end.
  std::unique_ptr<Context> context_;
  Pool pool_, pinned_;
  Staging staging_;
  KernelCache kernels_;
  uint64_t expert_bytes_;
  double expert_share_ = 1;
  Tensor tile_counters_;
  std::vector<Frequencies> frequencies_;
  std::vector<Table> tables_;  // of the latest uses
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

// What OpTable::measure_limits promises.
MachineLimits measure_limits(Device& device);

}  // namespace anabranch::ops::cuda
