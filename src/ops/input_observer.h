// Sees the inputs of matrix products with weights, for statistics of what a model computes with
// (Device::set_input_observer). On CPU devices; products of packed inputs, which others have, are refused
// while it is set.
#pragma once

#include <cstdint>

#include "ops/weight.h"

namespace anabranch::ops {

class InputObserver {
 public:
  virtual ~InputObserver() = default;
  // rows [count, weight.in_features()] on the host, after the norm where there is one, are multiplied with
  // the weight, or with the matrix of one expert in it. Called on the thread that calls the op.
  virtual void observe(const Weight& weight, int expert, const float* rows, int64_t count) = 0;
};

}  // namespace anabranch::ops
