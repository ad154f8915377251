#include "ops/cpu/dispatch.h"

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "base/check.h"
#include "base/cpu_info.h"

namespace anabranch::ops::cpu {
namespace {

// Linux lets a process use AMX after it has asked. A thread's saved state grows by 8 KiB when it first uses
// it.
bool may_use_amx([[maybe_unused]] const CpuInfo& cpu) {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  static const bool granted = cpu.amx_int8 && syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
  return granted;
#else
  return false;
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

const CpuKernels* amx_kernels() {
  if (!kernels_avx512_amx() || !kernels_avx512_vnni()) return nullptr;
  static const CpuKernels amx = with_matrix_units(*kernels_avx512_vnni(), *kernels_avx512_amx());
  return &amx;
}

std::vector<const CpuKernels*> runnable() {
  const CpuInfo& cpu = cpu_info();
  std::vector<const CpuKernels*> found;
  const auto offer = [&](bool can_run, const CpuKernels* kernels) {
    if (can_run && kernels) found.push_back(kernels);
  };
  offer(may_use_amx(cpu), amx_kernels());
  offer(cpu.avx512_vnni, vnni_kernels(cpu));
  offer(cpu.avx512, kernels_avx512());
  offer(cpu.avx2, kernels_avx2());
  offer(cpu.neon_dotprod, kernels_neon_dotprod());
  offer(cpu.neon, kernels_neon());
  offer(true, kernels_portable());
  return found;
}

}  // namespace

CpuKernels with_matrix_units(CpuKernels kernels, const MatrixKernels& matrix) {
  kernels.name = matrix.name;
  kernels.unpacks_int8 = true;
  kernels.matrix_from = matrix.from;
  kernels.prepare_int8 = matrix.prepare_int8;
  kernels.linear_scratch_bytes = matrix.linear_scratch_bytes;
  kernels.linear_int8 = matrix.linear_int8;
  kernels.peak_int8 = matrix.peak_int8;
  return kernels;
}

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
