#pragma once

#include <span>
#include <vector>

#include "ops/backend.h"

namespace anabranch::ops::reference {

mx::array rms_norm(const mx::array& x, const mx::array& w, float eps);
mx::array add(const mx::array& a, const mx::array& b);
mx::array add_bias(const mx::array& x, const mx::array& b);  // b may broadcast
mx::array swiglu(const mx::array& gate, const mx::array& up);
mx::array sigmoid_gate(const mx::array& x, const mx::array& gate);
mx::array take_rows(const mx::array& x, std::span<const int> rows);
mx::array reshape(const mx::array& x, mx::Shape shape);
mx::array slice_rows(const mx::array& x, int begin, int end);
mx::array concat_rows(const std::vector<mx::array>& parts);
mx::array rope(const mx::array& x, std::span<const int> positions, std::span<const float> inv_freq,
               float attention_factor);

}  // namespace anabranch::ops::reference
