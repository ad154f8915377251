// Opens devices: the one place that knows every backend.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "ops/device_options.h"
#include "tensor/device.h"

namespace anabranch::ops {

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
