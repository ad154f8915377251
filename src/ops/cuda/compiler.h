// Compiles kernels from their sources (ops/cuda/kernels/, embedded in the program as text) with NVRTC, for
// the present device, when they are first used. The machine code is cached in ~/.cache/anabranch/kernels, so
// that a second start compiles nothing.
#pragma once

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "ops/cuda/driver.h"
#include "ops/cuda/kernels/variants.h"

namespace anabranch::ops::cuda {

// Says why nothing can be compiled for a device of this compute capability (90: 9.0) and a driver for this
// CUDA version (12, 13); empty: it can.
std::string compiler_unsupported(int capability, int driver);
// Its reason where NVRTC is not found, or the driver is for a CUDA version before 12.
std::string no_compiler(int driver);

enum class Source {
  gemv,
  gemm,
  embed,
  rows,
  attention,
  attention_many,
  gated_delta_few,
  gated_delta_many,
  recurrence,
  recurrence_tokens,
  experts,
  few_gate_up,
  few_down,
  routing,
  choose,
  exchange,
  low_rank,
  low_rank_down,
  gemv_low_rank
};

// The specialisation of a kernel: its file, and the ints of the file's struct of kernels/variants.h.
struct Variant {
  Source source;
  std::array<int, 10> values{};

  // NOLINTBEGIN: each of these is a specialisation
  Variant(Source plain) : source(plain) {}  // of a file that has only one
  Variant(const GemvVariant& v, bool adds = false)
      : Variant(adds ? Source::gemv_low_rank : Source::gemv, v) {}
  Variant(const GemmVariant& v) : Variant(Source::gemm, v) {}
  Variant(const EmbedVariant& v) : Variant(Source::embed, v) {}
  Variant(const AttentionVariant& v) : Variant(Source::attention, v) {}
  Variant(const AttentionManyVariant& v) : Variant(Source::attention_many, v) {}
  Variant(const DeltaVariant& v)
      : Variant(v.makers > 0 ? Source::gated_delta_many : Source::gated_delta_few, v) {}
  Variant(const RecurrenceVariant& v) : Variant(Source::recurrence, v) {}
  Variant(const ExpertsVariant& v) : Variant(Source::experts, v) {}
  Variant(const FewGateUpVariant& v) : Variant(Source::few_gate_up, v) {}
  Variant(const FewDownVariant& v) : Variant(Source::few_down, v) {}
  Variant(const LowRankDownVariant& v) : Variant(Source::low_rank_down, v) {}
  // NOLINTEND
  friend auto operator<=>(const Variant&, const Variant&) = default;

 private:
  template <class Values>
  Variant(Source source, const Values& of_file) : source(source) {
    static_assert(sizeof(of_file) <= sizeof(values));
    std::memcpy(values.data(), &of_file, sizeof(of_file));
  }
};

struct MachineCode {
  std::vector<char> code;
  bool compiled = false;  // true: compiled just now, not read from the cache
};
// Machine code for an architecture such as "sm_90a": cached, or else compiled and then cached. Needs no
// device. use_kept: false compiles in any case, for when the cached code is damaged. Errors: unsupported (no
// NVRTC), internal (the kernel does not compile).
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

  // A kernel of the variant; `name` is a literal. Compiles it, or reads it from the cache, on the first
  // request. Throws std::runtime_error when that fails.
  Function get(const Variant& variant, const char* name);

  // From this call to compile_noted(), get() only notes which kernels are missing. The functions that it
  // returns have no handle: launching one does nothing.
  void note() { noting_ = true; }
  bool noting() const { return noting_; }
  // Starts to compile the noted kernels on several threads. May be called again before load_compiled().
  void compile_noted();
  // Waits for the compilation and loads the kernels. Returns how many had to be compiled.
  int load_compiled();

 private:
  struct Kernel {
    Variant variant;
    const char* name;
    Function function;
  };
  Context& context_;
  std::map<Variant, Module*> modules_;
  std::vector<Kernel> found_[64];  // by a hash, because every launch looks one up
  bool noting_ = false;
  std::set<Variant> noted_;
  std::vector<std::unique_ptr<Compilation>> running_;
};

// ops/cuda/kernels/*, by file name.
std::string_view kernel_text(std::string_view file);

}  // namespace anabranch::ops::cuda
