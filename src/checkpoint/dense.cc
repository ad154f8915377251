#include "checkpoint/dense.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/float16.h"

namespace anabranch {

int64_t dense_size(WeightKind kind) {
  return kind == WeightKind::f32 ? 4 : 2;
}

void dense_to_float(WeightKind kind, const std::byte* data, int64_t count, float* out) {
  if (count == 0) return;
  if (kind == WeightKind::f32) {
    std::memcpy(out, data, static_cast<size_t>(count) * 4);
    return;
  }
  CHECK(kind == WeightKind::f16 || kind == WeightKind::bf16);
  for (int64_t i = 0; i < count; i++) {
    uint16_t bits;
    std::memcpy(&bits, data + i * 2, 2);
    out[i] = kind == WeightKind::f16 ? f16_to_float(bits) : bf16_to_float(bits);
  }
}

bool float_to_dense(WeightKind kind, const float* values, int64_t count, std::byte* out) {
  CHECK(!is_coded(kind));
  bool fits = true;
  for (int64_t i = 0; i < count; i++) {
    if (kind == WeightKind::f32) {
      std::memcpy(out + i * 4, values + i, 4);
      continue;
    }
    const uint16_t bits = kind == WeightKind::f16 ? float_to_f16(values[i]) : float_to_bf16(values[i]);
    const float back = kind == WeightKind::f16 ? f16_to_float(bits) : bf16_to_float(bits);
    fits &= std::isfinite(back) || !std::isfinite(values[i]);
    std::memcpy(out + i * 2, &bits, 2);
  }
  return fits;
}

WeightSource dense_source(WeightKind kind, const std::byte* data, int64_t rows, int64_t cols,
                          std::shared_ptr<const void> keep) {
  WeightSource source;
  source.rows = rows;
  source.cols = cols;
  source.kind = kind;
  source.read_dense = [kind, data, cols, keep = std::move(keep)](int64_t first, int64_t count,
                                                                 float* values) {
    dense_to_float(kind, data + first * cols * dense_size(kind), count * cols, values);
  };
  return source;
}

WeightSource transposed_source(WeightKind kind, const std::byte* data, int64_t count, int64_t rows,
                               int64_t cols, std::shared_ptr<const void> keep) {
  WeightSource source;
  source.rows = count * cols;
  source.cols = rows;
  source.kind = kind;
  source.read_dense = [kind, data, rows, cols, keep = std::move(keep)](int64_t first, int64_t wanted,
                                                                       float* values) {
    std::vector<float> part;
    for (int64_t done = 0; done < wanted;) {  // columns of one tensor at a time
      const int64_t tensor = (first + done) / cols, column = (first + done) % cols;
      const int64_t n = std::min(wanted - done, cols - column);
      part.resize(static_cast<size_t>(n));
      for (int64_t r = 0; r < rows; r++) {
        const int64_t at = (tensor * rows + r) * cols + column;
        dense_to_float(kind, data + at * dense_size(kind), n, part.data());
        for (int64_t i = 0; i < n; i++) values[(done + i) * rows + r] = part[static_cast<size_t>(i)];
      }
      done += n;
    }
  };
  return source;
}

}  // namespace anabranch
