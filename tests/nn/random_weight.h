// A matrix of random numbers for tests of layers.
#pragma once

#include <algorithm>

#include "ops/testing.h"
#include "ops/weight.h"

namespace anabranch::nn {

// [out, in], on the device.
inline ops::Weight random_weight(Device& device, int out, int in, ops::Rng& rng) {
  const Tensor values = ops::random_tensor({out, in}, rng, 0.2f);
  WeightSource source;
  source.rows = out;
  source.cols = in;
  source.read_dense = [values, in](int64_t first, int64_t count, float* to) {
    std::copy_n(values.data<float>() + first * in, count * in, to);
  };
  return ops::Weight::make(device, source);
}

}  // namespace anabranch::nn
