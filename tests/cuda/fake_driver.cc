#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>

#include "cuda/emulator.h"
#include "cuda/fake_card.h"
#include "ops/cuda/kernels/args.h"

namespace anabranch {

FakeCard fake_cards[kFakeCards];
std::vector<std::string> fake_faults;

int FakeLaunch::macro(const std::string& name) const {
  const auto at = source.find("#define " + name + " ");
  return at == std::string::npos ? -1 : std::atoi(source.c_str() + at + 9 + name.size());
}

bool FakeCard::owns(uint64_t address) const {
  auto it = memory.upper_bound(address);
  return it != memory.begin() && address < (--it)->first + it->second;
}

bool FakeCard::is_closed() const {
  return contexts == 0 && streams == 0 && modules == 0 && events == 0 && memory.empty() && pinned.empty();
}

namespace {

constexpr int kInvalidValue = 1, kInvalidContext = 201, kInvalidDevice = 101, kLaunchFailed = 719;
constexpr size_t kArenaBytes = size_t{2} << 30;
using Address = unsigned long long;

// As cuda.h has it.
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
};
struct Stream {
  FakeCard* card;
};
struct Module {
  FakeCard* card;
  std::string source;
};
struct Function {
  FakeCard* card;
  std::string kernel, source;
  unsigned allowed = 48 << 10;
};

std::recursive_mutex mutex;  // held by every call
using Lock = std::lock_guard<std::recursive_mutex>;
thread_local FakeCard* current = nullptr;
// A context that was closed and opened again is another one.
int generation[kFakeCards];
thread_local int current_generation = 0;
bool no_context() {
  return !current || current->contexts == 0 || current_generation != generation[current - fake_cards];
}

// A card's addresses. Bit 31 is set in each, so that a small integer and the padding behind it are never
// taken for one. None is given twice before the card is empty: a use after the release is seen.
struct Arena {
  Address begin = 0;
  size_t used = 0;
  Arena() {
    void* reserved = mmap(nullptr, size_t{8} << 30, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (reserved == MAP_FAILED) std::abort();
    begin = ((reinterpret_cast<Address>(reserved) >> 32) + 1) << 32 | 0x80000000u;
  }
  bool has(Address p) const { return p >= begin && p < begin + kArenaBytes; }
};
Arena& arena_of(const FakeCard* card) {
  static Arena arenas[kFakeCards];
  return arenas[card - fake_cards];
}

int fault(int error, const std::string& what) {
  fake_faults.push_back(what);
  return error;
}

// That the thread's context is the one of `card`.
int check_card(const FakeCard* card, const std::string& what) {
  if (no_context()) return fault(kInvalidContext, what + " without a context");
  return card == current ? 0 : fault(kInvalidContext, what + " of another context than the current one");
}
int check_stream(void* stream, const std::string& what) {
  if (!stream) return fault(kInvalidValue, what + " without a stream");
  return check_card(static_cast<Stream*>(stream)->card, what + " on a stream");
}
// That these bytes are allocated in the current context.
int check_memory(Address p, size_t bytes, const std::string& what) {
  if (no_context()) return fault(kInvalidContext, what + " without a context");
  auto it = current->memory.upper_bound(p);
  if (it == current->memory.begin()) return fault(kInvalidValue, what + " with memory of others");
  --it;
  return p + bytes <= it->first + it->second ? 0 : fault(kInvalidValue, what + " with memory of others");
}
int check_host(const void* p, const std::string& what) {
  for (const FakeCard& card : fake_cards)
    if (arena_of(&card).has(reinterpret_cast<Address>(p)))
      return fault(kInvalidValue, what + " with an address of a card as one of the host");
  return 0;
}

size_t args_bytes(const std::string& kernel) {
  using namespace ops::cuda;
  if (kernel == "prepare" || kernel == "attend" || kernel == "attend_many" || kernel == "combine")
    return sizeof(AttendArgs);
  if (kernel == "delta") return sizeof(DeltaArgs);
  if (kernel == "norm_rows" || kernel == "norm_heads") return sizeof(NormArgs);
  if (kernel == "embed") return sizeof(EmbedArgs);
  if (kernel == "pairs") return sizeof(PairArgs);
  if (kernel == "take") return sizeof(TakeArgs);
  if (kernel.starts_with("choose_")) return sizeof(ChooseArgs);
  if (kernel == "route") return sizeof(RouteArgs);
  if (kernel == "sort_pairs") return sizeof(SortArgs);
  if (kernel == "experts") return sizeof(ExpertArgs);
  if (kernel == "weighted_sum") return sizeof(WeightedSumArgs);
  return offsetof(LinearArgs, segments);  // gemv, gemm; what follows are addresses of all cards
}
// That every address of a card among the kernel's arguments is allocated in the current context.
int check_args(const std::string& kernel, const void* args) {
  const auto* from = static_cast<const char*>(args);
  for (size_t i = 0; i + sizeof(Address) <= args_bytes(kernel); i += sizeof(Address)) {
    Address word;
    std::memcpy(&word, from + i, sizeof(word));
    for (const FakeCard& card : fake_cards)
      if (arena_of(&card).has(word))
        if (const int error = check_memory(word, 0, "a launch of " + kernel)) return error;
  }
  return 0;
}

}  // namespace
}  // namespace anabranch

using namespace anabranch;

extern "C" {

int cuInit(unsigned) {
  return 0;
}
int cuDeviceGet(int* device, int index) {
  if (index < 0 || index >= kFakeCards) return kInvalidDevice;
  *device = index;
  return 0;
}
int cuDeviceGetName(char* name, int size, int device) {
  std::strncpy(name, device == 0 ? "a fake card" : "another fake card", static_cast<size_t>(size));
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const FakeCard& card = fake_cards[device];
  switch (attribute) {
    case 16:
      *value = card.multiprocessors;
      break;
    case 75:
      *value = card.capability / 10;
      break;
    case 76:
      *value = card.capability % 10;
      break;
    case 97:
      *value = card.shared_bytes;
      break;
    default:
      *value = 1;
  }
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  const Lock lock(mutex);
  if (fake_cards[device].contexts++ == 0) generation[device]++;
  *context = &fake_cards[device];
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  const Lock lock(mutex);
  FakeCard& card = fake_cards[device];
  if (card.contexts == 0) return fault(kInvalidContext, "a context is released twice");
  card.contexts--;
  return 0;
}
int cuCtxSetCurrent(void* context) {
  const Lock lock(mutex);
  auto* card = static_cast<FakeCard*>(context);
  if (card->contexts == 0) return fault(kInvalidContext, "a context that is not open becomes current");
  current = card;
  current_generation = generation[card - fake_cards];
  return 0;
}
int cuDeviceCanAccessPeer(int* possible, int, int) {
  *possible = 1;
  return 0;
}
int cuCtxEnablePeerAccess(void*, unsigned) {
  return 0;
}
int cuMemGetInfo_v2(size_t* free, size_t* total) {
  *free = *total = size_t{4} << 30;
  return no_context() ? fault(kInvalidContext, "memory without a context") : 0;
}
int cuMemAlloc_v2(Address* p, size_t bytes) {
  const Lock lock(mutex);
  if (no_context()) return fault(kInvalidContext, "an allocation without a context");
  Arena& arena = arena_of(current);
  if (current->memory.empty()) arena.used = 0;
  const size_t size = (bytes + 511) / 512 * 512;
  if (bytes == 0 || arena.used + size > kArenaBytes) return 2;
  *p = arena.begin + arena.used;
  arena.used += size;
  current->memory[*p] = bytes;
  if (current->emulated) std::memset(reinterpret_cast<void*>(*p), 0xFF, bytes);  // NaN
  return 0;
}
int cuMemFree_v2(Address p) {
  const Lock lock(mutex);
  if (no_context() || current->memory.count(p) == 0)
    return fault(kInvalidValue, "memory is released that is not of the current context");
  madvise(reinterpret_cast<void*>(p), current->memory[p], MADV_DONTNEED);
  current->memory.erase(p);
  return 0;
}
int cuMemHostAlloc(void** p, size_t bytes, unsigned) {
  const Lock lock(mutex);
  if (no_context()) return fault(kInvalidContext, "memory is pinned without a context");
  *p = std::calloc(1, bytes);
  current->pinned[reinterpret_cast<Address>(*p)] = bytes;
  return 0;
}
int cuMemFreeHost(void* p) {
  const Lock lock(mutex);
  if (no_context() || current->pinned.erase(reinterpret_cast<Address>(p)) == 0)
    return fault(kInvalidValue, "pinned memory is released that is not of the current context");
  std::free(p);
  return 0;
}
int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* stream) {
  const Lock lock(mutex);
  const char* what = "a copy to the device";
  int error = check_stream(stream, what);
  if (!error) error = check_memory(to, bytes, what);
  if (!error) error = check_host(from, what);
  if (!error) std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return error;
}
int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* stream) {
  const Lock lock(mutex);
  const char* what = "a copy from the device";
  int error = check_stream(stream, what);
  if (!error) error = check_memory(from, bytes, what);
  if (!error) error = check_host(to, what);
  if (!error) std::memcpy(to, reinterpret_cast<void*>(from), bytes);
  return error;
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
  const Lock lock(mutex);
  const char* what = "a copy on the device";
  int error = check_stream(stream, what);
  if (!error) error = check_memory(to, bytes, what);
  if (!error) error = check_memory(from, bytes, what);
  if (!error) std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes);
  return error;
}
int cuMemsetD8Async(Address p, unsigned char value, size_t bytes, void* stream) {
  const Lock lock(mutex);
  int error = check_stream(stream, "clearing memory");
  if (!error) error = check_memory(p, bytes, "clearing memory");
  if (!error) std::memset(reinterpret_cast<void*>(p), value, bytes);
  return error;
}
int cuStreamCreate(void** stream, unsigned) {
  const Lock lock(mutex);
  if (no_context()) return fault(kInvalidContext, "a stream without a context");
  current->streams++;
  *stream = new Stream{current};
  return 0;
}
int cuStreamDestroy_v2(void* stream) {
  const Lock lock(mutex);
  if (const int error = check_stream(stream, "closing")) return error;
  current->streams--;
  delete static_cast<Stream*>(stream);
  return 0;
}
int cuStreamSynchronize(void* stream) {
  const Lock lock(mutex);
  return check_stream(stream, "waiting");
}
int cuEventCreate(void** event, unsigned) {
  const Lock lock(mutex);
  if (no_context()) return fault(kInvalidContext, "an event without a context");
  current->events++;
  *event = current;
  return 0;
}
int cuEventDestroy_v2(void* event) {
  const Lock lock(mutex);
  static_cast<FakeCard*>(event)->events--;
  return check_card(static_cast<FakeCard*>(event), "closing an event");
}
int cuEventRecord(void* event, void* stream) {
  const Lock lock(mutex);
  const int error = check_stream(stream, "recording an event");
  return error ? error : check_card(static_cast<FakeCard*>(event), "recording an event");
}
int cuEventSynchronize(void*) {
  return 0;
}
int cuEventElapsedTime(float* ms, void*, void*) {
  *ms = 1;
  return 0;
}
// The fake compiler's machine code is the source. Functions live as long as the process.
int cuModuleLoadData(void** module, const void* code) {
  const Lock lock(mutex);
  if (no_context()) return fault(kInvalidContext, "a module without a context");
  current->modules++;
  *module = new Module{current, static_cast<const char*>(code)};
  return 0;
}
int cuModuleUnload(void* module) {
  const Lock lock(mutex);
  if (const int error = check_card(static_cast<Module*>(module)->card, "unloading a module")) return error;
  current->modules--;
  delete static_cast<Module*>(module);
  return 0;
}
int cuModuleGetFunction(void** function, void* module, const char* name) {
  const Lock lock(mutex);
  static std::vector<std::unique_ptr<Function>> all;
  const auto* from = static_cast<Module*>(module);
  if (from->source.find(std::string(" ") + name + "(") == std::string::npos)
    return fault(kInvalidValue, std::string(name) + " is not in its source");
  all.push_back(std::make_unique<Function>(Function{from->card, name, from->source}));
  *function = all.back().get();
  return check_card(from->card, "finding a kernel");
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  const Lock lock(mutex);
  auto* f = static_cast<Function*>(function);
  if (attribute != 8 || value > f->card->shared_bytes) return kInvalidValue;
  f->allowed = static_cast<unsigned>(value);
  return check_card(f->card, "asking for shared memory");
}
// Programs that run with this driver lose the card once the file that $FAKE_CUDA_FAILURE names is there.
static bool is_broken() {
  static const char* const file = std::getenv("FAKE_CUDA_FAILURE");
  return file && ::access(file, F_OK) == 0;
}

int cuLaunchKernelEx(const void* config, void* function, void** parameters, void**) {
  if (is_broken()) return kLaunchFailed;
  const Lock lock(mutex);
  const auto& c = *static_cast<const LaunchConfig*>(config);
  const auto& f = *static_cast<const Function*>(function);
  const unsigned threads = c.block[0] * c.block[1] * c.block[2], blocks = c.grid[0] * c.grid[1] * c.grid[2];
  if (threads == 0 || threads > 1024 || blocks == 0 || c.grid[1] > 65535 || c.grid[2] > 65535 ||
      c.shared_bytes > f.allowed || !parameters[0])
    return kInvalidValue;
  const std::string what = "a launch of " + f.kernel;
  int error = check_stream(c.stream, what);
  if (!error) error = check_card(f.card, what);
  if (!error && !f.kernel.starts_with("exchange"))
    error = check_args(f.kernel, parameters[0]);  // it writes to all cards
  if (error) return error;
  f.card->launches.push_back({f.kernel, f.source, blocks});
  if (!f.card->emulated) return 0;
  const std::string failure = emulator::run({f.kernel,
                                             f.source,
                                             f.card->capability,
                                             {c.grid[0], c.grid[1], c.grid[2]},
                                             threads,
                                             c.shared_bytes,
                                             parameters[0]});
  return failure.empty() ? 0 : fault(kLaunchFailed, failure);
}
int cuGetErrorName(int error, const char** name) {
  *name = error == kInvalidContext ? "CUDA_ERROR_INVALID_CONTEXT" : "CUDA_ERROR_INVALID_VALUE";
  return 0;
}
int cuDriverGetVersion(int* version) {
  *version = 99000;
  return 0;
}
}
