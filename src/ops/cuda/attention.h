#pragma once

#include "ops/attention.h"

namespace anabranch::ops::cuda {

void kv_add_block(PagedKv& kv);
void kv_append(PagedKv& kv, const mx::array& k, const mx::array& v);
mx::array attention(const mx::array& q, const PagedKv& kv, float scale, int window);
// The result is activations (ops/cuda/linear.h).
mx::array attend(const AttentionInputs& in, std::span<const AttentionSpan> spans);
mx::array rope(const mx::array& x, std::span<const int> positions, std::span<const float> inv_freq,
               float attention_factor);

}  // namespace anabranch::ops::cuda
