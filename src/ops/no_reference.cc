// Replaces ops/reference and ops/metal in a build without MLX (ops/kernels.cmake).
#include "ops/open.h"

namespace anabranch::ops {

std::string metal_unsupported() {
  return "this build has no MLX";
}

std::unique_ptr<Device> open_reference(bool, int) {
  return nullptr;
}

}  // namespace anabranch::ops
