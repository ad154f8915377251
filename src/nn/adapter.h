// Low-rank adapters (LoRA: Hu et al. 2021, https://arxiv.org/abs/2106.09685): a linear layer's output W x
// becomes W x + scale * up (down x).
#pragma once

#include <unordered_map>

#include "ops/weight.h"

namespace anabranch::nn {

struct LowRank {
  // [columns, in]: the down-projections of all layers with the same input that the adapter changes, below
  // each other. They share this. The layer's begins at row `first`.
  ops::Weight down;
  int first = 0;
  Tensor up;  // [out, rank] f32
};

struct Origin;  // nn/linear.h

// What an adapter adds to a model's linear layers, by Linear::origin.
struct Adapter {
  std::unordered_map<const Origin*, LowRank> linears;
};

// Rows [begin, begin + count) of a batch go through an adapter.
struct AdapterRows {
  const Adapter* adapter = nullptr;
  float scale = 1;
  int begin = 0, count = 0;
};

}  // namespace anabranch::nn
