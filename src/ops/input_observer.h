// Observes the inputs of matrix products with weights, for statistics about a model's computation
// (Device::set_input_observer). CPU devices only; while an observer is set, products of packed inputs, which
// other devices use, are refused.
#pragma once

#include <cstdint>

#include "ops/weight.h"

namespace anabranch::ops {

class InputObserver {
 public:
  virtual ~InputObserver() = default;
  // Called with rows [count, weight.in_features()] on the host, after the norm if there is one, that are
  // multiplied with the weight, or with one expert's matrix in it. Called on the thread that calls the op.
  virtual void observe(const Weight& weight, int expert, const float* rows, int64_t count) = 0;
};

}  // namespace anabranch::ops
