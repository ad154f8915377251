#include "cuda/emulator.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <stdexcept>
#include <utility>

#include "base/float16.h"

namespace anabranch::emulator {

Index thread_index, block_index, block_size, grid_size;

namespace {

namespace fs = std::filesystem;
constexpr unsigned kMostThreads = 1024, kLanes = 32, kBarriers = 16;
constexpr size_t kStackBytes = 128 << 10, kSharedBytes = 256 << 10;

// A point that threads reach together: every `round` is one meeting.
struct Meeting {
  unsigned round = 0, come = 0;
};
struct Warp : Meeting {
  const char* what = nullptr;
  char bytes[2][kLanes * kMostBytes];  // of this round and of the one before
};
struct Fiber {
  void* at[5];  // as __builtin_setjmp() leaves it
  bool started = false, ended = true;
  const Meeting* waits_for = nullptr;
  unsigned round = 0;  // that it waits to end
};

// A compiled source.
struct Program {
  void* library = nullptr;
  char *shared = nullptr, *shared_end = nullptr;
};

Fiber fibers[kMostThreads];
Warp warps[kMostThreads / kLanes];
Meeting barriers[kBarriers];
unsigned current = 0, running = 0;  // the thread, and how many have not ended
void* scheduler[5];
ucontext_t starting;
std::string error;
void (*kernel)(const void*) = nullptr;
const void* kernel_args = nullptr;

char* stacks() {
  static char* const memory =
      static_cast<char*>(mmap(nullptr, kMostThreads * kStackBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  return memory;
}

// Back to the scheduler, until it resumes this thread. These two and resume() are not inlined: a place must
// not be left and entered in one function.
__attribute__((noinline)) void leave() {
  __builtin_longjmp(scheduler, 1);
}
__attribute__((noinline)) void pause() {
  if (__builtin_setjmp(fibers[current].at) == 0) leave();
}
// A fiber runs one block's thread after the other.
void run_fiber() {
  for (;;) {
    kernel(kernel_args);
    fibers[current].ended = true;
    running--;
    pause();
  }
}
__attribute__((noinline)) void enter(Fiber& fiber) {
  if (fiber.started) __builtin_longjmp(fiber.at, 1);
  fiber.started = true;
  ucontext_t context;
  getcontext(&context);
  context.uc_stack.ss_sp = stacks() + static_cast<size_t>(&fiber - fibers) * kStackBytes;
  context.uc_stack.ss_size = kStackBytes;
  makecontext(&context, run_fiber, 0);
  swapcontext(&starting, &context);
}
__attribute__((noinline)) void resume(unsigned index) {
  current = index;
  thread_index = {index, 0, 0};
  if (__builtin_setjmp(scheduler) == 0) enter(fibers[index]);
}

void wait(Meeting& meeting, unsigned wanted) {
  Fiber& self = fibers[current];
  if (++meeting.come == wanted) {
    meeting.come = 0;
    meeting.round++;
    return;
  }
  self.waits_for = &meeting;
  self.round = meeting.round;
  pause();
}

bool can_run(const Fiber& fiber) {
  return !fiber.ended && (!fiber.waits_for || fiber.waits_for->round != fiber.round);
}

// Threads in order of their index, or in the opposite order in every second block: what depends on the order
// differs between them.
void run_block(const Launch& launch, bool backwards, const Program& program) {
  const unsigned threads = launch.threads;
  std::memset(program.shared, 0xFF, static_cast<size_t>(program.shared_end - program.shared));
  std::memset(dynamic_shared(), 0xFF, launch.shared_bytes);
  for (Meeting& barrier : barriers) barrier = {};
  for (unsigned w = 0; w * kLanes < threads; w++) static_cast<Meeting&>(warps[w]) = {};
  for (unsigned i = 0; i < threads; i++) fibers[i].ended = false, fibers[i].waits_for = nullptr;
  running = threads;
  while (running > 0) {
    bool moved = false;
    for (unsigned i = 0; i < threads && error.empty(); i++) {
      const unsigned index = backwards ? threads - 1 - i : i;
      if (!can_run(fibers[index])) continue;
      fibers[index].waits_for = nullptr;
      resume(index);
      moved = true;
    }
    if (barriers[0].come > 0 && barriers[0].come == running)
      barriers[0].come = 0, barriers[0].round++;  // the others have ended
    else if (!moved && error.empty())
      error = "threads wait for others that never come";
    if (!error.empty()) return;
  }
}

// The kernel's text as C++, and for each kernel a function that takes the address of its arguments.
std::string as_cpp(const std::string& source, int capability) {
  std::string text = "#include \"cuda/emulated_device.h\"\n#define __CUDA_ARCH__ " +
                     std::to_string(capability * 10) +
                     "\nextern \"C\" char __start_emulated_shared[] __attribute__((weak)), "
                     "__stop_emulated_shared[] __attribute__((weak));\n"
                     "extern \"C\" char *shared_begin() { return __start_emulated_shared; }\n"
                     "extern \"C\" char *shared_end() { return __stop_emulated_shared; }\n";
  text +=
      std::regex_replace(source, std::regex(R"(extern __shared__ (?:__align__\(\d+\) )?(\w+) (\w+)\[\];)"),
                         "$1* const $2 = ($1*)anabranch::emulator::dynamic_shared();");
  const std::regex head(R"(KERNEL (?:__launch_bounds__\([^)]*\) )?(\w+)\(const __grid_constant__ (\w+) )");
  for (std::sregex_iterator at(source.begin(), source.end(), head), none; at != none; ++at)
    text += "extern \"C\" void run_" + (*at)[1].str() + "(const void* args) { " + (*at)[1].str() +
            "(*(const " + (*at)[2].str() + "*)args); }\n";
  return text;
}

std::string contents(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// The library of this text, compiled unless it was before. Names by hash: texts that differ never share one.
fs::path compile(const std::string& text) {
  const fs::path directory = EMULATOR_DIRECTORY, root = EMULATOR_ROOT;
  const std::string command = std::string(EMULATOR_COMPILER) +
                              " -x c++ -std=c++20 -O1 -fPIC -shared -w -fno-strict-aliasing -ffp-contract=off"
                              " -ftrivial-auto-var-init=pattern -I " +
                              (root / "src").string() + " -I " + (root / "tests").string();
  const size_t hash = std::hash<std::string>()(command + contents(root / "tests/cuda/emulated_device.h") +
                                               contents(root / "tests/cuda/emulated_thread.h") + text);
  const fs::path base = directory / std::to_string(hash), library = base.string() + ".so";
  if (fs::exists(library)) return library;
  fs::create_directories(directory);
  const std::string own = base.string() + "." + std::to_string(getpid());
  std::ofstream(own + ".cc") << text;
  if (std::system((command + " " + own + ".cc -o " + own + ".so 2> " + own + ".log").c_str()) != 0)
    throw std::runtime_error("does not compile:\n" + contents(own + ".log").substr(0, 4000));
  fs::rename(own + ".so", library);
  fs::remove(own + ".cc");
  fs::remove(own + ".log");
  return library;
}

const Program& program_of(const Launch& launch) {
  static std::map<std::pair<int, std::string>, Program> known;
  Program& program = known[{launch.capability, launch.source}];
  if (program.library) return program;
  void* library = dlopen(compile(as_cpp(launch.source, launch.capability)).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) throw std::runtime_error(dlerror());
  const auto end_of = [&](const char* name) { return reinterpret_cast<char* (*)()>(dlsym(library, name))(); };
  program = {library, end_of("shared_begin"), end_of("shared_end")};
  return program;
}

}  // namespace

void fail(const char* what) {
  if (error.empty()) error = what;
  for (;;) pause();
}

const char* exchange(const char* what, const void* bytes, size_t count) {
  Warp& warp = warps[current / kLanes];
  if (warp.come > 0 && std::strcmp(warp.what, what) != 0)
    fail((std::string("lanes of a warp call ") + warp.what + " and " + what + " at the same time").c_str());
  warp.what = what;
  char* all = warp.bytes[warp.round % 2];
  std::memcpy(all + current % kLanes * kMostBytes, bytes, count);
  wait(warp, kLanes);
  return all;
}

void barrier(int id, int threads) {
  wait(barriers[id], threads > 0 ? static_cast<unsigned>(threads) : running);
}

void mma(float d[4], const uint32_t a[4], uint32_t b0, uint32_t b1, bool f16) {
  // Lane 4 r + q: a at rows r, r + 8 (registers 0, 1) and inputs 2q, 2q + 1, then at inputs 8 more; b at
  // column r and the same inputs.
  const uint32_t words[6] = {a[0], a[1], a[2], a[3], b0, b1};
  float mine[12];
  for (int i = 0; i < 12; i++) {
    const auto bits = static_cast<uint16_t>(words[i / 2] >> i % 2 * 16);
    mine[i] = f16 ? f16_to_float(bits) : bf16_to_float(bits);
  }
  const char* all = exchange("mma", mine, sizeof(mine));
  const unsigned lane = current % kLanes, r = lane / 4, q = lane % 4;
  const auto of = [&](unsigned from) { return reinterpret_cast<const float*>(all + from * kMostBytes); };
  for (unsigned k = 0; k < 16; k++) {
    const unsigned from = k % 8 / 2, at = k / 8 * 4 + k % 2;
    const float *row = of(r * 4 + from) + at, *b = of(2 * q * 4 + from) + 8 + k / 8 * 2 + k % 2,
                *next = b + 4 * kMostBytes / sizeof(float);
    d[0] += row[0] * *b;
    d[1] += row[0] * *next;
    d[2] += row[2] * *b;
    d[3] += row[2] * *next;
  }
}

char* dynamic_shared() {
  alignas(1024) static char memory[kSharedBytes];
  return memory;
}

std::string unsupported() {
  static const bool found = std::system(EMULATOR_COMPILER " --version > /dev/null 2>&1") == 0;
  return found ? "" : "the compiler " EMULATOR_COMPILER " is not here";
}

std::string run(const Launch& launch) {
  error.clear();
  try {
    const Program& program = program_of(launch);
    void* found = dlsym(program.library, ("run_" + launch.kernel).c_str());
    if (!found) return launch.kernel + " is not in its source";
    kernel = reinterpret_cast<void (*)(const void*)>(found);
    kernel_args = launch.args;
    block_size = {launch.threads, 1, 1};
    const Index& grid = grid_size = launch.grid;
    const unsigned blocks = grid.x * grid.y * grid.z;
    static bool last_first = false;
    last_first = !last_first;
    for (unsigned block = 0; block < blocks && error.empty(); block++) {
      const unsigned i = last_first ? blocks - 1 - block : block;
      block_index = {i % grid.x, i / grid.x % grid.y, i / (grid.x * grid.y)};
      run_block(launch, i % 2 == 1, program);
    }
  } catch (const std::exception& e) {
    error = e.what();
  }
  if (error.empty()) return "";
  for (Fiber& fiber : fibers) fiber.started = false;  // they were left in the middle
  return launch.kernel + ": " + error;
}

}  // namespace anabranch::emulator
