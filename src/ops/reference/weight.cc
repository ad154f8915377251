#include "ops/reference/weight.h"

#include <algorithm>
#include <vector>

#include "ops/reference/device.h"

namespace anabranch::ops::reference {
namespace {

// MLX's packing: the codes of a row are one stream of bits, least significant first.
void pack_row(const uint8_t* codes, int64_t count, int bits, uint8_t* out) {
  uint64_t window = 0;
  int held = 0;
  for (int64_t k = 0; k < count; k++) {
    window |= static_cast<uint64_t>(codes[k]) << held;
    for (held += bits; held >= 8; held -= 8, window >>= 8) *out++ = static_cast<uint8_t>(window);
  }
}

// Rows of a coded source, with a bias for each scale.
struct Coded {
  std::vector<uint8_t> codes;
  std::vector<float> scales, biases;
};

void read_rows(const WeightSource& s, int64_t first, int64_t count, Coded& rows) {
  const int64_t groups = s.cols / s.group;
  rows.codes.resize(static_cast<size_t>(count * s.cols));
  rows.scales.resize(static_cast<size_t>(count * groups));
  rows.biases.resize(static_cast<size_t>(count * groups));
  s.read_codes(first, count, rows.codes.data(), rows.scales.data(), rows.biases.data());
  if (!s.symmetric) return;
  for (size_t i = 0; i < rows.scales.size(); i++)
    rows.biases[i] = -static_cast<float>(s.zero_point) * rows.scales[i];
}

constexpr int64_t kRows = 16;

}  // namespace

std::shared_ptr<const Weight::Storage> make_weight(Device& device, const WeightSource& s) {
  auto w = std::make_shared<ReferenceWeight>();
  const int rows = static_cast<int>(s.rows), cols = static_cast<int>(s.cols);
  const int64_t blocks = (s.rows + kRows - 1) / kRows;
  const auto over_rows = [&](const auto& body) {
    device.threads().parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; b++) body(b * kRows, std::min(kRows, s.rows - b * kRows));
    });
  };
  if (s.kind == WeightKind::affine && s.group >= 32) {
    w->bits = s.bits;
    w->group = s.group;
    const int64_t groups = s.cols / s.group, row_bytes = s.cols * s.bits / 8;
    w->codes = make_array({rows, static_cast<int>(row_bytes / 4)}, mx::uint32);
    w->scales = make_array({rows, static_cast<int>(groups)}, mx::float32);
    w->biases = make_array({rows, static_cast<int>(groups)}, mx::float32);
    uint8_t* codes = w->codes->data<uint8_t>();
    float *scales = w->scales->data<float>(), *biases = w->biases->data<float>();
    over_rows([&](int64_t first, int64_t count) {
      Coded part;
      read_rows(s, first, count, part);
      for (int64_t r = 0; r < count; r++)
        pack_row(part.codes.data() + r * s.cols, s.cols, s.bits, codes + (first + r) * row_bytes);
      std::copy(part.scales.begin(), part.scales.end(), scales + first * groups);
      std::copy(part.biases.begin(), part.biases.end(), biases + first * groups);
    });
    w->bytes = w->codes->nbytes() + w->scales->nbytes() + w->biases->nbytes();
    return w;
  }
  w->values = make_array({rows, cols}, mx::float32);
  w->bytes = w->values->nbytes();
  float* values = w->values->data<float>();
  const std::array<float, 256> value_of = code_values(s);
  over_rows([&](int64_t first, int64_t count) {
    float* to = values + first * s.cols;
    if (!is_coded(s.kind)) return s.read_dense(first, count, to);
    Coded part;
    read_rows(s, first, count, part);
    for (int64_t i = 0; i < count * s.cols; i++)
      to[i] = part.scales[i / s.group] * value_of[part.codes[i]] + part.biases[i / s.group];
  });
  return w;
}

}  // namespace anabranch::ops::reference
