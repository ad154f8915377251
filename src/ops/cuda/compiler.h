// Kernels from their sources (ops/cuda/kernels/, which the program carries as text): compiled by NVRTC for
// the device at hand when first used, and kept as machine code in ~/.cache/anabranch/kernels, so that a
// second start compiles nothing.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ops/cuda/driver.h"

namespace anabranch::ops::cuda {

// Why nothing can be compiled here for a device of this compute capability (90: 9.0) and a driver for this
// CUDA (12, 13), or empty.
std::string compiler_unsupported(int capability, int driver);

enum class Source {
  gemv,
  gemm,
  embed,
  rows,
  attention,
  attention_many,
  gated_delta,
  experts,
  few_gate_up,
  few_down,
  routing,
  choose,
  exchange
};

// What a kernel is specialised by: the macros of its file, in the file's order.
struct Variant {
  Source source;
  std::array<int, 10> values{};
  friend auto operator<=>(const Variant&, const Variant&) = default;
};

struct MachineCode {
  std::vector<char> code;
  bool compiled = false;  // now, and not read
};
// Machine code for an architecture such as "sm_90a": what was kept, or else compiled and then kept. Needs no
// device. use_kept: false compiles in any case, when what was kept is damaged. Errors: unsupported (there is
// no NVRTC), internal (the kernel does not compile).
Result<MachineCode> machine_code(const Variant& variant, const std::string& architecture,
                                 bool use_kept = true);

class Compilation;

// The kernels that a device has loaded. Used by the thread that runs the device's models.
class KernelCache {
 public:
  explicit KernelCache(Context& context);
  ~KernelCache();
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;

  // A kernel of the variant; `name` is a literal. Compiles, or reads what was compiled, when first asked.
  // Throws std::runtime_error when that fails.
  Function get(const Variant& variant, const char* name);

  // From here to compile_noted(), get() only notes what is missing. Its functions have no handle: launching
  // one does nothing.
  void note() { noting_ = true; }
  bool noting() const { return noting_; }
  // Begins to compile what was noted, on several threads. May be called again before load_compiled().
  void compile_noted();
  // Loads it when it is ready. Returns how many kernels' machine code had to be compiled.
  int load_compiled();

 private:
  struct Kernel {
    Variant variant;
    const char* name;
    Function function;
  };
  Context& context_;
  std::map<Variant, Module*> modules_;
  std::vector<Kernel> found_[64];  // by a hash: every launch asks
  bool noting_ = false;
  std::set<Variant> noted_;
  std::vector<std::unique_ptr<Compilation>> running_;
};

// ops/cuda/kernels/*, by file name.
std::string_view kernel_text(std::string_view file);

}  // namespace anabranch::ops::cuda
