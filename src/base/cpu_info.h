// Properties of the processor and the machine, read once at start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace anabranch {

struct CpuInfo {
  std::string model;          // the operating system's name for it
  uint64_t memory_bytes = 0;  // physical memory
  bool avx2 = false;          // AVX2 + FMA + F16C
  bool avx512 = false;        // AVX-512 F, BW, VL, DQ
  bool avx512_vnni = false;
  bool amx_int8 = false;  // AMX tiles of int8, besides avx512_vnni; Linux must be asked for them first
  bool intel = false;     // the processor is Intel's
  bool neon = false;
  bool neon_dotprod = false;  // the dot product of Armv8.2, besides neon

  // Resources that this process may use. A core counts once however many hardware threads it has, if the
  // system reports that (few virtual machines do). Without different types of cores, all are performance
  // cores.
  int logical_cores = 1;
  int performance_cores = 1;
  int efficiency_cores = 0;
  // The CPUs (hardware threads) of the performance cores, if there are also efficiency cores. Linux only.
  std::vector<int> fast_cpus = {};
  double quota = 0;  // CPU time limit of the container, in CPUs; 0: no limit

  // Cache sizes of a performance core; 0: unknown.
  uint64_t l1d_bytes = 0;
  uint64_t l2_bytes = 0;  // a core's share, if cores share it
  uint64_t l3_bytes = 0;  // the total, even if other cores share it
};

const CpuInfo& cpu_info();

// The default number of threads to compute with, and the reason for it.
struct ThreadCount {
  int threads = 1;
  std::string why;
};
ThreadCount choose_threads(const CpuInfo& info);

// From now on the calling thread, and threads that it starts, run only on the performance cores, because a
// job ends with its slowest thread. Does nothing if all cores are alike, or for more threads than there are
// performance cores.
void run_on_fast_cores(const CpuInfo& info, int threads);

// The cores, quota and caches that Linux describes in `root`/sys and `root`/proc, for a process that may run
// on the CPUs `allowed` (not empty). Missing or unreadable values keep their defaults.
CpuInfo read_linux_cores(const std::string& root, const std::vector<int>& allowed);

}  // namespace anabranch
