// Which device computes, and how.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace anabranch::ops {

struct DeviceOptions {
  std::string name = "cpu";   // "cpu", "cuda" or "metal"
  bool reference = false;     // CPU: the ops as the specification states them, in MLX
  bool precise = false;       // CPU: fp32 activations and keys and values, instead of int8 and f16
  int threads = 0;            // host threads; 0 = chosen for this machine
  uint64_t expert_bytes = 0;  // CUDA: device memory for the experts of mixtures; 0 = all free memory
  // CUDA: indices of the devices that share each model; empty: only the first one. CPU: the number of entries
  // is the number of thread groups that share it.
  std::vector<int> devices = {};
};

}  // namespace anabranch::ops
