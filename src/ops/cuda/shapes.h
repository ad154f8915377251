// Which shapes of layers the kernels take: asked when a model is loaded, and again by each launch.
#pragma once

#include <string>

namespace anabranch::ops::cuda {

// Why there are no kernels for attention with such heads, or for a gated-delta layer, or empty. Need no
// device.
std::string attention_obstacle(int head_dim);
std::string gated_delta_obstacle(int key_dim, int value_dim, int conv_kernel);

}  // namespace anabranch::ops::cuda
