// Device: a processor with its memory, and everything that belongs to it and not to the process: allocator,
// streams, compiled kernels, the table of ops, the precision setting, and the host threads that work for it.
// Two devices in one process are ordinary; so are two CPU devices with different threads and precision.
//
// A device outlives its tensors, weights and models. Its functions are called on one thread at a time, except
// those that say otherwise.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/thread_pool.h"
#include "tensor/tensor.h"

namespace anabranch {

namespace ops {
struct OpTable;
class InputObserver;
class Collective;
}  // namespace ops

// host: memory only, without ops, for tensors read from files. reference and metal: MLX.
enum class DeviceKind : uint8_t { host, cpu, cuda, metal, reference };

// Wall time of a named stage of a forward pass (ops/profile.h).
struct ProfileRow {
  const char* stage = "";
  int64_t calls = 0;
  double seconds = 0;
};
struct Profile {
  bool on = false, inside = false;
  std::vector<ProfileRow> rows;  // in the order in which the stages first ran
};

class Device {
 public:
  virtual ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  DeviceKind kind() const { return kind_; }
  // Tensors of this device lie in the host's memory.
  bool is_host() const { return kind_ == DeviceKind::host || kind_ == DeviceKind::cpu; }
  // The device's memory is not the machine's.
  bool has_own_memory() const { return kind_ == DeviceKind::cuda; }
  // For people: "CPU", "NVIDIA H200".
  const std::string& name() const { return name_; }
  const ops::OpTable& ops() const;
  // Of keys and values: what kv_append() stores.
  Dtype kv_dtype() const { return kv_dtype_; }
  // Host threads that work for this device: kernels of a CPU, and the host's part of the work of others.
  ThreadPool& threads() { return threads_; }
  Profile& profile() { return profile_; }
  // Sees the inputs of matrix products while it is set (ops/input_observer.h); null: nobody does. It outlives
  // the setting.
  ops::InputObserver* input_observer() const { return input_observer_; }
  void set_input_observer(ops::InputObserver* observer) { input_observer_ = observer; }

  // An uninitialised tensor on the device, and one of zeros. Throws std::bad_alloc or std::runtime_error when
  // there is no memory.
  virtual Tensor empty(const Shape& shape, Dtype dtype) = 0;
  virtual Tensor zeros(const Shape& shape, Dtype dtype) = 0;
  // An uninitialised tensor of the host whose way to the device is short: the CPU's own memory, or pinned.
  // Any thread.
  virtual Tensor empty_host(const Shape& shape, Dtype dtype);
  // The tensor of the host on this device (itself if it is there already).
  virtual Tensor to_device(const Tensor& x) = 0;
  // The tensor of this device in the host's memory, when all work on it is done. Any thread.
  virtual Tensor to_host(const Tensor& x) = 0;

  // Waits for everything that was asked for. Called before each pass of a model: memory kept for reuse may be
  // fitted to what passes need.
  virtual void synchronize() {}
  virtual void begin_pass() {}
  // Tokens of a prompt that a pass should read at a time when nothing else runs: as many rows as the matrix
  // products need to be fast.
  virtual int prefill_chunk() const { return 256; }
  // Whether it multiplies 8-bit matrices with inputs that are rounded, too, and much faster than dense ones.
  virtual bool favours_8_bits() const { return false; }
  // Requests that should run at a time, as far as their memory allows.
  virtual int parallel() const { return 8; }
  // Of the device's memory; free: 0 = not known. Any thread.
  virtual uint64_t memory_bytes() const = 0;
  virtual uint64_t free_bytes() const = 0;
  // The rows that each expert of each mixture of experts was given since the device was opened, mixtures in
  // the order in which they first ran. Empty where they are not counted. Any thread; waits for the device's
  // work.
  virtual std::vector<std::vector<uint64_t>> expert_rows() { return {}; }
  // Called before a model is loaded whose files have so many bytes of experts and of other weights: a device
  // of little memory leaves experts in the machine's.
  virtual void plan_experts(uint64_t experts, uint64_t others) { (void)experts, (void)others; }
  // Calls `passes`, passes of a model that compute nothing: the device notes which kernels they need, and
  // begins to compile those that it lacks, on threads of its own. Devices that compile none do not call it.
  virtual void prepare_kernels(const std::function<void()>& passes) { (void)passes; }
  // Waits until they are ready. Returns how many were compiled.
  virtual int finish_kernels() { return 0; }
  // The device has failed for good; every later call fails. Any thread.
  virtual bool lost() const { return false; }

  // The other devices among which this one's models are split, by rank from 1 on: it is rank 0 and owns them
  // (ops/collective.h). Empty: models lie here as a whole.
  const std::vector<std::unique_ptr<Device>>& peers() const { return peers_; }
  // Its end of the group; null when it is in none.
  ops::Collective* collective() const { return collective_.get(); }
  void join_group(std::shared_ptr<ops::Collective> end, std::vector<std::unique_ptr<Device>> peers);

 protected:
  Device(DeviceKind kind, std::string name, const ops::OpTable* ops, Dtype kv_dtype, int threads);
  void set_name(std::string name) { name_ = std::move(name); }
  // For destructors of devices: what lies in their memory goes first.
  void leave_group();

 private:
  DeviceKind kind_;
  std::string name_;
  const ops::OpTable* ops_;
  Dtype kv_dtype_;
  ThreadPool threads_;
  Profile profile_;
  ops::InputObserver* input_observer_ = nullptr;
  std::vector<std::unique_ptr<Device>> peers_;
  std::shared_ptr<ops::Collective> collective_;
};

// The device of tensors that belong to none: rows read from files before they are put on a device.
Device& host_device();

// x.device().to_host(x).
Tensor to_host(const Tensor& x);

}  // namespace anabranch
