// What this machine can do at most, measured in about a second with all threads: the yardstick of `bench`.
#pragma once

namespace anabranch::ops {

struct MachineLimits {
  double memory_gb_s = 0;   // reading 512 MB
  double cache_gb_s = 0;    // reading 8 MB again and again
  double int8_gop_s = 0;    // the kernels' int8 multiply-add, operations counted twice
  double fp32_gflop_s = 0;  // fused multiply-add in fp32
};

MachineLimits measure_limits();

}  // namespace anabranch::ops
