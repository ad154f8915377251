#include "base/weight_source.h"

#include <utility>

#include "base/check.h"

namespace anabranch {

WeightSource select_rows(WeightSource source, std::vector<int64_t> rows) {
  for (int64_t row : rows) CHECK(row >= 0 && row < source.rows, "row {} of {}", row, source.rows);
  WeightSource out = source;
  out.rows = static_cast<int64_t>(rows.size());
  // Consecutive rows are read in one call: permutations here move whole heads.
  const auto for_runs = [rows = std::move(rows)](int64_t first, int64_t count, auto&& read) {
    for (int64_t i = 0; i < count;) {
      int64_t n = 1;
      while (i + n < count && rows[first + i + n] == rows[first + i] + n) n++;
      read(rows[first + i], n, i);
      i += n;
    }
  };
  const int64_t cols = source.cols;
  if (source.read_affine) {
    const int64_t groups = cols / source.group;
    out.read_affine = [for_runs, cols, groups, read = source.read_affine](
                          int64_t first, int64_t count, uint8_t* codes, float* scales, float* biases) {
      for_runs(first, count, [&](int64_t row, int64_t n, int64_t at) {
        read(row, n, codes + at * cols, scales + at * groups, biases + at * groups);
      });
    };
  }
  if (source.read_block_scales) {
    const int64_t blocks = cols / kScaleBlock, groups = cols / source.group;
    out.read_block_scales = [for_runs, blocks, groups, read = source.read_block_scales](
                                int64_t first, int64_t count, const BlockScales& to) {
      for_runs(first, count, [&](int64_t row, int64_t n, int64_t at) {
        read(row, n,
             {to.d + at * blocks, to.dmin + at * blocks, to.scales + at * groups, to.mins + at * groups});
      });
    };
  }
  if (source.read_dense) {
    out.read_dense = [for_runs, cols, read = source.read_dense](int64_t first, int64_t count, float* values) {
      for_runs(first, count, [&](int64_t row, int64_t n, int64_t at) { read(row, n, values + at * cols); });
    };
  }
  return out;
}

}  // namespace anabranch
