// What the processor and the machine offer, read once at start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace anabranch {

struct CpuInfo {
  std::string model;          // as the operating system names it
  uint64_t memory_bytes = 0;  // physical memory
  bool avx2 = false;          // AVX2 + FMA + F16C
  bool avx512 = false;        // AVX-512 F, BW, VL, DQ
  bool avx512_vnni = false;
  bool neon = false;

  // What this process may use. A core counts once however many hardware threads it has, where the system
  // tells (few virtual machines do); without types of cores, all are performance cores.
  int logical_cores = 1;
  int performance_cores = 1;
  int efficiency_cores = 0;
  // The CPUs (hardware threads) of the performance cores, where there are efficiency cores besides. Linux
  // only.
  std::vector<int> fast_cpus = {};
  double quota = 0;  // CPUs' worth of time that a container's limit grants; 0: no limit

  // Of a performance core; 0: unknown.
  uint64_t l1d_bytes = 0;
  uint64_t l2_bytes = 0;  // a core's share, where cores share it
  uint64_t l3_bytes = 0;  // all of it, though other cores share it
};

const CpuInfo& cpu_info();

// Threads to compute with unless the user says otherwise, and why so many.
struct ThreadChoice {
  int threads = 1;
  std::string why;
};
ThreadChoice choose_threads(const CpuInfo& info);

// From now on the calling thread, and threads that it starts, run on the performance cores only: a job is as
// late as its last thread. Does nothing where all cores are alike, or for more threads than there are
// performance cores.
void run_on_fast_cores(const CpuInfo& info, int threads);

// The cores, quota and caches that Linux describes in `root`/sys and `root`/proc, for a process that may run
// on the CPUs `allowed` (not empty). What is missing or unreadable there keeps its default.
CpuInfo read_linux_cores(const std::string& root, const std::vector<int>& allowed);

}  // namespace anabranch
