#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <sstream>

#include "cuda/emulator.h"
#include "cuda/fake_card.h"
#include "cuda/late_work.h"
#include "ops/cuda/kernels/args.h"

namespace anabranch {

FakeCard fake_cards[kFakeCards];
std::vector<std::string> fake_faults;

std::vector<int> FakeLaunch::variant_values() const {
  const std::string begin = " kVariant = {";
  const auto at = source.find(begin);
  std::vector<int> values;
  if (at == std::string::npos) return values;
  std::istringstream text(source.substr(at + begin.size()));
  for (int value = 0; text >> value; text.ignore(1, ',')) values.push_back(value);
  return values;
}

bool FakeCard::owns(uint64_t address) const {
  auto it = memory.upper_bound(address);
  return it != memory.begin() && address < (--it)->first + it->second;
}

bool FakeCard::is_closed() const {
  return contexts == 0 && streams == 0 && modules == 0 && events == 0 && memory.empty() && pinned.empty();
}

namespace {

constexpr int kInvalidValue = 1, kInvalidContext = 201, kInvalidDevice = 101, kNotReady = 600,
              kPeerAccessAlreadyEnabled = 704, kLaunchFailed = 719;
constexpr size_t kArenaBytes = size_t{2} << 30;
using Address = unsigned long long;

// As cuda.h has it.
struct LaunchConfig {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
};
struct Stream {
  FakeCard* card;
  LateStream late;
};
// What a stream had been asked for when the event was recorded.
struct Event {
  FakeCard* card;
  Stream* stream = nullptr;
  uint64_t end = 0;
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
// That these bytes are no card's.
int check_host(const void* p, const std::string& what) {
  for (const FakeCard& card : fake_cards)
    if (arena_of(&card).has(reinterpret_cast<Address>(p)))
      return fault(kInvalidValue, what + " with an address of a card as one of the host");
  return 0;
}

std::vector<Stream*> streams;  // those that are open

int carry_out(Stream& stream, uint64_t end = LateStream::kAll) {
  return stream.late.carry_out(end, [](const LateWork& work) {
    return fault(kInvalidValue, std::string(work.what) + " finds its pinned memory changed by others");
  });
}
// Of all streams of the card.
int carry_out_all(const FakeCard* card) {
  int error = 0;
  for (Stream* stream : streams)
    if (stream->card == card)
      if (const int own = carry_out(*stream); error == 0) error = own;
  return error;
}
// That of an event's stream which came before it. An event that was never recorded is done.
int carry_out_to(const Event& event) {
  if (std::ranges::find(streams, event.stream) == streams.end()) return 0;
  return carry_out(*event.stream, event.end);
}

bool is_pinned(const void* p) {
  const auto address = reinterpret_cast<Address>(p);
  return std::ranges::any_of(fake_cards, [&](const FakeCard& card) {
    auto it = card.pinned.upper_bound(address);
    return it != card.pinned.begin() && address < (--it)->first + it->second;
  });
}
bool is_touched_late(const void* host, size_t bytes) {
  return std::ranges::any_of(streams, [&](Stream* s) { return s->late.touching(host, bytes) != nullptr; });
}

// The size of the struct that is a kernel's parameter: a launch copies it.
size_t args_bytes(const std::string& kernel) {
  using namespace ops::cuda;
  if (kernel == "prepare" || kernel == "attend" || kernel == "attend_many" || kernel == "combine")
    return sizeof(AttendArgs);
  if (kernel == "delta") return sizeof(DeltaArgs);
  if (kernel == "make_tokens" || kernel == "recur") return sizeof(RecurrenceArgs);
  if (kernel == "short_conv") return sizeof(ShortConvArgs);
  if (kernel == "norm_rows" || kernel == "norm_heads" || kernel == "norm_groups") return sizeof(NormArgs);
  if (kernel == "heads") return sizeof(HeadArgs);
  if (kernel == "route_sparse") return sizeof(RouteArgs);
  if (kernel == "add_expert_bias") return sizeof(ExpertBiasArgs);
  if (kernel == "layer_norm") return sizeof(LayerNormArgs);
  if (kernel == "embed") return sizeof(EmbedArgs);
  if (kernel == "pairs") return sizeof(PairArgs);
  if (kernel == "add_low_rank") return sizeof(LowRankArgs);
  if (kernel == "low_rank_down") return sizeof(LowRankDownArgs);
  if (kernel == "take") return sizeof(TakeArgs);
  if (kernel.starts_with("choose_")) return sizeof(ChooseArgs);
  if (kernel == "route") return sizeof(RouteArgs);
  if (kernel == "sort_pairs") return sizeof(SortArgs);
  if (kernel == "experts") return sizeof(ExpertArgs);
  if (kernel == "few_gate_up") return sizeof(FewGateUpArgs);
  if (kernel == "few_down") return sizeof(FewDownArgs);
  if (kernel == "weighted_sum") return sizeof(WeightedSumArgs);
  if (kernel.starts_with("exchange")) return sizeof(ExchangeArgs);
  if (kernel == "gemv" || kernel == "gemm") return sizeof(LinearArgs);
  if (kernel == "gemv_low_rank") return sizeof(AdaptedLinearArgs);
  return 0;
}
// Of these, the first, which are addresses of the current card only.
size_t own_args_bytes(const std::string& kernel) {
  if (kernel.starts_with("exchange")) return 0;
  return kernel == "gemv" || kernel == "gemm" ? offsetof(ops::cuda::LinearArgs, segments)
                                              : args_bytes(kernel);
}
// That each address of a card among the kernel's arguments is allocated in the current context, or, of
// another card, in memory that is cleared by now: a card does not wait for what others have yet to do.
int check_args(const std::string& kernel, const std::string& args) {
  const std::string what = "a launch of " + kernel;
  for (size_t i = 0; i + sizeof(Address) <= args.size(); i += sizeof(Address)) {
    Address word;
    std::memcpy(&word, args.data() + i, sizeof(word));
    for (const FakeCard& card : fake_cards) {
      if (!arena_of(&card).has(word)) continue;
      if (i < own_args_bytes(kernel))
        if (const int error = check_memory(word, 0, what)) return error;
      for (const Stream* stream : streams)
        if (&card != current && stream->card == &card && stream->late.clearing(word))
          return fault(kInvalidValue, what + " with memory that another card has yet to clear");
    }
  }
  return 0;
}

// Checks what all copies have to.
int check_copy(void* stream, Address on_card, const void* host, size_t bytes, const char* what) {
  int error = check_stream(stream, what);
  if (!error) error = check_memory(on_card, bytes, what);
  if (!error && host) error = check_host(host, what);
  return error;
}
void add(void* stream, LateWork work) {
  static_cast<Stream*>(stream)->late.add(std::move(work));
}
char* bytes_at(Address p) {
  return reinterpret_cast<char*>(p);
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
int cuCtxEnablePeerAccess(void* context, unsigned) {
  const Lock lock(mutex);
  if (no_context()) return fault(kInvalidContext, "peer access without a context");
  static std::pair<int, int> enabled[kFakeCards][kFakeCards];  // the contexts between which it is
  const auto from = current - fake_cards, to = static_cast<FakeCard*>(context) - fake_cards;
  const std::pair now(generation[from], generation[to]);
  if (std::exchange(enabled[from][to], now) == now) return kPeerAccessAlreadyEnabled;
  return 0;
}
int cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (no_context()) return fault(kInvalidContext, "memory without a context");
  *total = size_t{4} << 30;
  *free = current->free_bytes;
  return 0;
}
int cuMemAlloc_v2(Address* p, size_t bytes) {
  const Lock lock(mutex);
  if (no_context()) return fault(kInvalidContext, "an allocation without a context");
  Arena& arena = arena_of(current);
  if (current->memory.empty()) arena.used = 0;
  const size_t size = (bytes + 511) / 512 * 512;
  size_t used = size;
  for (const auto& [address, bytes_there] : current->memory) used += bytes_there;
  if (bytes == 0 || used > current->free_bytes || arena.used + size > kArenaBytes) return 2;
  *p = arena.begin + arena.used;
  arena.used += size;
  current->memory[*p] = bytes;
  if (current->emulated) std::memset(reinterpret_cast<void*>(*p), 0xFF, bytes);  // NaN
  return 0;
}
// Waits for the card, and fills the memory with NaN.
int cuMemFree_v2(Address p) {
  const Lock lock(mutex);
  if (no_context() || current->memory.count(p) == 0)
    return fault(kInvalidValue, "memory is released that is not of the current context");
  const int error = carry_out_all(current);
  const size_t bytes = current->memory[p];
  constexpr size_t kMostFilled = 16 << 20;
  if (current->emulated && bytes <= kMostFilled)
    std::memset(bytes_at(p), 0xFF, bytes);
  else
    madvise(bytes_at(p), bytes, MADV_DONTNEED);
  current->memory.erase(p);
  return error;
}
int cuMemHostAlloc(void** p, size_t bytes, unsigned) {
  const Lock lock(mutex);
  if (no_context()) return fault(kInvalidContext, "memory is pinned without a context");
  *p = std::malloc(bytes);
  std::memset(*p, 0xFF, bytes);
  current->pinned[reinterpret_cast<Address>(*p)] = bytes;
  return 0;
}
// Whether it waits for copies, CUDA does not say: here it does not.
int cuMemFreeHost(void* p) {
  const Lock lock(mutex);
  const auto address = reinterpret_cast<Address>(p);
  if (no_context() || !current->pinned.contains(address))
    return fault(kInvalidValue, "pinned memory is released that is not of the current context");
  const bool late = is_touched_late(p, current->pinned[address]);
  carry_out_all(current);  // it would write there
  current->pinned.erase(address);
  std::free(p);
  return late ? fault(kInvalidValue, "pinned memory is released before a copy of it is done") : 0;
}
// Memory that is not pinned is read before the call returns.
int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* stream) {
  const Lock lock(mutex);
  const char* what = "a copy to the device";
  if (const int error = check_copy(stream, to, from, bytes, what)) return error;
  auto* source = static_cast<char*>(const_cast<void*>(from));
  if (!is_pinned(from)) {
    const auto staged = std::make_shared<std::string>(source, bytes);
    add(stream, {.what = what, .carry_out = [=] {
                   std::memcpy(bytes_at(to), staged->data(), bytes);
                   return 0;
                 }});
    return 0;
  }
  add(stream, {.what = what,
               .carry_out =
                   [=] {
                     std::memcpy(bytes_at(to), source, bytes);
                     return 0;
                   },
               .pinned = source,
               .pinned_bytes = bytes});
  return 0;
}
// To memory that is not pinned, the call returns when it is done. Elsewhere anything may be until then.
int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* stream) {
  const Lock lock(mutex);
  const char* what = "a copy from the device";
  if (const int error = check_copy(stream, from, to, bytes, what)) return error;
  if (!is_pinned(to)) {
    const int error = carry_out(*static_cast<Stream*>(stream));
    std::memcpy(to, bytes_at(from), bytes);
    return error;
  }
  if (!is_touched_late(to, bytes)) std::memset(to, 0xFF, bytes);
  add(stream, {.what = what,
               .carry_out =
                   [=] {
                     std::memcpy(to, bytes_at(from), bytes);
                     return 0;
                   },
               .pinned = static_cast<char*>(to),
               .pinned_bytes = bytes});
  return 0;
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
  const Lock lock(mutex);
  const char* what = "a copy on the device";
  int error = check_copy(stream, to, nullptr, bytes, what);
  if (!error) error = check_memory(from, bytes, what);
  if (error) return error;
  add(stream, {.what = what, .carry_out = [=] {
                 std::memcpy(bytes_at(to), bytes_at(from), bytes);
                 return 0;
               }});
  return 0;
}
int cuMemsetD8Async(Address p, unsigned char value, size_t bytes, void* stream) {
  const Lock lock(mutex);
  const char* what = "clearing memory";
  if (const int error = check_copy(stream, p, nullptr, bytes, what)) return error;
  add(stream, {.what = what,
               .carry_out =
                   [=] {
                     std::memset(bytes_at(p), value, bytes);
                     return 0;
                   },
               .cleared = p,
               .cleared_bytes = bytes});
  return 0;
}
int cuStreamCreate(void** stream, unsigned) {
  const Lock lock(mutex);
  if (no_context()) return fault(kInvalidContext, "a stream without a context");
  current->streams++;
  streams.push_back(new Stream{current, {}});
  *stream = streams.back();
  return 0;
}
int cuStreamDestroy_v2(void* stream) {
  const Lock lock(mutex);
  if (const int error = check_stream(stream, "closing")) return error;
  current->streams--;
  auto* closed = static_cast<Stream*>(stream);
  const int error = carry_out(*closed);
  std::erase(streams, closed);
  delete closed;
  return error;
}
int cuStreamSynchronize(void* stream) {
  const Lock lock(mutex);
  const int error = check_stream(stream, "waiting");
  return error ? error : carry_out(*static_cast<Stream*>(stream));
}
int cuEventCreate(void** event, unsigned) {
  const Lock lock(mutex);
  if (no_context()) return fault(kInvalidContext, "an event without a context");
  current->events++;
  *event = new Event{current};
  return 0;
}
int cuEventDestroy_v2(void* event) {
  const Lock lock(mutex);
  const std::unique_ptr<Event> closed(static_cast<Event*>(event));
  closed->card->events--;
  return check_card(closed->card, "closing an event");
}
int cuEventRecord(void* event, void* stream) {
  const Lock lock(mutex);
  auto* recorded = static_cast<Event*>(event);
  int error = check_stream(stream, "recording an event");
  if (!error) error = check_card(recorded->card, "recording an event");
  if (error) return error;
  recorded->stream = static_cast<Stream*>(stream);
  recorded->end = recorded->stream->late.asked();
  return 0;
}
int cuEventSynchronize(void* event) {
  const Lock lock(mutex);
  return carry_out_to(*static_cast<Event*>(event));
}
int cuEventElapsedTime(float* ms, void* begin, void* end) {
  const Lock lock(mutex);
  *ms = 1;
  const auto is_done = [](const Event& event) {
    return event.stream && event.stream->late.is_done(event.end);
  };
  return is_done(*static_cast<Event*>(begin)) && is_done(*static_cast<Event*>(end)) ? 0 : kNotReady;
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
  if (error) return error;
  const std::string args(static_cast<const char*>(parameters[0]), args_bytes(f.kernel));
  if (args.empty()) return fault(kInvalidValue, what + ", whose arguments are not known here");
  if (const int wrong = check_args(f.kernel, args)) return wrong;
  f.card->launches.push_back({f.kernel, f.source, blocks});
  if (!f.card->emulated) return 0;
  const emulator::Launch launch{
      f.kernel, f.source, f.card->capability, {c.grid[0], c.grid[1], c.grid[2]}, threads, c.shared_bytes};
  add(c.stream, {.what = "a kernel", .carry_out = [=] {
                   emulator::Launch now = launch;
                   now.args = args.data();
                   const std::string failure = emulator::run(now);
                   return failure.empty() ? 0 : fault(kLaunchFailed, failure);
                 }});
  return 0;
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
