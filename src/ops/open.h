// Opens devices: the one place that knows every backend.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/device.h"

namespace anabranch::ops {

struct DeviceOptions {
  std::string device = "cpu";  // "cpu", "cuda" or "metal"
  bool reference = false;      // CPU: the ops as the specification states them, in MLX
  bool precise = false;        // CPU: fp32 activations and keys and values, instead of int8 and f16
  int threads = 0;             // host threads; 0 = chosen for this machine
  uint64_t expert_bytes = 0;   // CUDA: memory of the device for the experts of mixtures; 0 = what is free
  // CUDA: indices of the devices that share each model; empty: the first one alone. On the CPU as many groups
  // of threads share it.
  std::vector<int> devices = {};
};

// Errors: invalid (no such device, or options that exclude each other), unsupported (the device cannot be
// used on this machine or by this build).
Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options);

// Why `--device cuda` and `--device metal` cannot be used here, or empty. The first call opens the driver.
std::string cuda_unsupported();
std::string metal_unsupported();

// A device of MLX ops (the specification, for tests; metal: with kernels of ours on Apple's GPUs).
// Null in a build without MLX.
std::unique_ptr<Device> open_reference(bool metal, int threads);

}  // namespace anabranch::ops
