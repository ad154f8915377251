// A weight in the panel layout (ops/weight.h): PackedMatrix and the memory it points into.
#pragma once

#include <memory>

#include "ops/cpu/kernels.h"
#include "ops/weight.h"

namespace anabranch::ops::cpu {

struct PackedWeight : Weight::Storage {
  PackedMatrix matrix;
  uint64_t bytes = 0;
  std::shared_ptr<void> memory;  // 2 MiB aligned when large, huge pages asked for
};

std::shared_ptr<const PackedWeight> pack(const WeightSource& source);

inline const PackedMatrix& packed(const Weight& w) {
  return static_cast<const PackedWeight&>(w.storage()).matrix;
}

}  // namespace anabranch::ops::cpu
