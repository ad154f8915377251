// What a build without MLX has instead of ops/reference and ops/metal (ops/kernels.cmake).
#include "ops/open.h"

namespace anabranch::ops {

std::string metal_unsupported() {
  return "this build has no MLX";
}

std::unique_ptr<Device> open_reference(bool, int) {
  return nullptr;
}

}  // namespace anabranch::ops
