#include "ops/elementwise.h"

#include <algorithm>
#include <cmath>

#include "ops/arguments.h"
#include "ops/cpu/elementwise.h"
#include "ops/cuda/attention.h"
#include "ops/cuda/elementwise.h"
#include "ops/reference/elementwise.h"

namespace anabranch::ops {
namespace {

void require_same_shape(const char* op, const mx::array& a, const mx::array& b) {
  require_f32(op, "the first operand", a, a.ndim());
  require_shape(op, "the second operand", b, a.shape());
}

}  // namespace

mx::array rms_norm(const mx::array& x, const mx::array& w, float eps) {
  require_f32("rms_norm", "x", x, 2);
  require_shape("rms_norm", "w", w, {x.shape(1)});
  return ANABRANCH_DISPATCH(rms_norm(x, w, eps));
}

mx::array add(const mx::array& a, const mx::array& b) {
  require_same_shape("add", a, b);
  return ANABRANCH_DISPATCH(add(a, b));
}

mx::array add_bias(const mx::array& x, const mx::array& b) {
  require_f32("add_bias", "x", x, 2);
  require_shape("add_bias", "b", b, {x.shape(1)});
  return ANABRANCH_DISPATCH(add_bias(x, b));
}

mx::array swiglu(const mx::array& gate, const mx::array& up) {
  require_same_shape("swiglu", gate, up);
  return ANABRANCH_DISPATCH(swiglu(gate, up));
}

mx::array sigmoid_gate(const mx::array& x, const mx::array& gate) {
  require_same_shape("sigmoid_gate", x, gate);
  return ANABRANCH_DISPATCH(sigmoid_gate(x, gate));
}

mx::array take_rows(const mx::array& x, std::span<const int> rows) {
  require_f32("take_rows", "x", x, 2);
  for (const int row : rows)
    require(row >= 0 && row < x.shape(0), "take_rows", "row {} is not among {}.", row, x.shape(0));
  return ANABRANCH_DISPATCH(take_rows(x, rows));
}

mx::array reshape(const mx::array& x, mx::Shape shape) {
  int64_t size = 1;
  for (const int n : shape) {
    require(n >= 0, "reshape", "a dimension is {}.", n);
    size *= n;
  }
  require(size == static_cast<int64_t>(x.size()), "reshape", "{} elements do not fit shape {}.", size, x);
  return ANABRANCH_DISPATCH(reshape(x, std::move(shape)));
}

mx::array slice_rows(const mx::array& x, int begin, int end) {
  require(x.ndim() > 0 && 0 <= begin && begin <= end && end <= x.shape(0), "slice_rows",
          "rows {} to {} are not in shape {}.", begin, end, x);
  return ANABRANCH_DISPATCH(slice_rows(x, begin, end));
}

mx::array concat_rows(const std::vector<mx::array>& parts) {
  require(!parts.empty() && parts.front().ndim() > 0, "concat_rows", "there is nothing to stack.");
  const mx::Shape& first = parts.front().shape();
  for (const mx::array& part : parts) {
    require_f32("concat_rows", "a part", part, first.size());
    require(std::equal(first.begin() + 1, first.end(), part.shape().begin() + 1), "concat_rows",
            "shapes {} and {} do not stack.", parts.front(), part);
  }
  if (parts.size() == 1) return parts.front();
  return ANABRANCH_DISPATCH(concat_rows(parts));
}

std::vector<int> best_of_rows(const mx::array& x) {
  require_f32("best_of_rows", "x", x, 2);
  require(x.shape(1) > 0, "best_of_rows", "the rows are empty.");
  if (backend() == Backend::cuda) return cuda::best_of_rows(x);
  const mx::array host = to_host(x);
  std::vector<int> best;
  for (int i = 0; i < host.shape(0); i++) {
    const float *row = host.data<float>() + static_cast<int64_t>(i) * host.shape(1),
                *end = row + host.shape(1);
    const float* largest = std::max_element(row, end);
    const bool numbers = std::none_of(row, end, [](float v) { return std::isnan(v); });
    best.push_back(numbers && std::isfinite(*largest) ? static_cast<int>(largest - row) : -1);
  }
  return best;
}

mx::array rope(const mx::array& x, std::span<const int> positions, std::span<const float> inv_freq,
               float attention_factor) {
  require_f32("rope", "x", x, 3);
  require(positions.size() == static_cast<size_t>(x.shape(0)), "rope", "there are {} positions for {} rows.",
          positions.size(), x.shape(0));
  require(!inv_freq.empty() && 2 * inv_freq.size() <= static_cast<size_t>(x.shape(2)), "rope",
          "{} frequencies do not fit a head of {}.", inv_freq.size(), x.shape(2));
  return ANABRANCH_DISPATCH(rope(x, positions, inv_freq, attention_factor));
}

}  // namespace anabranch::ops
