#include "base/cpu_info.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <thread>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sched.h>
#include <sys/auxv.h>
#elif defined(__APPLE__)
#include <sys/sysctl.h>
#endif

namespace anabranch {
namespace {

// Linux allows at most 8192; text with higher numbers is not a list of CPUs.
constexpr int kMaxCpus = 1 << 14;

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// Removes a non-negative number from the front and returns it.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || n < 0) return {};
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return n;
}

// "0-3,8" -> {0, 1, 2, 3, 8}; empty if it is anything else.
std::vector<int> parse_cpu_list(std::string_view text) {
  std::vector<int> cpus;
  while (!text.empty()) {
    const auto first = take_number(text);
    auto last = first;
    if (!text.empty() && text[0] == '-') {
      text.remove_prefix(1);
      last = take_number(text);
    }
    if (!first || !last || *last < *first || *last >= kMaxCpus || cpus.size() > kMaxCpus) return {};
    for (int64_t cpu = *first; cpu <= *last; cpu++) cpus.push_back(static_cast<int>(cpu));
    if (text.empty()) break;
    if (text[0] != ',' || text.size() == 1) return {};
    text.remove_prefix(1);
  }
  return cpus;
}

// "32K" -> 32768; 0 if it is anything else.
uint64_t parse_size(std::string_view text) {
  const auto n = take_number(text);
  if (!n || *n > int64_t{1} << 30 || text.size() > 1) return 0;
  const size_t unit = text.empty() ? 0 : std::string_view("_KMG").find(text[0]);
  return unit > 3 ? 0 : static_cast<uint64_t>(*n) << (10 * unit);
}

class LinuxCores {
 public:
  explicit LinuxCores(const std::string& root) : cpus_(root + "/sys/devices/system/cpu/") {
    // On Intel processors with two types of cores, this file lists the efficiency cores.
    atoms_ = parse_cpu_list(first_line(root + "/sys/devices/cpu_atom/cpus"));
    for (const int cpu : parse_cpu_list(first_line(cpus_ + "online"))) {
      most_ = std::max(most_, capacity(cpu));
      fastest_ = std::max(fastest_, frequency(cpu));
    }
  }

  // The first hardware thread represents its core.
  int core_of(int cpu) const {
    const auto siblings = parse_cpu_list(first_line(of(cpu) + "topology/thread_siblings_list"));
    return siblings.empty() ? cpu : siblings.front();
  }

  // Arm states capacities relative to the largest core's 1024; those of small cores are between 150 and 500.
  // Without capacities or a list, frequencies decide: AMD's compact cores reach two thirds of the others'
  // frequency, while cores of one type differ by a few percent.
  bool is_efficient(int cpu) const {
    if (std::find(atoms_.begin(), atoms_.end(), cpu) != atoms_.end()) return true;
    if (most_ > 0) return 2 * capacity(cpu) < most_;
    const int64_t reached = frequency(cpu);
    return atoms_.empty() && reached > 0 && 5 * reached < 4 * fastest_;
  }

  void read_caches(int cpu, CpuInfo& info) const {
    for (int i = 0; i < 8; i++) {
      const std::string cache = fmt::format("{}cache/index{}/", of(cpu), i);
      const std::string level = first_line(cache + "level");
      const uint64_t bytes = parse_size(first_line(cache + "size"));
      if (first_line(cache + "type") == "Instruction") continue;
      if (level == "1") info.l1d_bytes = bytes;
      if (level == "3") info.l3_bytes = bytes;
      if (level != "2") continue;
      std::set<int> cores;
      for (const int other : parse_cpu_list(first_line(cache + "shared_cpu_list")))
        cores.insert(core_of(other));
      info.l2_bytes = bytes / std::max<size_t>(1, cores.size());
    }
  }

 private:
  std::string of(int cpu) const { return fmt::format("{}cpu{}/", cpus_, cpu); }

  int64_t number(int cpu, const char* file, int64_t most) const {
    const std::string line = first_line(of(cpu) + file);
    std::string_view text = line;
    return std::min(take_number(text).value_or(0), most);
  }
  int64_t capacity(int cpu) const { return number(cpu, "cpu_capacity", 1024); }
  int64_t frequency(int cpu) const { return number(cpu, "cpufreq/cpuinfo_max_freq", 100'000'000); }  // kHz

  std::string cpus_;
  std::vector<int> atoms_;
  int64_t most_ = 0, fastest_ = 0;
};

// The CPUs that one control group may use, quota / period; 0: no limit ("max"; in version 1: -1).
double group_quota(const std::string& folder, bool v2) {
  std::string line = first_line(folder + (v2 ? "/cpu.max" : "/cpu.cfs_quota_us"));
  if (!v2) line += " " + first_line(folder + "/cpu.cfs_period_us");
  std::string_view text = line;
  const auto quota = take_number(text);
  if (!quota || text.empty()) return 0;
  text.remove_prefix(1);
  const auto period = take_number(text);
  return period && *period > 0 ? static_cast<double>(*quota) / static_cast<double>(*period) : 0;
}

// The minimum over the process's control group and all groups that contain it; 0: no limit. Lines of
// /proc/self/cgroup are "number:controllers:path", without controllers in version 2. In a container the path
// may be the host's; then only the mount's root folder can be read, which is the container's group.
double read_quota(const std::string& root) {
  double least = 0;
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool v2 = controllers == ",,";
    if (!v2 && controllers.find(",cpu,") == std::string::npos) continue;
    const std::string mount = root + (v2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu");
    for (std::string path = line.substr(second + 1);;) {
      const double quota = group_quota(mount + path, v2);
      if (quota > 0) least = least > 0 ? std::min(least, quota) : quota;
      const size_t parent = path.rfind('/');
      if (parent == std::string::npos) break;
      path.erase(parent);
    }
  }
  return least;
}

#if defined(__APPLE__)
// 0 if there is no such value.
uint64_t sysctl_number(const char* name) {
  uint64_t value = 0;  // some are 32 bits: the upper half stays 0 (little endian)
  size_t size = sizeof(value);
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 ? value : 0;
}

// Level 0 is the fastest type of core; Intel processors report no levels.
CpuInfo read_cores() {
  CpuInfo info;
  const bool levels = sysctl_number("hw.nperflevels") > 0;
  const auto read = [&](const std::string& name) {
    return sysctl_number(((levels ? "hw.perflevel0." : "hw.") + name).c_str());
  };
  info.logical_cores = std::max(1u, std::thread::hardware_concurrency());
  info.performance_cores = std::max(1, static_cast<int>(read("physicalcpu")));
  info.efficiency_cores = static_cast<int>(sysctl_number("hw.perflevel1.physicalcpu"));
  info.l1d_bytes = read("l1dcachesize");
  info.l2_bytes = read("l2cachesize") / std::max<uint64_t>(1, levels ? read("cpusperl2") : 1);
  info.l3_bytes = read("l3cachesize");
  return info;
}

std::string cpu_model() {
  char name[256] = {};
  size_t size = sizeof(name) - 1;
  return sysctlbyname("machdep.cpu.brand_string", name, &size, nullptr, 0) == 0 ? name : "unknown";
}
#else
std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
#if defined(__linux__)
  cpu_set_t sets[kMaxCpus / CPU_SETSIZE];
  if (sched_getaffinity(0, sizeof(sets), sets) == 0) {
    for (int cpu = 0; cpu < kMaxCpus; cpu++)
      if (CPU_ISSET_S(cpu, sizeof(sets), sets)) cpus.push_back(cpu);
  }
#endif
  if (cpus.empty()) {
    cpus.resize(std::max(1u, std::thread::hardware_concurrency()));
    std::iota(cpus.begin(), cpus.end(), 0);
  }
  return cpus;
}

CpuInfo read_cores() {
  return read_linux_cores("", allowed_cpus());
}

std::string cpu_model() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("model name", 0) == 0) {
      const auto at = line.find(':');
      if (at != std::string::npos && at + 2 < line.size()) return line.substr(at + 2);
    }
  }
  return "unknown";
}
#endif

#if defined(__x86_64__)
// What the processor has, and the system saves when it switches threads (XCR0). The compilers'
// __builtin_cpu_supports needs a run-time library that tells: zig's says no to everything.
void read_instructions(CpuInfo& info) {
  unsigned a = 0, b = 0, c = 0, d = 0, saved = 0;
  if (__get_cpuid(0, &a, &b, &c, &d))
    info.intel = b == signature_INTEL_ebx && c == signature_INTEL_ecx && d == signature_INTEL_edx;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE)) return;
  const bool fma = (c & bit_FMA) && (c & bit_F16C);
  asm volatile("xgetbv" : "=a"(saved), "=d"(d) : "c"(0));
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return;
  const auto has = [](unsigned word, unsigned bits) { return (word & bits) == bits; };
  constexpr unsigned kAmxTileAndInt8 = 3u << 24;  // clang's cpuid.h has other names than GCC's
  info.avx2 = fma && has(saved, 0x06) && has(b, bit_AVX2);
  info.avx512 =
      info.avx2 && has(saved, 0xe6) && has(b, bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ);
  info.avx512_vnni = info.avx512 && has(c, bit_AVX512VNNI);
  info.amx_int8 = info.avx512_vnni && has(saved, 0x60000) && has(d, kAmxTileAndInt8);
}
#endif

CpuInfo read_cpu_info() {
  CpuInfo info = read_cores();
  info.model = cpu_model();
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0) info.memory_bytes = static_cast<uint64_t>(pages) * static_cast<uint64_t>(page);
#if defined(__x86_64__)
  read_instructions(info);
#elif defined(__aarch64__)
  info.neon = true;
#if defined(__linux__)
  info.neon_dotprod = getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#endif
#endif
  return info;
}

}  // namespace

CpuInfo read_linux_cores(const std::string& root, const std::vector<int>& allowed) {
  const LinuxCores cores(root);
  std::set<int> fast, slow;
  CpuInfo info;
  for (const int cpu : allowed) {
    const bool efficient = cores.is_efficient(cpu);
    (efficient ? slow : fast).insert(cores.core_of(cpu));
    if (!efficient) info.fast_cpus.push_back(cpu);
  }
  if (slow.empty()) info.fast_cpus.clear();
  info.logical_cores = static_cast<int>(allowed.size());
  info.performance_cores = static_cast<int>(fast.size());
  info.efficiency_cores = static_cast<int>(slow.size());
  info.quota = read_quota(root);
  cores.read_caches(*(fast.empty() ? slow : fast).begin(), info);
  return info;
}

ThreadCount choose_threads(const CpuInfo& info) {
  const bool pinned_to_slow = info.performance_cores == 0;
  const int cores = std::max(1, pinned_to_slow ? info.efficiency_cores : info.performance_cores);
  // More threads than the quota's whole CPUs would all be stopped together when it is used up.
  if (info.quota > 0 && info.quota < cores)
    return {std::max(1, static_cast<int>(info.quota)),
            fmt::format("this container may use {:.4g} CPUs", info.quota)};
  if (info.efficiency_cores > 0 && !pinned_to_slow) return {cores, "one per performance core"};
  return {cores, info.logical_cores > cores ? "one per core, not per hardware thread" : "one per core"};
}

void run_on_fast_cores(const CpuInfo& info, int threads) {
#if defined(__linux__)
  if (info.fast_cpus.empty() || threads > info.performance_cores) return;
  cpu_set_t sets[kMaxCpus / CPU_SETSIZE];
  CPU_ZERO_S(sizeof(sets), sets);
  for (const int cpu : info.fast_cpus) CPU_SET_S(cpu, sizeof(sets), sets);
  sched_setaffinity(0, sizeof(sets), sets);
#else
  (void)info, (void)threads;
#endif
}

const CpuInfo& cpu_info() {
  static const CpuInfo info = read_cpu_info();
  return info;
}

}  // namespace anabranch
