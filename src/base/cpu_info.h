// What the processor and the machine offer, read once at start.
#pragma once

#include <cstdint>
#include <string>

namespace anabranch {

struct CpuInfo {
  std::string model;          // as the operating system names it
  int logical_cores = 1;      // that this process may use
  uint64_t memory_bytes = 0;  // physical memory
  bool avx2 = false;          // AVX2 + FMA + F16C
  bool avx512 = false;        // AVX-512 F, BW, VL, DQ
  bool avx512_vnni = false;
  bool neon = false;
};

const CpuInfo& cpu_info();

}  // namespace anabranch
