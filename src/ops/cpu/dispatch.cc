#include "ops/cpu/dispatch.h"

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "base/check.h"
#include "base/cpu_info.h"

namespace anabranch::ops::cpu {
namespace {

// Linux lets a process use AMX after it has asked: each thread's state then takes 8 KiB more.
bool may_use_amx(const CpuInfo& cpu) {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool granted = cpu.amx_int8 && syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
  return granted;
#else
  return false && cpu.amx_int8;
#endif
}

// With vectors of 512 bits, Intel's processors do all arithmetic on two ports, so unpacking competes with
// products.
const CpuKernels* vnni_kernels(const CpuInfo& cpu) {
  const CpuKernels* kernels = kernels_avx512_vnni();
  if (!kernels || !cpu.intel) return kernels;
  static const CpuKernels intel = [&] {
    CpuKernels k = *kernels;
    k.unpacks_int8 = true;
    return k;
  }();
  return &intel;
}

std::vector<const CpuKernels*> runnable() {
  const CpuInfo& cpu = cpu_info();
  std::vector<const CpuKernels*> found;
  const auto offer = [&](bool can_run, const CpuKernels* kernels) {
    if (can_run && kernels) found.push_back(kernels);
  };
  offer(may_use_amx(cpu), kernels_avx512_amx());
  offer(cpu.avx512_vnni, vnni_kernels(cpu));
  offer(cpu.avx512, kernels_avx512());
  offer(cpu.avx2, kernels_avx2());
  offer(cpu.neon, kernels_neon());
  offer(true, kernels_portable());
  return found;
}

}  // namespace

std::vector<std::string> runnable_targets() {
  std::vector<std::string> names;
  for (const CpuKernels* k : runnable()) names.push_back(k->name);
  return names;
}

const CpuKernels* find_target(const std::string& name) {
  for (const CpuKernels* k : runnable())
    if (name.empty() || name == k->name) return k;
  return nullptr;
}

}  // namespace anabranch::ops::cpu
