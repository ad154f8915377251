#include "ops/cpu/probe.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "base/memory_info.h"
#include "ops/cpu/device.h"

namespace anabranch::ops::cpu {
namespace {

// Best of a few runs of `work` on every thread at once, in units per second.
template <class Work>
double best_rate(ThreadPool& pool, int runs, const Work& work) {
  const int threads = pool.size();
  double best = 0;
  for (int run = 0; run < runs; run++) {
    std::vector<double> units(threads);
    const double start = now_seconds();
    pool.parallel_for(threads, 1, [&](int64_t i, int64_t) { units[i] = work(static_cast<int>(i), threads); });
    double sum = 0;
    for (const double u : units) sum += u;
    best = std::max(best, sum / (now_seconds() - start));
  }
  return best;
}

double read_rate(CpuDevice& device, int64_t bytes, int passes, int runs) {
  const auto memory = allocate_large(static_cast<uint64_t>(bytes));
  std::memset(memory.get(), 1, static_cast<size_t>(bytes));
  const auto* from = static_cast<const uint8_t*>(memory.get());
  return best_rate(device.threads(), runs, [&](int thread, int threads) {
    const int64_t share = bytes / threads / 4096 * 4096;
    for (int pass = 0; pass < passes; pass++) device.kernels().read_bytes(from + share * thread, share);
    return static_cast<double>(share) * passes;
  });
}

// Many times a cache: a quarter of what is free, but 64 MB at least.
int64_t probe_bytes() {
  const uint64_t most = 512u << 20, free = available_memory();
  return static_cast<int64_t>(free == 0 ? most : std::clamp<uint64_t>(free / 4, 64u << 20, most));
}

}  // namespace

MachineLimits measure_limits(Device& any) {
  CpuDevice& device = cpu_device(any);
  ThreadPool& threads = device.threads();
  const CpuKernels& k = device.kernels();
  MachineLimits limits;
  limits.memory_gb_s = read_rate(device, probe_bytes(), 1, 4) / 1e9;
  limits.cache_gb_s = read_rate(device, 8u << 20, 8, 4) / 1e9;
  limits.int8_gop_s = best_rate(threads, 4, [&](int, int) { return k.peak_int8(1 << 23); }) / 1e9;
  limits.fp32_gflop_s = best_rate(threads, 4, [&](int, int) { return k.peak_f32(1 << 23); }) / 1e9;
  return limits;
}

}  // namespace anabranch::ops::cpu
