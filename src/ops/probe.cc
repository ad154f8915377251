#include "ops/probe.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "base/thread_pool.h"
#include "ops/backend.h"
#include "ops/cpu/kernels.h"

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

double read_rate(size_t bytes, int passes, int runs) {
  auto memory = empty({static_cast<int>(bytes / 64), 8}, mx::int64);
  std::memset(memory.data<char>(), 1, bytes);
  const int64_t* words = memory.data<int64_t>();
  return best_rate(runs, [&](int thread, int threads) {
    const size_t count = bytes / 8 / threads / 64 * 64;
    const int64_t* from = words + count * thread;
    int64_t sums[8] = {};
    for (int pass = 0; pass < passes; pass++) {
      for (size_t i = 0; i < count; i += 8) {
        __builtin_prefetch(from + i + 512);
        for (int j = 0; j < 8; j++) sums[j] += from[i + j];
      }
    }
    volatile int64_t sink = 0;
    for (const int64_t s : sums) sink = sink + s;
    return static_cast<double>(count) * 8 * passes;
  });
}

}  // namespace

MachineLimits measure_limits() {
  const auto& k = cpu::kernels();
  MachineLimits limits;
  limits.memory_gb_s = read_rate(512u << 20, 1, 4) / 1e9;
  limits.cache_gb_s = read_rate(8u << 20, 8, 4) / 1e9;
  limits.int8_gop_s = best_rate(4, [&](int, int) { return k.peak_int8(1 << 20); }) / 1e9;
  limits.fp32_gflop_s = best_rate(4, [&](int, int) { return k.peak_f32(4 << 20); }) / 1e9;
  return limits;
}

}  // namespace anabranch::ops
