// A weight of the reference backend: MLX's own quantised form, or dense f32.
#pragma once

#include <optional>

#include "ops/weight.h"

namespace anabranch::ops::reference {

struct Storage : Weight::Storage {
  // values: f32 [out, in], or (scales and biases set) uint32 [out, in * bits / 32], the codes of a row as one
  // little-endian bit stream. scales, biases: f32 [out, in / group].
  explicit Storage(mx::array all_values) : values(std::move(all_values)) {}
  mx::array values;
  std::optional<mx::array> scales, biases;
};

}  // namespace anabranch::ops::reference
