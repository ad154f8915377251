#include "ops/cpu/dispatch.h"

#include "base/check.h"
#include "base/cpu_info.h"

namespace anabranch::ops::cpu {
namespace {

std::vector<const CpuKernels*> runnable() {
  const CpuInfo& cpu = cpu_info();
  std::vector<const CpuKernels*> found;
  const auto offer = [&](bool can_run, const CpuKernels* kernels) {
    if (can_run && kernels) found.push_back(kernels);
  };
  offer(cpu.avx512_vnni, kernels_avx512_vnni());
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
