#include "ops/cuda/shapes.h"

#include <fmt/format.h>

namespace anabranch::ops::cuda {

std::string attention_unsupported(int head_dim, const Rope& rope, bool sinks) {
  if (sinks) return "attention sinks are not run on CUDA";
  if (rope.is_dynamic()) return "there are no kernels for dynamic ropes on CUDA";
  if (head_dim > 0 && head_dim % 32 == 0 && (head_dim <= 256 || head_dim == 512)) return "";
  return fmt::format("on CUDA a head of attention must have 32, 64, .. 256 or 512 dimensions, not {}",
                     head_dim);
}

std::string recurrence_unsupported(const RecurrenceShape& shape) {
  if (shape.channels > 0) return "there are no kernels for short convolutions on CUDA";
  if (!shape.is_gated_delta())
    return "on CUDA there are kernels for the recurrence of Gated DeltaNet only, not for Mamba2 and other "
           "kinds";
  const int key_dim = shape.key_dim, value_dim = shape.value_dim;
  if (key_dim <= 0 || key_dim % 16 != 0 || key_dim > 128 || value_dim <= 0 || value_dim % 32 != 0)
    return fmt::format(
        "on CUDA a head of a gated-delta layer must have 16, 32, .. 128 keys and a multiple of 32 values, "
        "not "
        "{} and {}",
        key_dim, value_dim);
  if (shape.conv_kernel < 2)
    return fmt::format("on CUDA a gated-delta layer's convolution must have 2 taps or more, not {}",
                       shape.conv_kernel);
  return "";
}

}  // namespace anabranch::ops::cuda
