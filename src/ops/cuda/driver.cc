#include "ops/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <map>
#include <stdexcept>

#include "base/check.h"
#include "base/log.h"
#include "ops/cuda/compiler.h"

namespace anabranch::ops::cuda {
namespace {

// The little of cuda.h that is used here; its names, values and layouts are the driver's stable interface.
struct LaunchAttribute {
  int id;
  char pad[4];
  union {
    char bytes[64];
    int value;
    unsigned size[3];
  };
};
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  LaunchAttribute* attributes;
  unsigned attribute_count;
};
constexpr int kClusterDimension = 4, kProgrammaticStreamSerialization = 6;  // CU_LAUNCH_ATTRIBUTE_...
constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76, kClock = 13,
              kShared = 97;           // CU_DEVICE_ATTRIBUTE_...
constexpr int kMaxDynamicShared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

using Address = unsigned long long;

#define ANABRANCH_CUDA_CALLS(X)                                                          \
  X(Init, "cuInit", unsigned)                                                            \
  X(DeviceGet, "cuDeviceGet", int*, int)                                                 \
  X(DeviceGetName, "cuDeviceGetName", char*, int, int)                                   \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", int*, int, int)                          \
  X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", void**, int)                     \
  X(CtxSetCurrent, "cuCtxSetCurrent", void*)                                             \
  X(MemGetInfo, "cuMemGetInfo_v2", size_t*, size_t*)                                     \
  X(MemAlloc, "cuMemAlloc_v2", Address*, size_t)                                         \
  X(MemFree, "cuMemFree_v2", Address)                                                    \
  X(MemHostAlloc, "cuMemHostAlloc", void**, size_t, unsigned)                            \
  X(MemFreeHost, "cuMemFreeHost", void*)                                                 \
  X(MemcpyHtoD, "cuMemcpyHtoDAsync_v2", Address, const void*, size_t, void*)             \
  X(MemcpyDtoH, "cuMemcpyDtoHAsync_v2", void*, Address, size_t, void*)                   \
  X(MemcpyDtoD, "cuMemcpyDtoDAsync_v2", Address, Address, size_t, void*)                 \
  X(MemsetD8, "cuMemsetD8Async", Address, unsigned char, size_t, void*)                  \
  X(StreamCreate, "cuStreamCreate", void**, unsigned)                                    \
  X(StreamSynchronize, "cuStreamSynchronize", void*)                                     \
  X(MaxActiveClusters, "cuOccupancyMaxActiveClusters", int*, void*, const LaunchConfig*) \
  X(EventCreate, "cuEventCreate", void**, unsigned)                                      \
  X(EventDestroy, "cuEventDestroy_v2", void*)                                            \
  X(EventRecord, "cuEventRecord", void*, void*)                                          \
  X(EventSynchronize, "cuEventSynchronize", void*)                                       \
  X(EventElapsedTime, "cuEventElapsedTime", float*, void*, void*)                        \
  X(ModuleLoadData, "cuModuleLoadData", void**, const void*)                             \
  X(ModuleGetFunction, "cuModuleGetFunction", void**, void*, const char*)                \
  X(FuncSetAttribute, "cuFuncSetAttribute", void*, int, int)                             \
  X(LaunchKernelEx, "cuLaunchKernelEx", const LaunchConfig*, void*, void**, void**)      \
  X(GetErrorName, "cuGetErrorName", int, const char**)                                   \
  X(DriverGetVersion, "cuDriverGetVersion", int*)

struct Driver {
#define X(name, symbol, ...) int (*name)(__VA_ARGS__) = nullptr;
  ANABRANCH_CUDA_CALLS(X)
#undef X
  std::string obstacle;
  void *context = nullptr, *stream = nullptr;
  DeviceInfo info;

  Driver() {
    obstacle = open();
  }

 private:
  std::string open() {
    void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) return "no NVIDIA driver was found (libcuda.so.1 cannot be opened)";
#define X(name, symbol, ...)                                             \
  name = reinterpret_cast<int (*)(__VA_ARGS__)>(dlsym(library, symbol)); \
  if (!name) return "the NVIDIA driver is too old (it has no " symbol "): CUDA 12 or later is needed";
    ANABRANCH_CUDA_CALLS(X)
#undef X
    int device = 0;
    if (const int error = Init(0); error != 0)
      return fmt::format("CUDA cannot be started ({})", name_of(error));
    if (DeviceGet(&device, 0) != 0) return "CUDA sees no device";
    char name[256] = {};
    int major = 0, minor = 0;
    DeviceGetName(name, sizeof(name) - 1, device);
    DeviceGetAttribute(&major, kMajor, device);
    DeviceGetAttribute(&minor, kMinor, device);
    DeviceGetAttribute(&info.multiprocessors, kMultiprocessors, device);
    DeviceGetAttribute(&info.shared_bytes, kShared, device);
    int clock_khz = 0;
    DeviceGetAttribute(&clock_khz, kClock, device);
    info.name = name;
    info.capability = 10 * major + minor;
    const int per_clock = info.capability == 90 ? 4096 : info.capability == 80 ? 2048 : 1024;
    info.tensor_flops = 1e3 * clock_khz * info.multiprocessors * per_clock;
    if (info.capability < 80)
      return fmt::format("{} has compute capability {}.{}; 8.0 or later is needed", info.name, major, minor);
    if (const int error = DevicePrimaryCtxRetain(&context, device); error != 0)
      return fmt::format("{} cannot be used ({})", info.name, name_of(error));
    size_t free = 0, total = 0;
    if (CtxSetCurrent(context) != 0 || StreamCreate(&stream, 1) != 0 || MemGetInfo(&free, &total) != 0)
      return fmt::format("{} cannot be used", info.name);
    info.memory_bytes = total;
    int version = 0;
    DriverGetVersion(&version);
    return compiler_obstacle(info.capability, version / 1000);
  }

 public:
  std::string name_of(int error) const {
    const char* name = nullptr;
    if (GetErrorName) GetErrorName(error, &name);
    return name ? name : fmt::format("error {}", error);
  }
};

Driver& opened() {
  static Driver driver;
  return driver;
}

// The driver, with its context current in this thread.
Driver& driver() {
  Driver& d = opened();
  CHECK(d.obstacle.empty(), "{}", d.obstacle);
  static thread_local bool current = (d.CtxSetCurrent(d.context), true);
  static_cast<void>(current);
  return d;
}

std::atomic<bool> lost{false};

// Faults of kernels and of the card (cuda.h: "the process must be terminated and relaunched"), and unknown
// ones.
bool is_final(int error) {
  constexpr int kFinal[] = {214, 220, 226, 700, 702, 709, 710, 714, 715,
                            716, 717, 718, 719, 721, 810, 911, 999};
  return std::find(std::begin(kFinal), std::end(kFinal), error) != std::end(kFinal);
}

Address address(const void* p) {
  return reinterpret_cast<Address>(p);
}

}  // namespace

const std::string& obstacle() {
  return opened().obstacle;
}
void check(int error, const char* what) {
  if (error == 0) return;
  const std::string message = fmt::format("CUDA: {} failed: {}", what, opened().name_of(error));
  if (is_final(error) && !lost.exchange(true))
    log_error("{}: the device can be used again only by a new process", message);
  throw std::runtime_error(message);
}
bool device_lost() {
  return lost;
}
const DeviceInfo& device() {
  return driver().info;
}
uint64_t free_memory() {
  size_t free = 0, total = 0;
  check(driver().MemGetInfo(&free, &total), "asking for free memory");
  return free;
}

constexpr int kOutOfMemory = 2;

void* allocate(size_t bytes) {
  Address p = 0;
  const int error = driver().MemAlloc(&p, bytes);
  if (error == kOutOfMemory) return nullptr;
  check(error, "allocating memory");
  return reinterpret_cast<void*>(p);
}
void release(void* p) {
  driver().MemFree(address(p));
}
void* allocate_pinned(size_t bytes) {
  void* p = nullptr;
  const int error = driver().MemHostAlloc(&p, bytes, 0);
  if (error == kOutOfMemory) return nullptr;
  check(error, "allocating pinned memory");
  return p;
}
void release_pinned(void* p) {
  driver().MemFreeHost(p);
}

void copy_to_device(void* to, const void* from, size_t bytes) {
  check(driver().MemcpyHtoD(address(to), from, bytes, driver().stream), "a copy to the device");
}
void copy_to_host(void* to, const void* from, size_t bytes) {
  check(driver().MemcpyDtoH(to, address(from), bytes, driver().stream), "a copy from the device");
  synchronize();
}
void copy_on_device(void* to, const void* from, size_t bytes) {
  check(driver().MemcpyDtoD(address(to), address(from), bytes, driver().stream), "a copy on the device");
}
void clear(void* p, size_t bytes) {
  check(driver().MemsetD8(address(p), 0, bytes, driver().stream), "clearing memory");
}
void synchronize() {
  check(driver().StreamSynchronize(driver().stream), "work on the device");
}

Event::Event() {
  check(driver().EventCreate(&event_, 0), "making an event");
}
Event::~Event() {
  driver().EventDestroy(event_);
}
void Event::record() {
  check(driver().EventRecord(event_, driver().stream), "recording an event");
}
double Event::seconds_until(const Event& end) const {
  float ms = 0;
  check(driver().EventSynchronize(end.event_), "work on the device");
  check(driver().EventElapsedTime(&ms, event_, end.event_), "timing");
  return ms * 1e-3;
}

double copy_rate() {
  constexpr size_t kBytes = size_t{1} << 30;
  void *from = allocate(kBytes), *to = allocate(kBytes);
  if (!from || !to) throw std::runtime_error("CUDA: no memory left to measure with");
  double best = 0;
  Event begin, end;
  for (int i = 0; i < 5; i++) {
    begin.record();
    copy_on_device(to, from, kBytes);
    end.record();
    best = std::max(best, 2.0 * kBytes / begin.seconds_until(end));
  }
  release(from);
  release(to);
  return best;
}

Module* load_module(const void* cubin, const char* name) {
  void* module = nullptr;
  check(driver().ModuleLoadData(&module, cubin), fmt::format("loading {}", name).c_str());
  return static_cast<Module*>(module);
}
Function find_function(Module* module, const char* name) {
  Function f;
  check(driver().ModuleGetFunction(&f.handle, module, name), fmt::format("finding {}", name).c_str());
  return f;
}

namespace {

// A kernel uses no more shared memory than 48 KB unasked.
void allow_shared(Function f, unsigned bytes) {
  if (bytes <= 48 << 10) return;
  static std::map<void*, unsigned> allowed;
  unsigned& most = allowed[f.handle];
  if (most < bytes)
    check(driver().FuncSetAttribute(f.handle, kMaxDynamicShared, static_cast<int>(bytes)),
          "asking for shared memory");
  most = std::max(most, bytes);
}

}  // namespace

int most_clusters(Function f, unsigned blocks, unsigned threads, unsigned shared_bytes) {
  allow_shared(f, shared_bytes);
  LaunchAttribute attribute{};
  attribute.id = kClusterDimension;
  attribute.size[0] = blocks, attribute.size[1] = attribute.size[2] = 1;
  const LaunchConfig config{{blocks, 1, 1}, {threads, 1, 1}, shared_bytes, driver().stream, &attribute, 1};
  int most = 0;
  check(driver().MaxActiveClusters(&most, f.handle, &config), "counting clusters");
  return most;
}

void launch(Function f, Grid grid, unsigned threads, unsigned shared_bytes, const void* args) {
  LaunchAttribute attribute{};
  attribute.id = kProgrammaticStreamSerialization;
  attribute.value = 1;
  const Driver& d = driver();
  allow_shared(f, shared_bytes);
  const bool early = d.info.capability >= 90;
  const LaunchConfig config{{grid.x, grid.y, grid.z},     {threads, 1, 1}, shared_bytes, d.stream,
                            early ? &attribute : nullptr, early ? 1u : 0u};
  void* parameters[] = {const_cast<void*>(args)};
  check(d.LaunchKernelEx(&config, f.handle, parameters, nullptr), "launching a kernel");
}

}  // namespace anabranch::ops::cuda
