#include "ops/cpu/dispatch.h"

#include <atomic>

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

std::atomic<const CpuKernels*>& current() {
  static std::atomic<const CpuKernels*> kernels = runnable().front();
  return kernels;
}

}  // namespace

const CpuKernels& kernels() {
  return *current().load(std::memory_order_relaxed);
}

std::vector<std::string> runnable_targets() {
  std::vector<std::string> names;
  for (const CpuKernels* k : runnable()) names.push_back(k->name);
  return names;
}

bool set_target(const std::string& name) {
  for (const CpuKernels* k : runnable()) {
    if (name != k->name) continue;
    current() = k;
    return true;
  }
  return false;
}

}  // namespace anabranch::ops::cpu
