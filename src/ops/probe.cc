#include "ops/probe.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "ops/backend.h"
#include "ops/cpu/array.h"
#include "ops/cpu/kernels.h"
#include "ops/cuda/driver.h"

namespace anabranch::ops {
namespace {

// Best of a few runs of `work` on every thread at once, in units per second.
template <class Work>
double best_rate(int runs, const Work& work) {
  const int threads = thread_count();
  double best = 0;
  for (int run = 0; run < runs; run++) {
    std::vector<double> units(threads);
    const double start = now_seconds();
    parallel_for(threads, 1, [&](int64_t i, int64_t) { units[i] = work(static_cast<int>(i), threads); });
    double sum = 0;
    for (const double u : units) sum += u;
    best = std::max(best, sum / (now_seconds() - start));
  }
  return best;
}

double read_rate(int64_t bytes, int passes, int runs) {
  const auto memory = cpu::allocate_large(static_cast<uint64_t>(bytes));
  std::memset(memory.get(), 1, static_cast<size_t>(bytes));
  const auto* from = static_cast<const uint8_t*>(memory.get());
  return best_rate(runs, [&](int thread, int threads) {
    const int64_t share = bytes / threads / 4096 * 4096;
    for (int pass = 0; pass < passes; pass++) cpu::kernels().read_bytes(from + share * thread, share);
    return static_cast<double>(share) * passes;
  });
}

}  // namespace

MachineLimits measure_limits() {
  if (backend() == Backend::cuda) return {cuda::copy_rate() / 1e9, 0, cuda::device().tensor_flops / 1e9, 0};
  const auto& k = cpu::kernels();
  MachineLimits limits;
  limits.memory_gb_s = read_rate(512u << 20, 1, 4) / 1e9;
  limits.cache_gb_s = read_rate(8u << 20, 8, 4) / 1e9;
  limits.int8_gop_s = best_rate(4, [&](int, int) { return k.peak_int8(1 << 23); }) / 1e9;
  limits.fp32_gflop_s = best_rate(4, [&](int, int) { return k.peak_f32(1 << 23); }) / 1e9;
  return limits;
}

}  // namespace anabranch::ops
