#include <cstdlib>
#include <cstring>

#include "cuda/fake_card.h"

namespace anabranch {

FakeCard fake_card;

int FakeLaunch::macro(const std::string& name) const {
  const auto at = source.find("#define " + name + " ");
  return at == std::string::npos ? -1 : std::atoi(source.c_str() + at + 9 + name.size());
}

namespace {

constexpr int kInvalidValue = 1;
using Address = unsigned long long;

// As cuda.h has it.
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
};
struct Function {
  std::string kernel, source;
  unsigned allowed = 48 << 10;
};

void* memory(size_t bytes) {
  return std::calloc(1, bytes);
}

}  // namespace
}  // namespace anabranch

using namespace anabranch;

extern "C" {

int cuInit(unsigned) {
  return 0;
}
int cuDeviceGet(int* device, int) {
  return *device = 0;
}
int cuDeviceGetName(char* name, int size, int) {
  std::strncpy(name, "a fake card", static_cast<size_t>(size));
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int) {
  switch (attribute) {
    case 16:
      *value = fake_card.multiprocessors;
      break;
    case 75:
      *value = fake_card.capability / 10;
      break;
    case 76:
      *value = fake_card.capability % 10;
      break;
    case 97:
      *value = fake_card.shared_bytes;
      break;
    default:
      *value = 1;
  }
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &fake_card;
  return 0;
}
int cuCtxSetCurrent(void*) {
  return 0;
}
int cuMemGetInfo_v2(size_t* free, size_t* total) {
  *free = *total = size_t{4} << 30;
  return 0;
}
int cuMemAlloc_v2(Address* p, size_t bytes) {
  *p = reinterpret_cast<Address>(memory(bytes));
  return 0;
}
int cuMemFree_v2(Address p) {
  std::free(reinterpret_cast<void*>(p));
  return 0;
}
int cuMemHostAlloc(void** p, size_t bytes, unsigned) {
  *p = memory(bytes);
  return 0;
}
int cuMemFreeHost(void* p) {
  std::free(p);
  return 0;
}
int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void*) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return 0;
}
int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void*) {
  std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return 0;
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void*) {
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  return 0;
}
int cuMemsetD8Async(Address p, unsigned char value, size_t bytes, void*) {
  std::memset(reinterpret_cast<void*>(p), value, bytes);
  return 0;
}
int cuStreamCreate(void** stream, unsigned) {
  *stream = &fake_card;
  return 0;
}
int cuStreamSynchronize(void*) {
  return 0;
}
int cuEventCreate(void** event, unsigned) {
  *event = &fake_card;
  return 0;
}
int cuEventDestroy_v2(void*) {
  return 0;
}
int cuEventRecord(void*, void*) {
  return 0;
}
int cuEventSynchronize(void*) {
  return 0;
}
int cuEventElapsedTime(float* ms, void*, void*) {
  *ms = 1;
  return 0;
}
// The fake compiler's machine code is the source; modules and functions live as long as the process.
int cuModuleLoadData(void** module, const void* code) {
  *module = new std::string(static_cast<const char*>(code));
  return 0;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  *function = new Function{name, *static_cast<std::string*>(module)};
  return 0;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  if (attribute != 8 || value > fake_card.shared_bytes) return kInvalidValue;
  static_cast<Function*>(function)->allowed = static_cast<unsigned>(value);
  return 0;
}
int cuOccupancyMaxActiveClusters(int* count, void*, const void*) {
  *count = fake_card.clusters;
  return 0;
}
int cuLaunchKernelEx(const void* config, void* function, void** parameters, void**) {
  const auto& c = *static_cast<const LaunchConfig*>(config);
  const auto& f = *static_cast<const Function*>(function);
  const unsigned threads = c.block[0] * c.block[1] * c.block[2], blocks = c.grid[0] * c.grid[1] * c.grid[2];
  if (threads == 0 || threads > 1024 || blocks == 0 || c.grid[1] > 65535 || c.grid[2] > 65535 ||
      c.shared_bytes > f.allowed || !parameters[0])
    return kInvalidValue;
  fake_card.launches.push_back({f.kernel, f.source, blocks});
  return 0;
}
int cuGetErrorName(int, const char** name) {
  *name = "CUDA_ERROR_INVALID_VALUE";
  return 0;
}
int cuDriverGetVersion(int* version) {
  *version = 99000;
  return 0;
}
}
