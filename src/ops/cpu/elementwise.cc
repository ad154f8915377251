#include "ops/cpu/elementwise.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/thread_pool.h"
#include "ops/cpu/array.h"
#include "ops/cpu/kernels.h"

namespace anabranch::ops::cpu {
namespace {

constexpr int64_t kSerial = 32 << 10;  // elements below which one thread does it all

// body(begin, end) over rows of `width` elements.
template <class Body>
void over_rows(int64_t rows, int64_t width, const Body& body) {
  if (rows * width < kSerial) return body(0, rows);
  parallel_for(rows, std::max<int64_t>(1, kSerial / 4 / width), body);
}

using Binary = void (*)(const float*, const float*, float*, int64_t);

mx::array binary(const mx::array& a, const mx::array& b, Binary kernel, const char* op) {
  mx::array y = make_array(a.shape(), mx::float32);
  const float *pa = read_f32(a, op), *pb = read_f32(b, op);
  float* py = y.data<float>();
  const int64_t count = static_cast<int64_t>(a.size());
  if (count < kSerial) {
    kernel(pa, pb, py, count);
  } else {
    parallel_for(count, kSerial / 4, [&](int64_t begin, int64_t end) {
      kernel(pa + begin, pb + begin, py + begin, end - begin);
    });
  }
  return y;
}

int64_t row_size(const mx::array& x) {
  return x.shape(0) == 0 ? 0 : static_cast<int64_t>(x.size()) / x.shape(0);
}

// Cosines and sines [positions, frequencies]. Every layer of a step asks for the same ones: the last are
// kept.
struct Angles {
  std::vector<int> positions;
  std::vector<float> inv_freq, cosines, sines;
  float factor = 0;
};

const Angles& angles(std::span<const int> positions, std::span<const float> inv_freq, float factor) {
  static thread_local Angles last;
  if (last.factor == factor &&
      std::equal(positions.begin(), positions.end(), last.positions.begin(), last.positions.end()) &&
      std::equal(inv_freq.begin(), inv_freq.end(), last.inv_freq.begin(), last.inv_freq.end()))
    return last;
  last.positions.assign(positions.begin(), positions.end());
  last.inv_freq.assign(inv_freq.begin(), inv_freq.end());
  last.factor = factor;
  const size_t d = inv_freq.size();
  last.cosines.resize(positions.size() * d);
  last.sines.resize(positions.size() * d);
  Angles& to = last;  // the workers' own `last` are other objects
  over_rows(
      static_cast<int64_t>(positions.size()), static_cast<int64_t>(d) * 16, [&](int64_t begin, int64_t end) {
        for (auto m = static_cast<size_t>(begin); m < static_cast<size_t>(end); m++) {
          for (size_t i = 0; i < d; i++) {
            const double angle = static_cast<double>(to.positions[m]) * static_cast<double>(to.inv_freq[i]);
            to.cosines[m * d + i] = static_cast<float>(std::cos(angle)) * factor;
            to.sines[m * d + i] = static_cast<float>(std::sin(angle)) * factor;
          }
        }
      });
  return last;
}

}  // namespace

mx::array rms_norm(const mx::array& x, const mx::array& w, float eps) {
  mx::array y = make_array(x.shape(), mx::float32);
  const int64_t k = x.shape(1);
  const float *px = read_f32(x, "rms_norm"), *pw = read_f32(w, "rms_norm");
  float* py = y.data<float>();
  over_rows(x.shape(0), k, [&](int64_t begin, int64_t end) {
    kernels().rms_norm(px + begin * k, pw, eps, py + begin * k, end - begin, k);
  });
  return y;
}

mx::array add(const mx::array& a, const mx::array& b) {
  return binary(a, b, kernels().add, "add");
}
mx::array swiglu(const mx::array& gate, const mx::array& up) {
  return binary(gate, up, kernels().swiglu, "swiglu");
}
mx::array sigmoid_gate(const mx::array& x, const mx::array& gate) {
  return binary(x, gate, kernels().sigmoid_gate, "sigmoid_gate");
}

mx::array add_bias(const mx::array& x, const mx::array& b) {
  mx::array y = make_array(x.shape(), mx::float32);
  const int64_t n = x.shape(1);
  const float *px = read_f32(x, "add_bias"), *pb = read_f32(b, "add_bias");
  float* py = y.data<float>();
  over_rows(x.shape(0), n, [&](int64_t begin, int64_t end) {
    for (int64_t m = begin; m < end; m++) kernels().add(px + m * n, pb, py + m * n, n);
  });
  return y;
}

mx::array take_rows(const mx::array& x, std::span<const int> rows) {
  const int64_t k = x.shape(1);
  mx::array y = make_array({static_cast<int>(rows.size()), x.shape(1)}, mx::float32);
  const float* px = read_f32(x, "take_rows");
  float* py = y.data<float>();
  for (int row : rows) {
    std::memcpy(py, px + row * k, static_cast<size_t>(k) * sizeof(float));
    py += k;
  }
  return y;
}

mx::array reshape(const mx::array& x, mx::Shape shape) {
  read_f32(x, "reshape");
  return view(x, std::move(shape), 0);
}

mx::array slice_rows(const mx::array& x, int begin, int end) {
  read_f32(x, "slice_rows");
  mx::Shape shape = x.shape();
  const int64_t row = row_size(x);
  shape[0] = end - begin;
  return view(x, std::move(shape), begin * row);
}

mx::array concat_rows(const std::vector<mx::array>& parts) {
  mx::Shape shape = parts[0].shape();
  shape[0] = 0;
  for (const auto& part : parts) shape[0] += part.shape(0);
  mx::array y = make_array(std::move(shape), mx::float32);
  float* to = y.data<float>();
  for (const auto& part : parts) {
    std::memcpy(to, read_f32(part, "concat_rows"), part.size() * sizeof(float));
    to += part.size();
  }
  return y;
}

mx::array rope(const mx::array& x, std::span<const int> positions, std::span<const float> inv_freq,
               float attention_factor) {
  mx::array y = make_array(x.shape(), mx::float32);
  const Angles& a = angles(positions, inv_freq, attention_factor);
  RopeTask task;
  task.x = read_f32(x, "rope");
  task.y = y.data<float>();
  task.cosines = a.cosines.data();
  task.sines = a.sines.data();
  task.heads = x.shape(1);
  task.head_dim = x.shape(2);
  task.d = static_cast<int64_t>(inv_freq.size());
  over_rows(x.shape(0), task.heads * task.head_dim, [&](int64_t begin, int64_t end) {
    RopeTask part = task;
    part.row_begin = begin;
    part.row_end = end;
    kernels().rope(part);
  });
  return y;
}

}  // namespace anabranch::ops::cpu
