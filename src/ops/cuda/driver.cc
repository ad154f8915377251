#include "ops/cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "base/log.h"
#include "ops/cuda/compiler.h"

namespace anabranch::ops::cuda {

// The few declarations of cuda.h that we use; its names, values and layouts are the driver's stable
// interface. In an anonymous namespace they would crash GCC 14, in builds that compile files in groups.
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

namespace {

constexpr int kProgrammaticStreamSerialization = 6;  // CU_LAUNCH_ATTRIBUTE_...
constexpr int kOutOfMemory = 2;                      // CUDA_ERROR_OUT_OF_MEMORY
constexpr int kMultiprocessors = 16, kMajor = 75, kMinor = 76, kClock = 13,
              kShared = 97;           // CU_DEVICE_ATTRIBUTE_...
constexpr int kMaxDynamicShared = 8;  // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

using Address = unsigned long long;

#define ANABRANCH_CUDA_CALLS(X)                                                     \
  X(Init, "cuInit", unsigned)                                                       \
  X(DeviceGet, "cuDeviceGet", int*, int)                                            \
  X(DeviceGetName, "cuDeviceGetName", char*, int, int)                              \
  X(DeviceGetAttribute, "cuDeviceGetAttribute", int*, int, int)                     \
  X(DevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", void**, int)                \
  X(DevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", int)                   \
  X(CtxSetCurrent, "cuCtxSetCurrent", void*)                                        \
  X(DeviceCanAccessPeer, "cuDeviceCanAccessPeer", int*, int, int)                   \
  X(CtxEnablePeerAccess, "cuCtxEnablePeerAccess", void*, unsigned)                  \
  X(MemGetInfo, "cuMemGetInfo_v2", size_t*, size_t*)                                \
  X(MemAlloc, "cuMemAlloc_v2", Address*, size_t)                                    \
  X(MemFree, "cuMemFree_v2", Address)                                               \
  X(MemHostAlloc, "cuMemHostAlloc", void**, size_t, unsigned)                       \
  X(MemFreeHost, "cuMemFreeHost", void*)                                            \
  X(MemcpyHtoD, "cuMemcpyHtoDAsync_v2", Address, const void*, size_t, void*)        \
  X(MemcpyDtoH, "cuMemcpyDtoHAsync_v2", void*, Address, size_t, void*)              \
  X(MemcpyDtoD, "cuMemcpyDtoDAsync_v2", Address, Address, size_t, void*)            \
  X(MemsetD8, "cuMemsetD8Async", Address, unsigned char, size_t, void*)             \
  X(StreamCreate, "cuStreamCreate", void**, unsigned)                               \
  X(StreamDestroy, "cuStreamDestroy_v2", void*)                                     \
  X(StreamSynchronize, "cuStreamSynchronize", void*)                                \
  X(EventCreate, "cuEventCreate", void**, unsigned)                                 \
  X(EventDestroy, "cuEventDestroy_v2", void*)                                       \
  X(EventRecord, "cuEventRecord", void*, void*)                                     \
  X(EventSynchronize, "cuEventSynchronize", void*)                                  \
  X(EventElapsedTime, "cuEventElapsedTime", float*, void*, void*)                   \
  X(ModuleLoadData, "cuModuleLoadData", void**, const void*)                        \
  X(ModuleUnload, "cuModuleUnload", void*)                                          \
  X(ModuleGetFunction, "cuModuleGetFunction", void**, void*, const char*)           \
  X(FuncSetAttribute, "cuFuncSetAttribute", void*, int, int)                        \
  X(LaunchKernelEx, "cuLaunchKernelEx", const LaunchConfig*, void*, void**, void**) \
  X(GetErrorName, "cuGetErrorName", int, const char**)                              \
  X(DriverGetVersion, "cuDriverGetVersion", int*)

}  // namespace

// The driver's functions, shared by all devices.
struct Driver {
#define X(name, symbol, ...) int (*name)(__VA_ARGS__) = nullptr;
  ANABRANCH_CUDA_CALLS(X)
#undef X
  std::string unsupported;  // reason why it cannot be used, or empty
  int version = 0;          // of CUDA: 12, 13

  Driver() {
    unsupported = open();
  }

  std::string name_of(int error) const {
    const char* name = nullptr;
    if (GetErrorName) GetErrorName(error, &name);
    return name ? name : fmt::format("error {}", error);
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
    if (const int error = Init(0); error != 0)
      return fmt::format("CUDA cannot be started ({})", name_of(error));
    DriverGetVersion(&version);
    version /= 1000;
    return "";
  }
};

namespace {

const Driver& driver() {
  static const Driver opened;
  return opened;
}

// Whether the error is final: faults of kernels and of the card (cuda.h: "the process must be terminated and
// relaunched"), and unknown errors.
bool is_final(int error) {
  constexpr int kFinal[] = {214, 220, 226, 700, 702, 709, 710, 714, 715,
                            716, 717, 718, 719, 721, 810, 911, 999};
  return std::find(std::begin(kFinal), std::end(kFinal), error) != std::end(kFinal);
}

Address address(const void* p) {
  return reinterpret_cast<Address>(p);
}

uint64_t next_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

void DriverErrors::check(int error, const char* what) {
  if (error == 0) return;
  const std::string message = fmt::format("CUDA: {} failed: {}", what, driver().name_of(error));
  if (is_final(error) && !lost_.exchange(true))
    log_error("{}: the device can be used again only by a new process", message);
  throw std::runtime_error(message);
}

Result<DeviceInfo> find_device(int index) {
  const Driver& d = driver();
  const auto unsupported = [](std::string why) { return Error{ErrorKind::unsupported, std::move(why)}; };
  if (!d.unsupported.empty()) return unsupported(d.unsupported);
  int handle = 0;
  if (d.DeviceGet(&handle, index) != 0)
    return unsupported(index == 0 ? "CUDA sees no device"
                                  : fmt::format("CUDA sees no device of index {}", index));
  const auto attribute = [&](int which) {
    int value = 0;
    d.DeviceGetAttribute(&value, which, handle);
    return value;
  };
  char name[256] = {};
  d.DeviceGetName(name, sizeof(name) - 1, handle);
  DeviceInfo info;
  info.index = index;
  info.name = name;
  info.capability = 10 * attribute(kMajor) + attribute(kMinor);
  info.multiprocessors = attribute(kMultiprocessors);
  info.shared_bytes = attribute(kShared);
  const int per_clock = info.capability == 90 ? 4096 : info.capability == 80 ? 2048 : 1024;
  info.tensor_flops = 1e3 * attribute(kClock) * info.multiprocessors * per_clock;
  if (info.capability < 80)
    return unsupported(fmt::format("{} has compute capability {}.{}; 8.0 or later is needed", info.name,
                                   info.capability / 10, info.capability % 10));
  if (std::string why = compiler_unsupported(info.capability, d.version); !why.empty())
    return unsupported(std::move(why));
  return info;
}

Context::Context(const DeviceInfo& info) : info_(info), id_(next_id()) {}

Result<std::unique_ptr<Context>> Context::open(const DeviceInfo& info) {
  const Driver& d = driver();
  std::unique_ptr<Context> context(new Context(info));
  int handle = 0, error = d.DeviceGet(&handle, info.index);
  if (error == 0) error = d.DevicePrimaryCtxRetain(&context->context_, handle);
  if (error == 0) error = context->set_current();
  if (error == 0) error = d.StreamCreate(&context->stream_, 1);
  size_t free = 0, total = 0;
  if (error == 0) error = d.MemGetInfo(&free, &total);
  if (error != 0)
    return make_error(ErrorKind::unsupported, "{} cannot be used ({})", info.name, d.name_of(error));
  context->info_.memory_bytes = total;
  return context;
}

Context::~Context() {
  const Driver& d = driver();
  if (!context_) return;
  if (set_current() == 0 && stream_) {
    d.StreamSynchronize(stream_);
    d.StreamDestroy(stream_);
  }
  int handle = 0;
  d.DeviceGet(&handle, info_.index);
  d.DevicePrimaryCtxRelease(handle);
}

int Context::set_current() {
  static thread_local uint64_t current = 0;
  if (current == id_) return 0;
  const int error = driver().CtxSetCurrent(context_);
  if (error == 0) current = id_;
  return error;
}

// Returns the driver, after making this context current in this thread.
const Driver& Context::driver_here() {
  if (const int error = set_current(); error != 0) check(error, "choosing the device");
  return driver();
}

uint64_t Context::free_memory() {
  size_t free = 0, total = 0;
  check(driver_here().MemGetInfo(&free, &total), "asking for free memory");
  return free;
}

void* Context::allocate(size_t bytes) {
  Address p = 0;
  const int error = driver_here().MemAlloc(&p, bytes);
  if (error == kOutOfMemory) return nullptr;
  check(error, "allocating memory");
  return reinterpret_cast<void*>(p);
}
void* Context::allocate_pinned(size_t bytes) {
  void* p = nullptr;
  const int error = driver_here().MemHostAlloc(&p, bytes, 0);
  if (error == kOutOfMemory) return nullptr;
  check(error, "allocating pinned memory");
  return p;
}
// Called from destructors, so errors are left to the next call.
void Context::release(void* p) {
  if (set_current() == 0) driver().MemFree(address(p));
}
void Context::release_pinned(void* p) {
  if (set_current() == 0) driver().MemFreeHost(p);
}

void Context::copy_to_device(void* to, const void* from, size_t bytes) {
  check(driver_here().MemcpyHtoD(address(to), from, bytes, stream_), "a copy to the device");
}
void Context::copy_to_host(void* to, const void* from, size_t bytes) {
  check(driver_here().MemcpyDtoH(to, address(from), bytes, stream_), "a copy from the device");
  synchronize();
}
void Context::copy_to_host_later(void* to, const void* from, size_t bytes) {
  check(driver_here().MemcpyDtoH(to, address(from), bytes, stream_), "a copy from the device");
}
void Context::copy_on_device(void* to, const void* from, size_t bytes) {
  check(driver_here().MemcpyDtoD(address(to), address(from), bytes, stream_), "a copy on the device");
}
void Context::clear(void* p, size_t bytes) {
  check(driver_here().MemsetD8(address(p), 0, bytes, stream_), "clearing memory");
}
void Context::synchronize() {
  check(driver_here().StreamSynchronize(stream_), "work on the device");
}

bool Context::reach(Context& other) {
  constexpr int kAlreadyEnabled = 704;          // CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
  if (other.context_ == context_) return true;  // on the same card
  int possible = 0;
  const Driver& d = driver_here();
  check(d.DeviceCanAccessPeer(&possible, info_.index, other.info_.index), "asking for peer access");
  if (!possible) return false;
  const int error = d.CtxEnablePeerAccess(other.context_, 0);
  if (error != kAlreadyEnabled) check(error, "peer access");
  return true;
}

Module* Context::load_module(const void* cubin, const char* name) {
  void* module = nullptr;
  check(driver_here().ModuleLoadData(&module, cubin), fmt::format("loading {}", name).c_str());
  return static_cast<Module*>(module);
}
void Context::unload_module(Module* module) {
  if (set_current() == 0) driver().ModuleUnload(module);
}
Function Context::find_function(Module* module, const char* name) {
  Function f;
  check(driver_here().ModuleGetFunction(&f.handle, module, name), fmt::format("finding {}", name).c_str());
  return f;
}

// Without this, a kernel may use at most 48 KB of shared memory.
void Context::allow_shared(Function f, unsigned bytes) {
  if (bytes <= 48 << 10) return;
  unsigned& most = allowed_shared_[f.handle];
  if (most >= bytes) return;
  check(driver_here().FuncSetAttribute(f.handle, kMaxDynamicShared, static_cast<int>(bytes)),
        "asking for shared memory");
  most = bytes;
}

void Context::launch(Function f, Grid grid, unsigned threads, unsigned shared_bytes, const void* args) {
  if (!f.handle) return;
  LaunchAttribute attribute{};
  attribute.id = kProgrammaticStreamSerialization;
  attribute.value = 1;
  allow_shared(f, shared_bytes);
  const bool early = info_.capability >= 90;
  const LaunchConfig config{{grid.x, grid.y, grid.z},     {threads, 1, 1}, shared_bytes, stream_,
                            early ? &attribute : nullptr, early ? 1u : 0u};
  void* parameters[] = {const_cast<void*>(args)};
  check(driver_here().LaunchKernelEx(&config, f.handle, parameters, nullptr), "launching a kernel");
}

Event::Event(Context& context) : context_(context) {
  context_.check(context_.driver_here().EventCreate(&event_, 0), "making an event");
}
Event::~Event() {
  if (context_.set_current() == 0) driver().EventDestroy(event_);
}
void Event::record() {
  context_.check(context_.driver_here().EventRecord(event_, context_.stream_), "recording an event");
}
void Event::wait() const {
  context_.check(context_.driver_here().EventSynchronize(event_), "work on the device");
}
double Event::seconds_until(const Event& end) const {
  float ms = 0;
  const Driver& d = context_.driver_here();
  context_.check(d.EventSynchronize(end.event_), "work on the device");
  context_.check(d.EventElapsedTime(&ms, event_, end.event_), "timing");
  return ms * 1e-3;
}

double copy_rate(Context& context) {
  const uint64_t bytes = std::clamp<uint64_t>(context.free_memory() / 8, 1u << 20, 1u << 30);
  const auto release = [&](void* p) { context.release(p); };
  const std::unique_ptr<void, decltype(release)> from(context.allocate(bytes), release),
      to(context.allocate(bytes), release);
  if (!from || !to) return 0;
  double best = 0;
  Event begin(context), end(context);
  for (int i = 0; i < 5; i++) {
    begin.record();
    context.copy_on_device(to.get(), from.get(), bytes);
    end.record();
    best = std::max(best, 2.0 * static_cast<double>(bytes) / begin.seconds_until(end));
  }
  return best;
}

}  // namespace anabranch::ops::cuda
