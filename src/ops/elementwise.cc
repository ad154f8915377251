#include "ops/elementwise.h"

#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"
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

mx::array copy_rows(const mx::array& x, int begin, int end) {
  require_f32("copy_rows", "x", x, x.ndim());
  const std::vector<mx::array> part = {slice_rows(x, begin, end)};
  return ANABRANCH_DISPATCH(concat_rows(part));
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
  if (x.shape(0) == 0) return {};
  if (backend() == Backend::cuda) return cuda::best_of_rows(x);
  const mx::array host = to_host(x);
  const auto width = static_cast<size_t>(host.shape(1));
  std::vector<int> best(static_cast<size_t>(host.shape(0)));
  parallel_for(host.shape(0), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); i++)
      best[i] = best_of_row({host.data<float>() + i * width, width});
  });
  return best;
}

// Few blocks have a larger element than all before them, or a NaN: the others are passed at twice the speed.
int best_of_row(std::span<const float> row) {
  constexpr size_t kBlock = 64;
  size_t best = 0;
  bool nan = false;
  for (size_t begin = 0; begin < row.size(); begin += kBlock) {
    const size_t end = std::min(begin + kBlock, row.size());
    const float most = row[best];
    bool look = false;
    for (size_t i = begin; i < end; i++) look |= !(row[i] <= most);
    if (!look) continue;
    for (size_t i = begin; i < end; i++) {
      nan |= std::isnan(row[i]);
      if (row[i] > row[best]) best = i;
    }
  }
  return nan || std::isinf(row[best]) ? -1 : static_cast<int>(best);
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
