#include "base/memory_info.h"

#include <unistd.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <string_view>

#if defined(__APPLE__)
#include <mach/mach.h>
#endif

#include "base/cpu_info.h"

namespace anabranch {
namespace {

// The number after `name` in a file with lines "name number"; without a name, the file's only number.
std::optional<uint64_t> read_number(const std::string& path, std::string_view name = {}) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(name, 0) != 0) continue;
    const auto at = line.find_first_not_of(' ', name.size());
    uint64_t n = 0;
    if (at == std::string::npos ||
        std::from_chars(line.data() + at, line.data() + line.size(), n).ec != std::errc())
      return std::nullopt;  // "max"
    return n;
  }
  return std::nullopt;
}

// Bytes left within a container's limit, if there is one. File pages that were not read lately count as free.
std::optional<uint64_t> left_in_group(const std::string& group) {
  const auto most = read_number(group + "/memory.max"), used = read_number(group + "/memory.current");
  if (!most || !used) return std::nullopt;
  const auto pages = [&](const char* name) { return read_number(group + "/memory.stat", name).value_or(0); };
  const uint64_t given_back = pages("inactive_file ") + pages("active_file ") / 2;
  const uint64_t held = *used - std::min(*used, given_back);
  return *most - std::min(*most, held);
}

// The path of this process's control group.
std::string own_group(const std::string& root) {
  std::ifstream in(root + "/proc/self/cgroup");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("0::/", 0) == 0) return line.substr(4);
  return "";
}

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

// The minimum of read(group) over this process's group and all groups that contain it.
template <class Read>
uint64_t least_of_groups(const std::string& root, uint64_t least, Read read) {
  for (std::string group = own_group(root);;) {
    if (const std::optional<uint64_t> n = read(root + "/sys/fs/cgroup/" + group)) least = std::min(least, *n);
    if (group.empty()) break;
    const auto slash = group.rfind('/');
    group = slash == std::string::npos ? "" : group.substr(0, slash);
  }
  return least == kNoLimit ? 0 : least;
}

}  // namespace

uint64_t read_linux_memory(const std::string& root) {
  const auto machine = read_number(root + "/proc/meminfo", "MemAvailable:");
  return least_of_groups(root, machine ? *machine * 1024 : kNoLimit, left_in_group);
}

uint64_t memory_limit(const std::string& root) {
  return least_of_groups(root, kNoLimit,
                         [](const std::string& group) { return read_number(group + "/memory.max"); });
}

uint64_t machine_memory() {
  const uint64_t machine = cpu_info().memory_bytes, limit = memory_limit();
  return limit > 0 ? std::min(machine, limit) : machine;
}

uint64_t resident_memory() {
  std::ifstream in("/proc/self/statm");
  uint64_t size = 0, resident = 0;
  return in >> size >> resident ? resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

uint64_t available_memory() {
#if defined(__APPLE__)
  vm_statistics64_data_t pages = {};
  mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
  vm_size_t size = 0;
  const auto host = mach_host_self();
  if (host_page_size(host, &size) != KERN_SUCCESS ||
      host_statistics64(host, HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&pages), &count) !=
          KERN_SUCCESS)
    return 0;
  return (uint64_t{pages.free_count} + pages.inactive_count + pages.purgeable_count) * size;
#else
  // $ANABRANCH_MEMORY_ROOT, for tests: where /proc and /sys are looked for.
  const char* root = std::getenv("ANABRANCH_MEMORY_ROOT");
  return read_linux_memory(root ? root : "");
#endif
}

void keep_little_freed_memory() {
#if defined(__GLIBC__)
  // By default both thresholds rise with the largest block ever freed; smaller blocks that are freed later
  // then stay in the heaps.
  mallopt(M_MMAP_THRESHOLD, 4 << 20);
  mallopt(M_TRIM_THRESHOLD, 8 << 20);
  if (!std::getenv("MALLOC_ARENA_MAX")) mallopt(M_ARENA_MAX, 4);
#endif
}

Result<void> lock_memory() {
#if defined(__linux__)
  // Pages that are not in memory yet (of stacks, and of files) are only loaded when they are used.
  if (mlockall(MCL_CURRENT | MCL_ONFAULT) == 0) return {};
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return make_error(
      ErrorKind::unsupported,
      "cannot lock memory: {}. This process may lock {} MiB (ulimit -l); raise it with `ulimit -l "
      "unlimited`, LimitMEMLOCK=infinity in a systemd unit, or CAP_IPC_LOCK",
      std::strerror(errno), limit.rlim_cur >> 20);
#else
  return make_error(ErrorKind::unsupported, "memory can be locked on Linux only");
#endif
}

void return_free_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace anabranch
