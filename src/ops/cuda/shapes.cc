#include "ops/cuda/shapes.h"

#include <fmt/format.h>

#include "ops/cuda/kernels/args.h"

namespace anabranch::ops::cuda {

std::string attention_unsupported(int head_dim, const Rope& rope) {
  if (rope.is_dynamic()) return "there are no kernels for dynamic ropes on CUDA";
  if (head_dim > 0 && head_dim % 32 == 0 && head_dim <= 576) return "";
  return fmt::format("on CUDA a head of attention must have 32, 64, .. 576 dimensions, not {}", head_dim);
}

std::string recurrence_unsupported(const RecurrenceShape& shape) {
  if (shape.channels > 0 || (shape.key_dim > 0 && shape.key_dim <= kMostKeyDim && shape.value_dim > 0))
    return "";
  return fmt::format(
      "on CUDA a head of a recurrent layer must have 1 to {} keys and 1 value or more, not {} and {}",
      kMostKeyDim, shape.key_dim, shape.value_dim);
}

bool is_tuned_gated_delta(const RecurrenceShape& shape) {
  const int key_dim = shape.key_dim, value_dim = shape.value_dim;
  return shape.is_gated_delta() && key_dim > 0 && key_dim % 16 == 0 && key_dim <= 128 && value_dim > 0 &&
         value_dim % 32 == 0 && shape.conv_kernel >= 2;
}

}  // namespace anabranch::ops::cuda
