#include "ops/elementwise.h"

#include <mlx/ops.h>

#include <algorithm>
#include <cstring>

#include "ops/arguments.h"
#include "ops/cpu/cpu_ops.h"
#include "ops/reference/reference.h"

namespace anabranch::ops {
namespace {

bool on_cpu() {
  return backend() == Backend::cpu;
}

bool has_storage(const mx::array& x) {
  return x.is_available() && x.flags().row_contiguous;
}

void require_same_shape(const char* op, const mx::array& a, const mx::array& b) {
  require_f32(op, "the first operand", a, a.ndim());
  require_shape(op, "the second operand", b, a.shape());
}

// Part of the storage of `x` as an array of its own, made at once: MLX's slice and reshape would build a
// graph.
mx::array view(const mx::array& x, mx::Shape shape, int64_t offset) {
  mx::array result(std::move(shape), x.dtype(), nullptr, {});
  mx::Strides strides(result.ndim());
  int64_t step = 1;
  for (int i = static_cast<int>(result.ndim()) - 1; i >= 0; i--) {
    strides[i] = step;
    step *= result.shape(i);
  }
  mx::array::Flags flags = {};
  flags.contiguous = flags.row_contiguous = true;
  int long_axes = 0;
  for (const int n : result.shape()) long_axes += n > 1;
  flags.col_contiguous = long_axes <= 1;
  result.copy_shared_buffer(x, strides, flags, result.size(), offset);
  result.set_status(mx::array::Status::available);
  return result;
}

}  // namespace

mx::array rms_norm(const mx::array& x, const mx::array& w, float eps) {
  require_f32("rms_norm", "x", x, 2);
  require_shape("rms_norm", "w", w, {x.shape(1)});
  return on_cpu() ? cpu::rms_norm(x, w, eps) : reference::rms_norm(x, w, eps);
}

mx::array add(const mx::array& a, const mx::array& b) {
  require_same_shape("add", a, b);
  return on_cpu() ? cpu::add(a, b) : reference::add(a, b);
}

mx::array add_bias(const mx::array& x, const mx::array& b) {
  require_f32("add_bias", "x", x, 2);
  require_shape("add_bias", "b", b, {x.shape(1)});
  return on_cpu() ? cpu::add_bias(x, b) : reference::add_bias(x, b);
}

mx::array swiglu(const mx::array& gate, const mx::array& up) {
  require_same_shape("swiglu", gate, up);
  return on_cpu() ? cpu::swiglu(gate, up) : reference::swiglu(gate, up);
}

mx::array sigmoid_gate(const mx::array& x, const mx::array& gate) {
  require_same_shape("sigmoid_gate", x, gate);
  return on_cpu() ? cpu::sigmoid_gate(x, gate) : reference::sigmoid_gate(x, gate);
}

mx::array take_rows(const mx::array& x, std::span<const int> rows) {
  require_f32("take_rows", "x", x, 2);
  for (const int row : rows)
    require(row >= 0 && row < x.shape(0), "take_rows", "row {} is not among {}.", row, x.shape(0));
  return on_cpu() ? cpu::take_rows(x, rows) : reference::take_rows(x, rows);
}

mx::array reshape(const mx::array& x, mx::Shape shape) {
  int64_t size = 1;
  for (const int n : shape) {
    require(n >= 0, "reshape", "a dimension is {}.", n);
    size *= n;
  }
  require(size == static_cast<int64_t>(x.size()), "reshape", "{} elements do not fit shape {}.", size, x);
  return has_storage(x) ? view(x, std::move(shape), 0) : mx::reshape(x, std::move(shape));
}

mx::array slice_rows(const mx::array& x, int begin, int end) {
  require(x.ndim() > 0 && 0 <= begin && begin <= end && end <= x.shape(0), "slice_rows",
          "rows {} to {} are not in shape {}.", begin, end, x);
  mx::Shape shape = x.shape();
  if (has_storage(x)) {
    const int64_t row = x.shape(0) == 0 ? 0 : static_cast<int64_t>(x.size()) / x.shape(0);
    shape[0] = end - begin;
    return view(x, std::move(shape), begin * row);
  }
  mx::Shape start(x.ndim(), 0);
  start[0] = begin;
  shape[0] = end;
  return mx::slice(x, std::move(start), std::move(shape));
}

mx::array concat_rows(const std::vector<mx::array>& parts) {
  require(!parts.empty(), "concat_rows", "there is nothing to stack.");
  if (parts.size() == 1) return parts.front();
  bool stored = true;
  mx::Shape shape = parts.front().shape();
  require(!shape.empty(), "concat_rows", "a scalar has no rows.");
  shape[0] = 0;
  for (const mx::array& part : parts) {
    require(part.ndim() == shape.size() &&
                std::equal(shape.begin() + 1, shape.end(), part.shape().begin() + 1) &&
                part.dtype() == parts.front().dtype(),
            "concat_rows", "shapes {} and {} do not stack.", parts.front(), part);
    shape[0] += part.shape(0);
    stored = stored && has_storage(part);
  }
  if (!stored) return mx::concatenate(parts, 0);
  mx::array result = empty(std::move(shape), parts.front().dtype());
  char* to = result.data<char>();
  for (const mx::array& part : parts) {
    if (part.nbytes() > 0) std::memcpy(to, part.data<char>(), part.nbytes());
    to += part.nbytes();
  }
  return result;
}

mx::array rope(const mx::array& x, std::span<const int> positions, std::span<const float> inv_freq,
               float attention_factor) {
  require_f32("rope", "x", x, 3);
  require(positions.size() == static_cast<size_t>(x.shape(0)), "rope", "there are {} positions for {} rows.",
          positions.size(), x.shape(0));
  require(!inv_freq.empty() && 2 * inv_freq.size() <= static_cast<size_t>(x.shape(2)), "rope",
          "{} frequencies do not fit a head of {}.", inv_freq.size(), x.shape(2));
  return on_cpu() ? cpu::rope(x, positions, inv_freq, attention_factor)
                  : reference::rope(x, positions, inv_freq, attention_factor);
}

}  // namespace anabranch::ops
