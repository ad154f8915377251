// The highest rates that a device reaches, measured in about a second with all threads; `bench` compares its
// results with them. CUDA: memory_gb_s is a copy, counted as read and written, or 0 where no memory is free;
// int8_gop_s is the tensor cores' bf16 rate by clock and data sheet, which no program reaches; the others are
// 0. Devices of MLX: all are 0.
#pragma once

#include "tensor/device.h"

namespace anabranch::ops {

struct MachineLimits {
  double memory_gb_s = 0;   // reading 512 MiB, or less where less is free
  double cache_gb_s = 0;    // reading 8 MB again and again
  double int8_gop_s = 0;    // the kernels' int8 multiply-add, operations counted twice
  double fp32_gflop_s = 0;  // fused multiply-add in fp32
};

MachineLimits measure_limits(Device& device);

}  // namespace anabranch::ops
