// Every op of this folder in plain MLX ops, fp32: what the headers above mean, stated as directly as MLX
// allows. Arguments have been checked by the dispatching function (linear.cc, elementwise.cc, attention.cc,
// gated_delta.cc).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "ops/attention.h"
#include "ops/gated_delta.h"
#include "ops/weight.h"

namespace anabranch::ops::reference {

std::shared_ptr<const Weight::Storage> make_storage(const WeightSource& source);
std::vector<mx::array> linear(const mx::array& x, std::span<const Weight* const> weights);
mx::array embed(std::span<const int> ids, const Weight& table);

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

}  // namespace anabranch::ops::reference
