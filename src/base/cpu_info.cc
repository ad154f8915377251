#include "base/cpu_info.h"

#include <unistd.h>

#include <fstream>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace anabranch {
namespace {

std::string cpu_model() {
#if defined(__APPLE__)
  char name[256] = {};
  size_t size = sizeof(name) - 1;
  if (sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) == 0) return name;
#else
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("model name", 0) == 0) {
      const auto at = line.find(':');
      if (at != std::string::npos && at + 2 < line.size()) return line.substr(at + 2);
    }
  }
#endif
  return "unknown";
}

int usable_cores() {
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1u, std::thread::hardware_concurrency());
}

CpuInfo read_cpu_info() {
  CpuInfo info;
  info.model = cpu_model();
  info.logical_cores = usable_cores();
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) info.memory_bytes = static_cast<uint64_t>(pages) * static_cast<uint64_t>(page);
#if defined(__x86_64__)
  __builtin_cpu_init();
  // F16C is not a name every compiler's __builtin_cpu_supports knows; every AVX2 processor has it.
  info.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  info.avx512 = info.avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  info.avx512_vnni = info.avx512 && __builtin_cpu_supports("avx512vnni");
#elif defined(__aarch64__)
  info.neon = true;
#endif
  return info;
}

}  // namespace

const CpuInfo& cpu_info() {
  static const CpuInfo info = read_cpu_info();
  return info;
}

}  // namespace anabranch
