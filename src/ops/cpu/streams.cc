#include "ops/cpu/streams.h"

#include <algorithm>

#include "ops/cpu/device.h"
#include "ops/cpu/kernels.h"

namespace anabranch::ops::cpu {
namespace {

constexpr int64_t kStreamsSerial = 32 << 10;  // with fewer values, one thread does all the work

// body(row) for rows of `width` values.
template <class Body>
void each_stream_row(CpuDevice& device, int64_t rows, int64_t width, const Body& body) {
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; row++) body(row);
  };
  if (rows * width < kStreamsSerial) return run(0, rows);
  device.threads().parallel_for(rows, std::max<int64_t>(1, kStreamsSerial / 4 / width), run);
}

}  // namespace

Tensor norm_streams(const Tensor& x, const Tensor& w, float eps, int streams) {
  CpuDevice& device = cpu_device(x);
  Tensor y = device.make(x.shape());
  const int64_t width = x.shape(1), each = width / streams;
  const float *from = x.data<float>(), *factors = w.data<float>();
  float* to = y.data<float>();
  each_stream_row(device, x.shape(0), width, [&](int64_t row) {
    for (int64_t i = 0; i < width; i += each)
      device.kernels().rms_norm(from + row * width + i, factors + i, eps, to + row * width + i, 1, each);
  });
  return y;
}

Tensor mix_streams(const Tensor& x, const Tensor& gates, int streams) {
  CpuDevice& device = cpu_device(x);
  const int64_t width = x.shape(1), each = width / streams;
  Tensor y = device.make({x.shape(0), static_cast<int>(each)});
  const float *from = x.data<float>(), *by = gates.data<float>();
  float* to = y.data<float>();
  each_stream_row(device, x.shape(0), width, [&](int64_t row) {
    device.kernels().mix_streams(from + row * width, by + row * width, to + row * each, streams, each);
  });
  return y;
}

Tensor add_to_streams(const Tensor& x, const Tensor& y, const Tensor& weights) {
  CpuDevice& device = cpu_device(x);
  Tensor out = device.make(x.shape());
  const int64_t streams = weights.shape(1), width = x.shape(1), each = width / streams;
  const float *from = x.data<float>(), *added = y.data<float>(), *by = weights.data<float>();
  float* to = out.data<float>();
  each_stream_row(device, x.shape(0), width, [&](int64_t row) {
    device.kernels().add_to_streams(from + row * width, added + row * each, by + row * streams,
                                    to + row * width, streams, each);
  });
  return out;
}

Tensor gate_streams(const Tensor& keys, const Tensor& queries, const Tensor& values, int streams) {
  CpuDevice& device = cpu_device(keys);
  Tensor out = device.make(keys.shape());
  const int64_t width = keys.shape(1), each = width / streams;
  const float *k = keys.data<float>(), *q = queries.data<float>(), *v = values.data<float>();
  float* to = out.data<float>();
  each_stream_row(device, keys.shape(0), width, [&](int64_t row) {
    device.kernels().gate_streams(k + row * width, q + row * width, v + row * each, to + row * width, streams,
                                  each);
  });
  return out;
}

}  // namespace anabranch::ops::cpu
