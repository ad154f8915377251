// Implements choose_tokens() of OpTable.
#pragma once

#include <memory>
#include <span>

#include "ops/choose.h"

namespace anabranch::ops::cuda {

std::unique_ptr<ChosenTokens> choose_tokens(const Tensor& logits, std::span<const RowSampling> rows);

}  // namespace anabranch::ops::cuda
