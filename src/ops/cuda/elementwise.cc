#include "ops/cuda/elementwise.h"

#include <algorithm>

#include "ops/cpu/array.h"
#include "ops/cuda/array.h"
#include "ops/cuda/compiler.h"
#include "ops/cuda/kernels/args.h"
#include "ops/cuda/linear.h"

namespace anabranch::ops::cuda {
namespace {

const Variant kRows{Source::rows, {}};

mx::array pairs(const mx::array& a, const mx::array& b, int op, const char* name) {
  mx::array out = make_array(a.shape(), mx::float32);
  if (a.size() == 0) return out;
  const PairArgs args{data(a, name),
                      data(b, name),
                      data(out, name),
                      static_cast<long>(a.size()),
                      static_cast<long>(b.size()),
                      op};
  launch(kernel(kRows, "pairs"), {static_cast<unsigned>((a.size() + 255) / 256)}, 256, 0, &args);
  return out;
}

}  // namespace

void norm_rows(const mx::array& x, const RowNorm* norm, mx::array* out, mx::array* activations) {
  NormArgs args{};
  args.x = data(x, "rms_norm");
  if (norm) {
    args.weight = data(norm->weight, "rms_norm");
    args.eps = norm->eps;
  }
  if (out) args.out = data(*out, "rms_norm");
  if (activations) args.tiles = data<unsigned short>(*activations, "rms_norm");
  args.rows = x.shape(0);
  args.inputs = args.width = x.shape(1);
  args.tiles_rows = layout_rows(args.rows);
  if (args.rows == 0) return;
  // 8 inputs each: a row's sum has one order, whatever the rows beside it.
  const unsigned threads = std::clamp((static_cast<unsigned>(args.inputs) + 255) / 256 * 32, 128u, 1024u);
  launch(kernel(kRows, "norm_rows"), {static_cast<unsigned>(args.rows)}, threads, 0, &args);
}

mx::array rms_norm(const mx::array& x, const mx::array& w, float eps) {
  mx::array out = make_array(x.shape(), mx::float32);
  const RowNorm norm{w, eps};
  norm_rows(x, &norm, &out, nullptr);
  return out;
}

mx::array add(const mx::array& a, const mx::array& b) {
  return pairs(a, b, 0, "add");
}
mx::array add_bias(const mx::array& x, const mx::array& b) {
  return pairs(x, b, 0, "add_bias");
}
mx::array swiglu(const mx::array& gate, const mx::array& up) {
  return pairs(gate, up, 1, "swiglu");
}
mx::array sigmoid_gate(const mx::array& x, const mx::array& gate) {
  return pairs(x, gate, 2, "sigmoid_gate");
}

mx::array take_rows(const mx::array& x, std::span<const int> rows) {
  const int count = static_cast<int>(rows.size());
  bool consecutive = count > 0;
  for (int i = 0; i < count; i++) consecutive &= rows[i] == rows[0] + i;
  if (consecutive) return cuda::slice_rows(x, rows[0], rows[0] + count);
  mx::array out = make_array({count, x.shape(1)}, mx::float32);
  if (count == 0) return out;
  const auto on_device = upload(rows.data(), rows.size_bytes());
  const TakeArgs args{data(x, "take_rows"), static_cast<const int*>(on_device.get()), data(out, "take_rows"),
                      x.shape(1)};
  launch(kernel(kRows, "take"), {static_cast<unsigned>(count)}, 256, 0, &args);
  return out;
}

mx::array reshape(const mx::array& x, mx::Shape shape) {
  return cpu::view(x, std::move(shape), 0);
}

mx::array slice_rows(const mx::array& x, int begin, int end) {
  mx::Shape shape = x.shape();
  if (begin == 0 && end == shape[0]) return x;
  const int64_t row = shape[0] > 0 ? static_cast<int64_t>(x.size()) / shape[0] : 0;
  shape[0] = end - begin;
  return cpu::view(x, std::move(shape), row * begin);
}

mx::array concat_rows(const std::vector<mx::array>& parts) {
  mx::Shape shape = parts.front().shape();
  shape[0] = 0;
  for (const auto& part : parts) shape[0] += part.shape(0);
  mx::array out = make_array(shape, mx::float32);
  char* to = data<char>(out, "concat_rows");
  for (const auto& part : parts) {
    if (part.nbytes() > 0) copy_on_device(to, address_of(part, "concat_rows"), part.nbytes());
    to += part.nbytes();
  }
  return out;
}

std::vector<int> best_of_rows(const mx::array& x) {
  const int rows = x.shape(0);
  mx::array best = make_array({rows}, mx::int32);
  const BestArgs args{data(x, "best_of_rows"), data<int>(best, "best_of_rows"), x.shape(1)};
  launch(kernel(kRows, "best"), {static_cast<unsigned>(rows)}, 1024, 0, &args);
  const mx::array host = to_host(best);
  return {host.data<int>(), host.data<int>() + rows};
}

}  // namespace anabranch::ops::cuda
