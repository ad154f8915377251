// A weight on the reference device: MLX's quantised arrays if MLX has the format, else dense f32.
#pragma once

#include <mlx/array.h>

#include <memory>
#include <optional>

#include "ops/weight.h"

namespace anabranch::ops {
namespace mx = mlx::core;
}

namespace anabranch::ops::reference {

struct ReferenceWeight : Weight::Storage {
  int bits = 0, group = 0;                  // 0: dense
  std::optional<mx::array> values;          // dense [out, in] f32
  std::optional<mx::array> codes;           // [out, in * bits / 32] uint32
  std::optional<mx::array> scales, biases;  // [out, in / group] f32
};

std::shared_ptr<const Weight::Storage> make_weight(Device& device, const WeightSource& source);

inline const ReferenceWeight& stored(const Weight& w) {
  return static_cast<const ReferenceWeight&>(w.storage());
}

}  // namespace anabranch::ops::reference
