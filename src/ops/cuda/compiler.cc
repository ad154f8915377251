#include "ops/cuda/compiler.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "base/log.h"
#include "base/thread_name.h"
#include "base/user_directory.h"

namespace anabranch::ops::cuda {
namespace {

// The functions of nvrtc.h that we use.
using Program = void*;
struct Nvrtc {
  int (*Create)(Program*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  int (*Compile)(Program, int, const char* const*) = nullptr;
  int (*LogSize)(Program, size_t*) = nullptr;
  int (*Log)(Program, char*) = nullptr;
  int (*CubinSize)(Program, size_t*) = nullptr;
  int (*Cubin)(Program, char*) = nullptr;
  int (*Destroy)(Program*) = nullptr;
  int (*Version)(int*, int*) = nullptr;
  int (*NumSupportedArchs)(int*) = nullptr;
  int (*SupportedArchs)(int*) = nullptr;
  std::string unsupported;  // reason why it cannot be used, or empty
  bool missing = false;     // the reason: the loader finds no library, and nobody named one
  int major = 0, minor = 0;

  Nvrtc() {
    void* library = nullptr;
    // NVRTC 12 or 13: at the path $ANABRANCH_NVRTC if that is set, else where the loader finds it.
    const char* told = std::getenv("ANABRANCH_NVRTC");
    std::vector<const char*> names = {told};
    if (!told)
      names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"};
    for (const char* name : names)
      if (!library) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library && told) {
      unsupported = fmt::format("ANABRANCH_NVRTC names '{}', which cannot be opened", told);
      return;
    }
    if (!library) {
      unsupported = "CUDA's run-time compiler was not found";
      missing = true;
      return;
    }
    const auto find = [&](auto& f, const char* name) {
      f = reinterpret_cast<std::remove_reference_t<decltype(f)>>(dlsym(library, name));
      if (!f) unsupported = fmt::format("CUDA's run-time compiler has no {}", name);
    };
    find(Create, "nvrtcCreateProgram");
    find(Compile, "nvrtcCompileProgram");
    find(LogSize, "nvrtcGetProgramLogSize");
    find(Log, "nvrtcGetProgramLog");
    find(CubinSize, "nvrtcGetCUBINSize");
    find(Cubin, "nvrtcGetCUBIN");
    find(Destroy, "nvrtcDestroyProgram");
    find(Version, "nvrtcVersion");
    find(NumSupportedArchs, "nvrtcGetNumSupportedArchs");
    find(SupportedArchs, "nvrtcGetSupportedArchs");
    if (unsupported.empty()) Version(&major, &minor);
  }
};

const Nvrtc& nvrtc() {
  static const Nvrtc opened;
  return opened;
}

struct SourceFile {
  const char* name;
  std::array<const char*, 4> includes;  // files to include before it, after those of all kernels
  const char* variant = nullptr;        // the type of its specialisations (kernels/variants.h); null: none
  size_t values = 0;                    // number of ints of that type
};
const SourceFile& file_of(Source source) {
  const auto ints = [](auto variant) { return sizeof(variant) / sizeof(int); };
  static const SourceFile files[] = {
      {"gemv.cu",
       {"weights.cuh", "product.cuh", "lines.cuh", "gemv.cuh"},
       "GemvVariant",
       ints(GemvVariant{})},
      {"gemm.cu", {"weights.cuh", "wgmma.cuh"}, "GemmVariant", ints(GemmVariant{})},
      {"embed.cu", {"weights.cuh"}, "EmbedVariant", ints(EmbedVariant{})},
      {"rows.cu", {}},
      {"attention.cu",
       {"attention.cuh", "attention_prepare.cuh", "attention_join.cuh"},
       "AttentionVariant",
       ints(AttentionVariant{})},
      {"attention_many.cu",
       {"attention.cuh", "wgmma.cuh"},
       "AttentionManyVariant",
       ints(AttentionManyVariant{})},
      {"gated_delta_few.cu", {"gated_delta.cuh"}, "DeltaVariant", ints(DeltaVariant{})},
      {"gated_delta_many.cu", {"gated_delta.cuh"}, "DeltaVariant", ints(DeltaVariant{})},
      {"recurrence.cu", {}, "RecurrenceVariant", ints(RecurrenceVariant{})},
      {"recurrence_tokens.cu", {"recurrence_rows.cuh"}},
      {"experts.cu", {"weights.cuh", "product.cuh", "experts.cuh"}, "ExpertsVariant", ints(ExpertsVariant{})},
      {"few_gate_up.cu",
       {"weights.cuh", "product.cuh", "experts.cuh", "routing.cuh"},
       "FewGateUpVariant",
       ints(FewGateUpVariant{})},
      {"few_down.cu",
       {"weights.cuh", "product.cuh", "experts.cuh"},
       "FewDownVariant",
       ints(FewDownVariant{})},
      {"routing.cu", {"routing.cuh"}},
      {"choose.cu", {"draw.h"}},
      {"exchange.cu", {"lines.cuh"}},
      {"low_rank.cu", {}},
      {"low_rank_down.cu",
       {"weights.cuh", "product.cuh", "experts.cuh"},
       "LowRankDownVariant",
       ints(LowRankDownVariant{})},
      {"gemv_low_rank.cu",
       {"weights.cuh", "product.cuh", "lines.cuh", "gemv.cuh"},
       "GemvVariant",
       ints(GemvVariant{})},
  };
  return files[static_cast<size_t>(source)];
}

std::string text_of(const Variant& variant) {
  const SourceFile& file = file_of(variant.source);
  std::string text;
  for (const char* shared : {"args.h", "variants.h"}) text += kernel_text(shared);
  if (file.variant)
    text += fmt::format("constexpr anabranch::ops::cuda::{} kVariant = {{{}}};\n", file.variant,
                        fmt::join(std::span(variant.values).first(file.values), ", "));
  for (const char* shared : {"ptx.cuh", "common.cuh"}) text += kernel_text(shared);
  for (const char* shared : file.includes)
    if (shared) text += kernel_text(shared);
  return text.append(kernel_text(file.name));
}

std::string architecture_of(int capability) {
  return fmt::format("sm_{}{}", capability, capability == 90 ? "a" : "");
}

// Options of every compilation, besides the architecture.
constexpr const char* kOptions[] = {"--std=c++17", "-w"};

uint64_t hash_of(std::string_view bytes) {
  Fnv1a hash;
  for (const char c : bytes) hash.add(static_cast<uint8_t>(c));
  return hash.value();
}

// The path of the cached machine code for this text.
std::filesystem::path cached(const std::string& text, const std::string& architecture) {
  const std::string directory = user_cache_directory();
  if (directory.empty()) return {};
  return std::filesystem::path(directory) / "kernels" /
         fmt::format("{:016x}-{}-{}.{}.cubin", hash_of(text + architecture + kOptions[0] + kOptions[1]),
                     architecture, nvrtc().major, nvrtc().minor);
}

// Reads the bytes that write() stored there; empty if there are none or the file is damaged, since the driver
// must not be given a damaged file.
std::vector<char> read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  uint64_t hash = 0;
  if (bytes.size() <= sizeof(hash)) return {};
  std::memcpy(&hash, &*bytes.end() - sizeof(hash), sizeof(hash));
  bytes.resize(bytes.size() - sizeof(hash));
  return hash == hash_of({bytes.data(), bytes.size()}) ? bytes : std::vector<char>();
}

// Writes a temporary file and renames it, so that other processes never read an incomplete file.
void write(const std::filesystem::path& path, const std::vector<char>& bytes) {
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  const std::filesystem::path part =
      path.string() + fmt::format(".{}-{:x}", getpid(), std::random_device{}());
  const uint64_t hash = hash_of({bytes.data(), bytes.size()});
  std::ofstream out(part, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.write(reinterpret_cast<const char*>(&hash), sizeof(hash));
  out.close();
  if (!out) error = std::make_error_code(std::errc::io_error);
  if (!error) std::filesystem::rename(part, path, error);
  if (!error) return;
  log_debug("a compiled kernel was not kept in {}: {}", path.string(), error.message());
  std::filesystem::remove(part, error);
}

Result<std::vector<char>> compile(const Variant& variant, const std::string& architecture) {
  const Nvrtc& n = nvrtc();
  if (!n.unsupported.empty()) return make_error(ErrorKind::unsupported, "{}", n.unsupported);
  const std::string text = text_of(variant), target = "--gpu-architecture=" + architecture;
  const char* name = file_of(variant.source).name;
  const char* options[] = {target.c_str(), kOptions[0], kOptions[1]};
  Program program = nullptr;
  if (n.Create(&program, text.c_str(), name, 0, nullptr, nullptr) != 0)
    return make_error(ErrorKind::internal, "NVRTC refused {}", name);
  const std::unique_ptr<Program, int (*)(Program*)> owner(&program, n.Destroy);
  size_t size = 0;
  if (n.Compile(program, 3, options) != 0) {
    n.LogSize(program, &size);
    std::string log(size, '\0');
    n.Log(program, log.data());
    return make_error(ErrorKind::internal, "{} does not compile for {}:\n{}", name, architecture,
                      log.c_str());
  }
  n.CubinSize(program, &size);
  std::vector<char> code(size);
  n.Cubin(program, code.data());
  return code;
}

Module* load(Context& context, const Variant& variant) {
  const char* name = file_of(variant.source).name;
  const std::string architecture = architecture_of(context.info().capability);
  auto made = machine_code(variant, architecture);
  if (made && !made->compiled) {
    try {
      return context.load_module(made->code.data(), name);
    } catch (const std::runtime_error& e) {  // damaged: compiled again
      log_debug("{}, kept: {}", name, e.what());
      made = machine_code(variant, architecture, false);
    }
  }
  if (!made) throw std::runtime_error(made.error().message);
  return context.load_module(made->code.data(), name);
}

// NVRTC in the package index, for drivers of this CUDA version.
const char* wheel_of(int driver) {
  return driver < 13 ? "nvidia-cuda-nvrtc-cu12" : "nvidia-cuda-nvrtc";
}

}  // namespace

std::string no_compiler(int driver) {
  if (driver < 12) return fmt::format("the NVIDIA driver is for CUDA {}: update it, to 12 or later", driver);
  return fmt::format(
      "CUDA's run-time compiler was not found (libnvrtc.so.13 or .12): install the CUDA toolkit, or run `pip "
      "install {}` in the environment of anabranch's Python package, which finds it there; without the "
      "package, name the library in ANABRANCH_NVRTC",
      wheel_of(driver));
}

std::string compiler_unsupported(int capability, int driver) {
  const Nvrtc& n = nvrtc();
  if (n.missing || driver < 12) return no_compiler(driver);
  if (!n.unsupported.empty()) return n.unsupported;
  if (n.major > driver)
    return fmt::format(
        "the NVIDIA driver is for CUDA {}, and the run-time compiler that was found for CUDA {}: update the "
        "driver, or run `pip install {}` and name its library in ANABRANCH_NVRTC",
        driver, n.major, wheel_of(driver));
  int count = 0;
  n.NumSupportedArchs(&count);
  std::vector<int> known(static_cast<size_t>(count));
  n.SupportedArchs(known.data());
  if (std::find(known.begin(), known.end(), capability) != known.end()) return "";
  return fmt::format(
      "CUDA's run-time compiler {}.{} does not know compute capability {}.{}: install a newer one", n.major,
      n.minor, capability / 10, capability % 10);
}

Result<MachineCode> machine_code(const Variant& variant, const std::string& architecture, bool use_kept) {
  const auto path = cached(text_of(variant), architecture);
  if (use_kept && !path.empty())
    if (auto kept = read(path); !kept.empty()) return MachineCode{std::move(kept)};
  TRY(auto code, compile(variant, architecture));
  if (!path.empty()) write(path, code);
  return MachineCode{std::move(code), true};
}

// Compiles variants on several threads; each thread takes the next variant that no other has begun.
class Compilation {
 public:
  Compilation(std::set<Variant> variants, int capability)
      : variants_(variants.begin(), variants.end()), architecture_(architecture_of(capability)) {
    const size_t most = std::max(1u, std::thread::hardware_concurrency());
    for (size_t i = 0; i < std::min(most, variants_.size()); i++) threads_.emplace_back([this] { work(); });
  }
  ~Compilation() {
    next_ = variants_.size();
    join();
  }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  // Waits, and returns how many were compiled. A failure is reported when the kernel is requested.
  int join() {
    for (std::thread& thread : threads_)
      if (thread.joinable()) thread.join();
    return compiled_;
  }
  const std::vector<Variant>& variants() const { return variants_; }

 private:
  bool compiles(const Variant& variant) const {
    try {
      const auto made = machine_code(variant, architecture_);
      return made && made->compiled;
    } catch (const std::exception& e) {  // out of memory
      log_debug("{}: {}", file_of(variant.source).name, e.what());
      return false;
    }
  }
  void work() {
    name_thread("cuda compiler");
    for (size_t i = next_++; i < variants_.size(); i = next_++) {
      if (!compiles(variants_[i])) continue;
      const int done = ++compiled_;  // not counting cached ones
      if (done % 8 == 0) log_info("{} kernels compiled, {} to go at most", done, variants_.size() - done);
    }
  }

  std::vector<Variant> variants_;
  std::string architecture_;
  std::atomic<size_t> next_{0};
  std::atomic<int> compiled_{0};
  std::vector<std::thread> threads_;
};

KernelCache::KernelCache(Context& context) : context_(context) {}

KernelCache::~KernelCache() {
  running_.clear();
  for (const auto& [variant, module] : modules_) context_.unload_module(module);
}

void KernelCache::compile_noted() {
  noting_ = false;
  for (const auto& compilation : running_)
    for (const Variant& variant : compilation->variants()) noted_.erase(variant);
  if (!noted_.empty())
    running_.push_back(std::make_unique<Compilation>(std::exchange(noted_, {}), context_.info().capability));
}

int KernelCache::load_compiled() {
  int compiled = 0;
  for (const auto& compilation : running_) {
    compiled += compilation->join();
    for (const Variant& variant : compilation->variants())
      if (modules_.count(variant) == 0) modules_.emplace(variant, load(context_, variant));
  }
  running_.clear();
  return compiled;
}

Function KernelCache::get(const Variant& variant, const char* name) {
  if (noting_) {
    if (modules_.count(variant) == 0) noted_.insert(variant);
    return {};
  }
  size_t hash = static_cast<size_t>(variant.source) + reinterpret_cast<uintptr_t>(name);
  for (const int value : variant.values) hash = hash * 31 + static_cast<size_t>(value);
  auto& bucket = found_[hash * 0x9E3779B97F4A7C15u >> 58];
  for (const Kernel& kernel : bucket)
    if (kernel.name == name && kernel.variant == variant) return kernel.function;
  auto module = modules_.find(variant);
  if (module == modules_.end() && !running_.empty()) {
    load_compiled();
    module = modules_.find(variant);
  }
  if (module == modules_.end()) module = modules_.emplace(variant, load(context_, variant)).first;
  bucket.push_back({variant, name, context_.find_function(module->second, name)});
  return bucket.back().function;
}

}  // namespace anabranch::ops::cuda
