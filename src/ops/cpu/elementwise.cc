#include "ops/cpu/elementwise.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "ops/choose_experts.h"
#include "ops/cpu/device.h"
#include "ops/cpu/kernels.h"
#include "ops/cpu/linear_parts.h"

namespace anabranch::ops::cpu {
namespace {

constexpr int64_t kSerial = 32 << 10;  // with fewer elements, one thread does all the work

// body(begin, end) over rows of `width` elements.
template <class Body>
void over_rows(CpuDevice& device, int64_t rows, int64_t width, const Body& body) {
  if (rows * width < kSerial) return body(0, rows);
  device.threads().parallel_for(rows, std::max<int64_t>(1, kSerial / 4 / width), body);
}

using Binary = void (*)(const float*, const float*, float*, int64_t);

Tensor binary(const Tensor& a, const Tensor& b, Binary kernel) {
  CpuDevice& device = cpu_device(a);
  Tensor y = device.make(a.shape());
  const float *pa = a.data<float>(), *pb = b.data<float>();
  float* py = y.data<float>();
  if (a.size() < kSerial) {
    kernel(pa, pb, py, a.size());
  } else {
    device.threads().parallel_for(a.size(), kSerial / 4, [&](int64_t begin, int64_t end) {
      kernel(pa + begin, pb + begin, py + begin, end - begin);
    });
  }
  return y;
}

using Unary = void (*)(const float*, float, float*, int64_t);

Tensor unary(const Tensor& x, float parameter, Unary kernel) {
  CpuDevice& device = cpu_device(x);
  Tensor y = device.make(x.shape());
  const float* px = x.data<float>();
  float* py = y.data<float>();
  over_rows(device, x.size(), 1,
            [&](int64_t begin, int64_t end) { kernel(px + begin, parameter, py + begin, end - begin); });
  return y;
}

float on_curve(float x, GateCurve curve) {
  if (curve == GateCurve::sigmoid) return sigmoid(x);
  return x > 30 ? x : static_cast<float>(std::log1p(std::exp(double{x})));
}

// Cosines and sines [rows, frequencies]. Cached, because every layer of a step with the same rope needs the
// same ones.
struct Angles {
  std::vector<int> positions;
  int rows = 0;
  Rope rope;
  bool queries = false;
  std::vector<float> cosines, sines;
};

// Returns the angles of these positions. The last four are cached: models have up to two ropes, and queries
// may have their own factors.
const Angles& angles(CpuDevice& device, std::span<const int> positions, int rows, const Rope& rope,
                     bool queries) {
  static thread_local std::array<Angles, 4> kept;
  static thread_local size_t next = 0;
  queries = queries && rope.query_beta != 0;
  for (const Angles& a : kept)
    if (a.queries == queries && a.rows == rows && std::ranges::equal(a.positions, positions) &&
        a.rope == rope)
      return a;
  // Worker threads have their own `kept`, so they must use this reference.
  Angles& to = kept[next++ % kept.size()];
  to.positions.assign(positions.begin(), positions.end());
  to.rows = rows;
  to.rope = rope;
  to.queries = queries;
  const size_t d = rope.inv_freq.size();
  const auto each = static_cast<size_t>(positions_of_row("rope", rope, positions, rows));
  to.cosines.resize(static_cast<size_t>(rows) * d);
  to.sines.resize(static_cast<size_t>(rows) * d);
  over_rows(device, rows, static_cast<int64_t>(d) * 16, [&](int64_t begin, int64_t end) {
    for (auto m = static_cast<size_t>(begin); m < static_cast<size_t>(end); m++)
      rope_angles(to.rope, {&to.positions[m * each], each}, queries, &to.cosines[m * d], &to.sines[m * d]);
  });
  return to;
}

}  // namespace

Tensor rms_norm(const Tensor& x, const Tensor& w, float eps) {
  CpuDevice& device = cpu_device(x);
  Tensor y = device.make(x.shape());
  const int64_t k = x.shape(1);
  const float *px = x.data<float>(), *pw = w.data<float>();
  float* py = y.data<float>();
  over_rows(device, x.shape(0), k, [&](int64_t begin, int64_t end) {
    device.kernels().rms_norm(px + begin * k, pw, eps, py + begin * k, end - begin, k);
  });
  return y;
}

Tensor layer_norm(const Tensor& x, const Tensor& w, const Tensor& b, float eps) {
  CpuDevice& device = cpu_device(x);
  Tensor y = device.make(x.shape());
  const int64_t k = x.shape(1);
  const float *px = x.data<float>(), *pw = w.data<float>(), *pb = b.data<float>();
  float* py = y.data<float>();
  over_rows(device, x.shape(0), k, [&](int64_t begin, int64_t end) {
    device.kernels().layer_norm(px + begin * k, pw, pb, eps, py + begin * k, end - begin, k);
  });
  return y;
}

Tensor gelu(const Tensor& x, Gelu kind) {
  const CpuKernels& kernels = cpu_device(x).kernels();
  return unary(x, 0, kind == Gelu::tanh ? kernels.gelu_tanh : kernels.gelu_erf);
}
Tensor relu2(const Tensor& x) {
  return unary(x, 0, cpu_device(x).kernels().relu2);
}
Tensor xielu(const Tensor& x, const Xielu& p) {
  CpuDevice& device = cpu_device(x);
  Tensor y = device.make(x.shape());
  const float* px = x.data<float>();
  float* py = y.data<float>();
  over_rows(device, x.size(), 1, [&](int64_t begin, int64_t end) {
    device.kernels().xielu(px + begin, p.positive, p.negative, p.linear, p.near, py + begin, end - begin);
  });
  return y;
}
Tensor add(const Tensor& a, const Tensor& b) {
  return binary(a, b, cpu_device(a).kernels().add);
}
Tensor swiglu(const Tensor& gate, const Tensor& up, Activation activation) {
  return binary(gate, up, glu_kernel(cpu_device(gate).kernels(), activation));
}
Tensor clamped_glu(const Tensor& gate, const Tensor& up, const ClampedGlu& how) {
  CpuDevice& device = cpu_device(gate);
  Tensor y = device.make(gate.shape());
  const float *pg = gate.data<float>(), *pu = up.data<float>();
  float* py = y.data<float>();
  over_rows(device, gate.size(), 1, [&](int64_t begin, int64_t end) {
    clamped_glu(device.kernels(), how, pg + begin, pu + begin, py + begin, end - begin);
  });
  return y;
}
Tensor scale(const Tensor& x, float factor) {
  return unary(x, factor, cpu_device(x).kernels().scale);
}
Tensor soft_cap(const Tensor& x, float cap) {
  return unary(x, cap, cpu_device(x).kernels().soft_cap);
}
Tensor sigmoid_gate(const Tensor& x, const Tensor& gate) {
  return binary(x, gate, cpu_device(x).kernels().sigmoid_gate);
}

Tensor add_bias(const Tensor& x, const Tensor& b) {
  CpuDevice& device = cpu_device(x);
  Tensor y = device.make(x.shape());
  const int64_t n = x.shape(1);
  const float *px = x.data<float>(), *pb = b.data<float>();
  float* py = y.data<float>();
  over_rows(device, x.shape(0), n, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; m++) device.kernels().add(px + m * n, pb, py + m * n, n);
  });
  return y;
}

Tensor take_rows(const Tensor& x, std::span<const int> rows) {
  const int64_t k = x.shape(1);
  Tensor y = cpu_device(x).make({static_cast<int>(rows.size()), x.shape(1)});
  const float* px = x.data<float>();
  float* py = y.data<float>();
  for (int row : rows) {
    std::memcpy(py, px + row * k, static_cast<size_t>(k) * sizeof(float));
    py += k;
  }
  return y;
}

Tensor concat_rows(const std::vector<Tensor>& parts) {
  Shape shape = parts[0].shape();
  shape[0] = 0;
  for (const auto& part : parts) shape[0] += part.shape(0);
  Tensor y = cpu_device(parts[0]).make(shape);
  float* to = y.data<float>();
  for (const auto& part : parts) {
    std::memcpy(to, part.data<float>(), part.nbytes());
    to += part.size();
  }
  return y;
}

Tensor join_heads(const Tensor& a, const Tensor& b) {
  CpuDevice& device = cpu_device(a);
  const int64_t of_a = a.shape(2), of_b = b.shape(2), heads = int64_t{a.shape(0)} * a.shape(1);
  Tensor y = device.make({a.shape(0), a.shape(1), a.shape(2) + b.shape(2)});
  over_rows(device, heads, of_a + of_b, [&](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; h++) {
      float* to = y.data<float>() + h * (of_a + of_b);
      std::copy_n(a.data<float>() + h * of_a, of_a, to);
      std::copy_n(b.data<float>() + h * of_b, of_b, to + of_a);
    }
  });
  return y;
}

Tensor cut_heads(const Tensor& x, int keep) {
  CpuDevice& device = cpu_device(x);
  const int64_t of_x = x.shape(2), heads = int64_t{x.shape(0)} * x.shape(1);
  Tensor y = device.make({x.shape(0), x.shape(1), keep});
  over_rows(device, heads, of_x, [&](int64_t begin, int64_t end) {
    for (int64_t h = begin; h < end; h++)
      std::copy_n(x.data<float>() + h * of_x, keep, y.data<float>() + h * keep);
  });
  return y;
}

Tensor gate_heads(const Tensor& x, const Tensor& gate, GateCurve curve) {
  if (x.shape(1) == gate.shape(1) && curve == GateCurve::sigmoid) return sigmoid_gate(x, gate);
  CpuDevice& device = cpu_device(x);
  Tensor y = device.make(x.shape());
  const int64_t width = x.shape(1) / gate.shape(1);
  over_rows(device, gate.size(), width, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++) {
      const float factor = on_curve(gate.data<float>()[i], curve);
      device.kernels().scale(x.data<float>() + i * width, factor, y.data<float>() + i * width, width);
    }
  });
  return y;
}

Tensor rope(const Tensor& x, std::span<const int> positions, const Rope& rope, bool queries) {
  CpuDevice& device = cpu_device(x);
  Tensor y = device.make(x.shape());
  const Angles& a = angles(device, positions, x.shape(0), rope, queries);
  RopeTask task;
  task.x = x.data<float>();
  task.y = y.data<float>();
  task.cosines = a.cosines.data();
  task.sines = a.sines.data();
  task.heads = x.shape(1);
  task.head_dim = x.shape(2);
  task.d = static_cast<int64_t>(rope.inv_freq.size());
  over_rows(device, x.shape(0), task.heads * task.head_dim, [&](int64_t begin, int64_t end) {
    RopeTask part = task;
    part.row_begin = begin;
    part.row_end = end;
    device.kernels().rope(part);
  });
  return y;
}

}  // namespace anabranch::ops::cpu
