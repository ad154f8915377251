// The CUDA driver, opened when first asked for: the program builds and starts without it. One device (the
// first that CUDA_VISIBLE_DEVICES leaves), one stream, on which everything happens in the order asked for.
//
// Errors of the driver after obstacle() was empty throw std::runtime_error with the call and CUDA's own name
// for what went wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace anabranch::ops::cuda {

// Why no kernel can run here, or empty. The first call opens driver and compiler.
const std::string& obstacle();

// Throws unless the driver's answer is 0 (CUDA_SUCCESS).
void check(int error, const char* what);
// Whether an error came after which every later call of this process fails. From any thread.
bool device_lost();

struct DeviceInfo {
  std::string name;
  int capability = 0;  // 10 * major + minor
  int multiprocessors = 0;
  int shared_bytes = 0;  // that a block may have
  uint64_t memory_bytes = 0;
  double tensor_flops = 0;  // bf16, by the data sheet's operations a clock, at the highest clock
};
const DeviceInfo& device();
uint64_t free_memory();

// Plain memory of the device, without a pool, and of the host that the device reaches.
void* allocate(size_t bytes);  // null when there is none
void release(void* p);
void* allocate_pinned(size_t bytes);
void release_pinned(void* p);

// On the stream. Copies from and to memory that is not pinned return when they are done.
void copy_to_device(void* to, const void* from, size_t bytes);
void copy_to_host(void* to, const void* from, size_t bytes);
void copy_on_device(void* to, const void* from, size_t bytes);
void clear(void* p, size_t bytes);
void synchronize();

// Marks on the stream, for timing.
class Event {
 public:
  Event();
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record();
  // Waits for `end`; seconds since this one.
  double seconds_until(const Event& end) const;

 private:
  void* event_ = nullptr;
};

// Bytes read and written by a large copy, per second.
double copy_rate();

struct Module;
Module* load_module(const void* cubin, const char* name);
struct Function {
  void* handle = nullptr;
};
Function find_function(Module* module, const char* name);

// How many clusters of so many blocks, each with such a kernel's threads and shared memory, run at the same
// time.
int most_clusters(Function f, unsigned blocks, unsigned threads, unsigned shared_bytes);

struct Grid {
  unsigned x = 1, y = 1, z = 1;
};
// Engine thread only. The kernel's only parameter is a struct of `args`. It may start while the one before
// ends (common.cuh).
void launch(Function f, Grid grid, unsigned threads, unsigned shared_bytes, const void* args);

}  // namespace anabranch::ops::cuda
