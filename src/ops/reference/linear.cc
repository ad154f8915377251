#include "ops/linear.h"

#include <mlx/ops.h>

#include "base/thread_pool.h"
#include "ops/reference/reference.h"
#include "ops/reference/weight.h"

namespace anabranch::ops::reference {
namespace {

constexpr int64_t kRowsAtOnce = 16;

// MLX's quantised kernels know these; any other matrix is kept dense.
bool mlx_can_hold(const WeightSource& s) {
  return s.kind == WeightKind::affine && (s.group == 32 || s.group == 64 || s.group == 128);
}

// One group of rows of an affine source.
struct AffineRows {
  std::vector<uint8_t> codes;
  std::vector<float> scales, biases;
};
AffineRows read_rows(const WeightSource& s, int64_t first, int64_t count) {
  AffineRows r;
  const size_t groups = static_cast<size_t>(count * (s.cols / s.group));
  r.codes.resize(static_cast<size_t>(count * s.cols));
  r.scales.resize(groups);
  r.biases.resize(groups);
  s.read_affine(first, count, r.codes.data(), r.scales.data(), r.biases.data());
  if (s.symmetric) {
    for (size_t i = 0; i < groups; i++) r.biases[i] = static_cast<float>(-s.zero_point) * r.scales[i];
  }
  return r;
}

// Codes of `bits` bits as one bit stream, least significant bits first.
void pack_bits(const uint8_t* codes, int64_t count, int bits, uint32_t* out) {
  uint64_t pending = 0;
  int held = 0;
  for (int64_t i = 0; i < count; i++) {
    pending |= static_cast<uint64_t>(codes[i]) << held;
    held += bits;
    if (held < 32) continue;
    *out++ = static_cast<uint32_t>(pending);
    pending >>= 32;
    held -= 32;
  }
}

std::shared_ptr<Storage> make_quantised(const WeightSource& s) {
  const int rows = static_cast<int>(s.rows), groups = static_cast<int>(s.cols / s.group);
  const int64_t words = s.cols * s.bits / 32;
  auto storage = std::make_shared<Storage>(empty({rows, static_cast<int>(words)}, mx::uint32));
  storage->scales = empty({rows, groups}, mx::float32);
  storage->biases = empty({rows, groups}, mx::float32);
  uint32_t* packed = storage->values.data<uint32_t>();
  float *scales = storage->scales->data<float>(), *biases = storage->biases->data<float>();
  parallel_for(s.rows, kRowsAtOnce, [&](int64_t begin, int64_t end) {
    const AffineRows r = read_rows(s, begin, end - begin);
    for (int64_t i = begin; i < end; i++)
      pack_bits(r.codes.data() + (i - begin) * s.cols, s.cols, s.bits, packed + i * words);
    std::copy(r.scales.begin(), r.scales.end(), scales + begin * groups);
    std::copy(r.biases.begin(), r.biases.end(), biases + begin * groups);
  });
  return storage;
}

std::shared_ptr<Storage> make_dense(const WeightSource& s) {
  auto storage =
      std::make_shared<Storage>(empty({static_cast<int>(s.rows), static_cast<int>(s.cols)}, mx::float32));
  float* values = storage->values.data<float>();
  parallel_for(s.rows, kRowsAtOnce, [&](int64_t begin, int64_t end) {
    float* to = values + begin * s.cols;
    if (s.kind != WeightKind::affine) return s.read_dense(begin, end - begin, to);
    const AffineRows r = read_rows(s, begin, end - begin);
    for (int64_t i = 0; i < (end - begin) * s.cols; i++)
      to[i] = r.scales[i / s.group] * static_cast<float>(r.codes[i]) + r.biases[i / s.group];
  });
  return storage;
}

}  // namespace

std::shared_ptr<const Weight::Storage> make_storage(const WeightSource& source) {
  return mlx_can_hold(source) ? make_quantised(source) : make_dense(source);
}

std::vector<mx::array> linear(const mx::array& x, std::span<const Weight* const> weights) {
  std::vector<mx::array> results;
  results.reserve(weights.size());
  for (const Weight* w : weights) {
    const auto& s = static_cast<const Storage&>(w->storage());
    if (s.scales)
      results.push_back(
          mx::quantized_matmul(x, s.values, *s.scales, s.biases, /*transpose=*/true, w->group(), w->bits()));
    else
      results.push_back(mx::matmul(x, mx::transpose(s.values)));
  }
  return results;
}

mx::array embed(std::span<const int> ids, const Weight& table) {
  const auto& s = static_cast<const Storage&>(table.storage());
  const mx::array at(ids.data(), {static_cast<int>(ids.size())}, mx::int32);
  const mx::array values = mx::take(s.values, at, 0);
  if (!s.scales) return values;
  return mx::dequantize(values, mx::take(*s.scales, at, 0), mx::take(*s.biases, at, 0), table.group(),
                        table.bits());
}

}  // namespace anabranch::ops::reference
