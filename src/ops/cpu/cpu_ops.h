// The CPU implementation of every op: our kernels on arrays' storage, at once. Shapes were checked by the
// callers in ops/*.cc; signatures are those of the public headers.
#pragma once

#include "ops/attention.h"
#include "ops/cpu/linear.h"
#include "ops/elementwise.h"
#include "ops/gated_delta.h"

namespace anabranch::ops::cpu {

mx::array rms_norm(const mx::array& x, const mx::array& w, float eps);
mx::array add(const mx::array& a, const mx::array& b);
mx::array add_bias(const mx::array& x, const mx::array& b);
mx::array swiglu(const mx::array& gate, const mx::array& up);
mx::array sigmoid_gate(const mx::array& x, const mx::array& gate);
mx::array take_rows(const mx::array& x, std::span<const int> rows);
mx::array rope(const mx::array& x, std::span<const int> positions, std::span<const float> inv_freq,
               float attention_factor);

void kv_append(PagedKv& kv, const mx::array& k, const mx::array& v);
mx::array attention(const mx::array& q, const PagedKv& kv, float scale, int window);

mx::array gated_delta(const mx::array& qkv, const mx::array& z, const mx::array& b, const mx::array& a,
                      const GatedDeltaShape& shape, const GatedDeltaWeights& weights, GatedDeltaState& state);

}  // namespace anabranch::ops::cpu
