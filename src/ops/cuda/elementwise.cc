#include "ops/cuda/elementwise.h"

#include <algorithm>
#include <array>

#include "ops/cuda/choose.h"
#include "ops/cuda/kernels/args.h"
#include "ops/cuda/linear.h"

namespace anabranch::ops::cuda {
namespace {

const Variant kRows = Source::rows;

Tensor pairs(const Tensor& a, const Tensor& b, PairOp op, const char* name, float parameter = 0,
             const std::array<float, 3>& more = {}) {
  CudaDevice& on = cuda_device(a);
  Tensor out = on.empty(a.shape(), Dtype::f32);
  if (a.size() == 0) return out;
  const PairArgs args{on.data(a, name),
                      on.data(b, name),
                      on.data(out, name),
                      static_cast<long>(a.size()),
                      static_cast<long>(b.size()),
                      op,
                      parameter,
                      {more[0], more[1], more[2]}};
  on.launch(kRows, "pairs", {static_cast<unsigned>((a.size() + 255) / 256)}, 256, 0, &args);
  return out;
}

}  // namespace

int norm_threads(int inputs) {
  return std::clamp((inputs + 255) / 256 * 32, 128, inputs <= 8192 ? 512 : 1024);
}

void norm_rows(CudaDevice& on, const Tensor& x, const RowNorm* norm, const Tensor* out,
               const MatmulInput* packed, const MatmulInput* lanes) {
  const char* op = "rms_norm";
  NormArgs args{};
  args.x = on.data(x, op);
  if (norm) {
    args.weight = on.data(norm->weight, op);
    args.eps = norm->eps;
  }
  if (out) args.out = on.data(*out, op);
  if (packed) args.tiles = on.data<unsigned short>(packed->values, op);
  if (lanes) args.lanes = on.data<unsigned short>(lanes->values, op);
  args.rows = x.shape(0);
  args.inputs = args.width = x.shape(1);
  args.tiles_rows = layout_rows(args.rows);
  if (args.rows == 0) return;
  on.launch(kRows, "norm_rows", {static_cast<unsigned>(args.rows)},
            static_cast<unsigned>(norm_threads(args.inputs)), 0, &args);
}

Tensor rms_norm(const Tensor& x, const Tensor& w, float eps) {
  CudaDevice& on = cuda_device(x);
  Tensor out = on.empty(x.shape(), Dtype::f32);
  const RowNorm norm{w, eps};
  norm_rows(on, x, &norm, &out, nullptr);
  return out;
}

Tensor layer_norm(const Tensor& x, const Tensor& w, const Tensor& b, float eps) {
  const char* op = "layer_norm";
  CudaDevice& on = cuda_device(x);
  Tensor out = on.empty(x.shape(), Dtype::f32);
  if (x.size() == 0) return out;
  const LayerNormArgs args{
      on.data(x, op), on.data(w, op), on.data(b, op), on.data(out, op), x.shape(0), x.shape(1), eps};
  on.launch(kRows, "layer_norm", {static_cast<unsigned>(args.rows)},
            static_cast<unsigned>(norm_threads(args.inputs)), 0, &args);
  return out;
}

Tensor gelu(const Tensor& x, Gelu kind) {
  return pairs(x, x, kind == Gelu::tanh ? kGeluTanh : kGeluErf, "gelu");
}
Tensor relu2(const Tensor& x) {
  return pairs(x, x, kRelu2, "relu2");
}
Tensor xielu(const Tensor& x, const Xielu& p) {
  return pairs(x, x, kXielu, "xielu", p.positive, {p.negative, p.linear, p.near});
}
Tensor clamped_glu(const Tensor& gate, const Tensor& up, const ClampedGlu& how) {
  return pairs(gate, up, how.silu_first ? kClampedSilu : kClampedGlu, "clamped_glu", how.alpha, {how.limit});
}
Tensor add(const Tensor& a, const Tensor& b) {
  return pairs(a, b, kAdd, "add");
}
Tensor add_bias(const Tensor& x, const Tensor& b) {
  return pairs(x, b, kAdd, "add_bias");
}
Tensor swiglu(const Tensor& gate, const Tensor& up, Activation activation) {
  return pairs(gate, up, activation == Activation::silu ? kSwiGlu : kGeGlu, "swiglu");
}
Tensor scale(const Tensor& x, float factor) {
  return pairs(x, x, kScale, "scale", factor);
}
Tensor soft_cap(const Tensor& x, float cap) {
  return pairs(x, x, kSoftCap, "soft_cap", cap);
}
Tensor sigmoid_gate(const Tensor& x, const Tensor& gate) {
  return pairs(x, gate, kSigmoidGate, "sigmoid_gate");
}

namespace {

Tensor heads(const Tensor& a, const Tensor* b, int b_width, HeadOp op, const Shape& shape, int width,
             const char* name) {
  CudaDevice& on = cuda_device(a);
  Tensor out = on.empty(shape, Dtype::f32);
  if (out.size() == 0) return out;
  const HeadArgs args{on.data(a, name),
                      b ? on.data(*b, name) : nullptr,
                      on.data(out, name),
                      static_cast<long>(out.size()),
                      width,
                      a.shape(static_cast<int>(a.shape().size()) - 1),
                      b_width,
                      op};
  on.launch(kRows, "heads", {static_cast<unsigned>((out.size() + 255) / 256)}, 256, 0, &args);
  return out;
}

}  // namespace

Tensor join_heads(const Tensor& a, const Tensor& b) {
  const int width = a.shape(2) + b.shape(2);
  return heads(a, &b, b.shape(2), kJoinHeads, {a.shape(0), a.shape(1), width}, width, "join_heads");
}
Tensor cut_heads(const Tensor& x, int keep) {
  return heads(x, nullptr, 0, kCutHeads, {x.shape(0), x.shape(1), keep}, keep, "cut_heads");
}
Tensor gate_heads(const Tensor& x, const Tensor& gate, GateCurve curve) {
  const bool of_values = gate.shape(1) == x.shape(1);
  const int width = x.shape(1) / gate.shape(1);
  return heads(x, &gate, 1, curve == GateCurve::sigmoid ? kSigmoidHeads : kSoftplusHeads, x.shape(),
               of_values ? 1 : width, "gate_heads");
}

Tensor take_rows(const Tensor& x, std::span<const int> rows) {
  const int count = static_cast<int>(rows.size());
  bool consecutive = count > 0;
  for (int i = 0; i < count; i++) consecutive &= rows[i] == rows[0] + i;
  if (consecutive) return x.slice_rows(rows[0], rows[0] + count);
  CudaDevice& on = cuda_device(x);
  Tensor out = on.empty({count, x.shape(1)}, Dtype::f32);
  if (count == 0) return out;
  const Block indices = on.upload(rows.data(), rows.size_bytes());
  const TakeArgs args{on.data(x, "take_rows"), indices.address<int>(), on.data(out, "take_rows"), x.shape(1)};
  on.launch(kRows, "take", {static_cast<unsigned>(count)}, 256, 0, &args);
  return out;
}

Tensor concat_rows(const std::vector<Tensor>& parts) {
  Shape shape = parts.front().shape();
  shape[0] = 0;
  for (const auto& part : parts) shape[0] += part.shape(0);
  CudaDevice& on = cuda_device(parts.front());
  Tensor out = on.empty(shape, Dtype::f32);
  char* to = on.data<char>(out, "concat_rows");
  for (const auto& part : parts) {
    if (part.nbytes() > 0) on.context().copy_on_device(to, on.data<void>(part, "concat_rows"), part.nbytes());
    to += part.nbytes();
  }
  return out;
}

std::vector<int> best_of_rows(const Tensor& x) {
  RowSampling greedy;
  greedy.kind = RowSampling::Kind::greedy;
  return cuda::choose_tokens(x, std::vector<RowSampling>(static_cast<size_t>(x.shape(0)), greedy))->wait();
}

}  // namespace anabranch::ops::cuda
