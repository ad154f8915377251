// Device: a processor with its memory, and everything that belongs to it rather than to the process:
// allocator, streams, compiled kernels, the table of ops, the precision setting, and the host threads that
// work for it. A process may have several devices, for example two CPU devices with different threads and
// precision.
//
// A device outlives its tensors, weights and models. Its functions are called on one thread at a time, unless
// they state otherwise.
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

// host: only memory, no ops, for tensors read from files. reference and metal: MLX.
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
  // Tensors of this device are in the host's memory.
  bool is_host() const { return kind_ == DeviceKind::host || kind_ == DeviceKind::cpu; }
  // The device's memory is separate from the machine's.
  bool has_own_memory() const { return kind_ == DeviceKind::cuda; }
  // Name for people: "CPU", "NVIDIA H200".
  const std::string& name() const { return name_; }
  const ops::OpTable& ops() const;
  // The type of keys and values that kv_append() stores.
  Dtype kv_dtype() const { return kv_dtype_; }
  // Host threads that work for this device: a CPU's kernels, or the host's part of the work of other devices.
  ThreadPool& threads() { return threads_; }
  Profile& profile() { return profile_; }
  // While set, it observes the inputs of matrix products (ops/input_observer.h); null: no observer. The
  // observer must outlive the setting.
  ops::InputObserver* input_observer() const { return input_observer_; }
  void set_input_observer(ops::InputObserver* observer) { input_observer_ = observer; }

  // An uninitialised tensor on the device, and one of zeros. Throws std::bad_alloc or std::runtime_error when
  // there is no memory.
  virtual Tensor empty(const Shape& shape, Dtype dtype) = 0;
  virtual Tensor zeros(const Shape& shape, Dtype dtype) = 0;
  // An uninitialised host tensor that can be copied to the device fast: the CPU's own memory, or pinned
  // memory. Any thread.
  virtual Tensor empty_host(const Shape& shape, Dtype dtype);
  // Returns the host tensor on this device (itself if it is already there).
  virtual Tensor to_device(const Tensor& x) = 0;
  // Returns this device's tensor in the host's memory, after all work on the device is done. Any thread.
  virtual Tensor to_host(const Tensor& x) = 0;

  // synchronize(): waits until all submitted work is done. begin_pass(): called before each pass of a model,
  // so that memory kept for reuse can be limited to what passes need.
  virtual void synchronize() {}
  virtual void begin_pass() {}
  // Number of prompt tokens that a prefill pass should process when nothing else runs: enough rows for the
  // matrix products to be fast.
  virtual int prefill_chunk() const { return 256; }
  // Whether the device has products of 8-bit matrices that also round the input to 8 bits, and these are much
  // faster than products of dense matrices.
  virtual bool favours_8_bits() const { return false; }
  // Number of requests that should run at the same time, if memory allows.
  virtual int parallel() const { return 8; }
  // Bytes of the device's memory; free: 0 = not known. Any thread.
  virtual uint64_t memory_bytes() const = 0;
  virtual uint64_t free_bytes() const = 0;
  // For each mixture of experts, in the order in which they first ran: the number of rows that each expert
  // has received since the device was opened. Empty if they are not counted. Any thread; waits for the
  // device's work.
  virtual std::vector<std::vector<uint64_t>> expert_rows() { return {}; }
  // Called before a model is loaded, with the total bytes in its files of experts and of other weights, so
  // that a device with little memory can leave experts in the machine's memory.
  virtual void plan_experts(uint64_t experts, uint64_t others) { (void)experts, (void)others; }
  // Calls `passes`, which runs passes of a model that compute nothing: the device notes which kernels they
  // need, and starts to compile the missing ones on its own threads. Devices that compile no kernels do not
  // call it.
  virtual void prepare_kernels(const std::function<void()>& passes) { (void)passes; }
  // Waits until the kernels are ready. Returns the number that was compiled.
  virtual int finish_kernels() { return 0; }
  // The device has failed permanently; every later call fails. Any thread.
  virtual bool lost() const { return false; }

  // The other devices among which this device's models are split, by rank from 1 on: this one is rank 0 and
  // owns them (ops/collective.h). Empty: models are not split.
  const std::vector<std::unique_ptr<Device>>& other_ranks() const { return other_ranks_; }
  // This device's end of the group; null if it is in none.
  ops::Collective* collective() const { return collective_.get(); }
  void join_group(std::shared_ptr<ops::Collective> end, std::vector<std::unique_ptr<Device>> other_ranks);

 protected:
  Device(DeviceKind kind, std::string name, const ops::OpTable* ops, Dtype kv_dtype, int threads);
  void set_name(std::string name) { name_ = std::move(name); }
  // Called by the destructors of devices: destroys the group's objects, which are in the device's memory,
  // before that memory.
  void leave_group();

 private:
  DeviceKind kind_;
  std::string name_;
  const ops::OpTable* ops_;
  Dtype kv_dtype_;
  ThreadPool threads_;
  Profile profile_;
  ops::InputObserver* input_observer_ = nullptr;
  std::vector<std::unique_ptr<Device>> other_ranks_;
  std::shared_ptr<ops::Collective> collective_;
};

// The device of host tensors: for example, rows read from files before they are copied to a device.
Device& host_device();

// x.device().to_host(x).
Tensor to_host(const Tensor& x);

}  // namespace anabranch
