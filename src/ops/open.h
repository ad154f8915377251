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
  uint64_t expert_bytes = 0;   // CUDA: device memory for the experts of mixtures; 0 = all free memory
  // CUDA: indices of the devices that share each model; empty: only the first one. CPU: the number of entries
  // is the number of thread groups that share it.
  std::vector<int> devices = {};
};

// Errors: invalid (no such device, or options that exclude each other), unsupported (the device cannot be
// used on this machine or by this build).
Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options);

// Says why `--device cuda` and `--device metal` cannot be used here; empty: they can. The first call opens
// the driver.
std::string cuda_unsupported();
std::string metal_unsupported();

// A device of MLX ops: the specification, for tests. metal: with our own kernels on Apple's GPUs. Null in a
// build without MLX.
std::unique_ptr<Device> open_reference(bool metal, int threads);

}  // namespace anabranch::ops
