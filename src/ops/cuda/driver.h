// The CUDA driver, opened on first use: the program builds and starts without it. Its table of functions is
// shared by the process; a Context is a device's part of the driver.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"

namespace anabranch::ops::cuda {

// Throws on the driver's errors, and remembers a permanent one. Any thread.
class DriverErrors {
 public:
  // Throws std::runtime_error with the call and CUDA's own name of the error, unless it is 0 (CUDA_SUCCESS).
  void check(int error, const char* what);
  // Whether an error occurred after which every later call fails.
  bool lost() const { return lost_; }

 private:
  std::atomic<bool> lost_{false};
};

struct DeviceInfo {
  int index = 0;  // index within CUDA_VISIBLE_DEVICES
  std::string name;
  int capability = 0;  // 10 * major + minor
  int multiprocessors = 0;
  int shared_bytes = 0;       // maximum per block
  uint64_t memory_bytes = 0;  // only known for an open Context
  double tensor_flops = 0;    // bf16, from the data sheet's operations per clock at the highest clock
};
// Opens the driver. The error says why no kernel can run on the device: no driver, no such device, a device
// that is too old, no compiler for it.
Result<DeviceInfo> find_device(int index);

struct Driver;
struct Module;
struct Function {
  void* handle = nullptr;
};
struct Grid {
  unsigned x = 1, y = 1, z = 1;
};

// A device's primary context and one stream, on which all work runs in the order of submission. A thread may
// use several contexts in turn: each call makes its own context the thread's current one. Functions marked
// "any thread" may be called on any thread; the others only on the thread that runs the device's models.
class Context {
 public:
  static Result<std::unique_ptr<Context>> open(const DeviceInfo& info);
  // Waits for the stream. Memory and modules must have been released.
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const DeviceInfo& info() const { return info_; }
  bool lost() const { return errors_.lost(); }
  uint64_t free_memory();

  // Memory of the device, without a pool, and host memory that the device can access. Any thread.
  void* allocate(size_t bytes);  // null when there is no memory
  void release(void* p);
  void* allocate_pinned(size_t bytes);
  void release_pinned(void* p);

  // These run on the stream. Copies from and to memory that is not pinned, and all copies to the host, return
  // when they are done. copy_to_host() and synchronize(): any thread.
  void copy_to_device(void* to, const void* from, size_t bytes);
  void copy_to_host(void* to, const void* from, size_t bytes);
  // Copies to pinned memory, and returns before the copy is done.
  void copy_to_host_later(void* to, const void* from, size_t bytes);
  void copy_on_device(void* to, const void* from, size_t bytes);
  void clear(void* p, size_t bytes);
  void synchronize();

  // Allows kernels here to use the other context's memory from now on. False: the cards do not support it.
  bool reach(Context& other);

  Module* load_module(const void* cubin, const char* name);
  void unload_module(Module* module);
  Function find_function(Module* module, const char* name);
  // The kernel's only parameter is a struct of `args`. It may start while the previous kernel ends
  // (common.cuh). A function without a handle is ignored (KernelCache::note).
  void launch(Function f, Grid grid, unsigned threads, unsigned shared_bytes, const void* args);

 private:
  friend class Event;
  explicit Context(const DeviceInfo& info);
  void check(int error, const char* what) { errors_.check(error, what); }
  int set_current();
  const Driver& driver_here();
  void allow_shared(Function f, unsigned bytes);

  DeviceInfo info_;
  uint64_t id_;  // unique in the process: a later object may have the same address
  void *context_ = nullptr, *stream_ = nullptr;
  DriverErrors errors_;
  std::map<void*, unsigned> allowed_shared_;  // bytes, by function
};

// A marker on the stream, for timing and waiting. wait(): any thread.
class Event {
 public:
  explicit Event(Context& context);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record();
  void wait() const;
  // Waits for `end`; returns the seconds from this event to `end`.
  double seconds_until(const Event& end) const;

 private:
  Context& context_;
  void* event_ = nullptr;
};

// Bytes read and written per second by a copy of 1 GiB, or of an eighth of the free memory if that is less.
// 0: there is no memory to measure with.
double copy_rate(Context& context);

}  // namespace anabranch::ops::cuda
