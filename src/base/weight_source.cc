#include "base/weight_source.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/float8.h"

namespace anabranch {

std::array<float, 256> code_values(const WeightSource& source) {
  std::array<float, 256> values{};
  for (int code = 0; code < 1 << source.bits; code++)
    values[static_cast<size_t>(code)] =
        source.kind == WeightKind::table ? static_cast<float>(source.table[code])
        : source.kind == WeightKind::fp8 ? e4m3_to_float(static_cast<uint8_t>(code))
                                         : static_cast<float>(code);
  return values;
}

void read_values(const WeightSource& source, int64_t first_row, int64_t count, float* values) {
  if (!is_coded(source.kind)) {
    source.read_dense(first_row, count, values);
    return;
  }
  const int64_t cols = source.cols, group = source.group, groups = cols / group;
  const std::array<float, 256> value_of = code_values(source);
  std::vector<uint8_t> codes(cols);
  std::vector<float> scales(groups), biases(groups);
  for (int64_t r = 0; r < count; r++) {
    source.read_codes(first_row + r, 1, codes.data(), scales.data(), biases.data());
    float* out = values + r * cols;
    for (int64_t g = 0; g < groups; g++) {
      const float scale = scales[g];
      const float bias = !source.symmetric        ? biases[g]
                         : source.zero_point == 0 ? -0.0f  // changes nothing
                                                  : -static_cast<float>(source.zero_point) * scale;
      for (int64_t i = g * group; i < (g + 1) * group; i++) out[i] = value_of[codes[i]] * scale + bias;
    }
  }
}

WeightSource decoded(WeightSource source) {
  WeightSource out;
  out.rows = source.rows;
  out.cols = source.cols;
  out.name = source.name;
  out.read_dense = [source = std::move(source)](int64_t first, int64_t count, float* values) {
    read_values(source, first, count, values);
  };
  return out;
}

WeightSource select_rows(WeightSource source, std::vector<int64_t> rows) {
  for (int64_t row : rows) CHECK(row >= 0 && row < source.rows, "row {} of {}", row, source.rows);
  WeightSource out = source;
  out.rows = static_cast<int64_t>(rows.size());
  // Reads consecutive rows in one call: permutations here move whole heads.
  const auto for_runs = [rows = std::move(rows)](int64_t first, int64_t count, auto&& read) {
    for (int64_t i = 0; i < count;) {
      int64_t n = 1;
      while (i + n < count && rows[first + i + n] == rows[first + i] + n) n++;
      read(rows[first + i], n, i);
      i += n;
    }
  };
  const int64_t cols = source.cols;
  if (source.read_codes) {
    const int64_t groups = cols / source.group;
    out.read_codes = [for_runs, cols, groups, read = source.read_codes](
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

WeightSource select_columns(WeightSource source, int64_t first, int64_t last) {
  CHECK(first >= 0 && first < last && last <= source.cols, "columns {} to {} of {}", first, last,
        source.cols);
  const int64_t cols = source.cols, own = last - first, group = source.group;
  WeightSource out = source;
  out.cols = own;
  out.read_block_scales = nullptr;
  if (is_coded(source.kind)) {
    CHECK(first % group == 0 && own % group == 0, "columns {} to {} in groups of {}", first, last, group);
    out.read_codes = [cols, group, first, own, symmetric = source.symmetric, read = source.read_codes](
                         int64_t row, int64_t count, uint8_t* codes, float* scales, float* biases) {
      const int64_t groups = cols / group, own_groups = own / group;
      std::vector<uint8_t> all_codes(static_cast<size_t>(count * cols));
      std::vector<float> all_scales(static_cast<size_t>(count * groups)), all_biases(all_scales.size());
      read(row, count, all_codes.data(), all_scales.data(), all_biases.data());
      for (int64_t i = 0; i < count; i++) {
        const int64_t from = i * groups + first / group;
        std::copy_n(all_codes.data() + i * cols + first, own, codes + i * own);
        std::copy_n(all_scales.data() + from, own_groups, scales + i * own_groups);
        if (!symmetric) std::copy_n(all_biases.data() + from, own_groups, biases + i * own_groups);
      }
    };
  } else {
    out.read_dense = [cols, first, own, read = source.read_dense](int64_t row, int64_t count, float* values) {
      std::vector<float> all(static_cast<size_t>(count * cols));
      read(row, count, all.data());
      for (int64_t i = 0; i < count; i++) std::copy_n(all.data() + i * cols + first, own, values + i * own);
    };
  }
  return out;
}

namespace {

// A code and a scale that represent zero. e8m0 has no zero scale, so there the code has to be zero.
struct Zero {
  uint8_t code = 0;
  float scale = 0;
};
Zero zero_of(const WeightSource& source) {
  if (source.scale_type != ScaleType::e8m0) return {};
  if (source.kind == WeightKind::fp8) return {0, source.scale_factor};
  const auto at = std::ranges::find(source.table, 0);
  if (at == source.table.end()) return {};
  return {static_cast<uint8_t>(at - source.table.begin()), source.scale_factor};
}

}  // namespace

WeightSource pad_blocks(WeightSource source, int64_t rows, int64_t padded) {
  CHECK(rows > 0 && padded >= rows && source.rows % rows == 0, "blocks of {} of {} rows", rows, source.rows);
  if (padded == rows) return source;
  WeightSource out = source;
  out.rows = source.rows / rows * padded;
  // Calls read(source row, or -1 for a zero row; index of the row in this call).
  const auto for_rows = [rows, padded](int64_t first, int64_t count, auto&& read) {
    for (int64_t i = 0; i < count; i++) {
      const int64_t block = (first + i) / padded, row = (first + i) % padded;
      read(row < rows ? block * rows + row : -1, i);
    }
  };
  const int64_t cols = source.cols, groups = source.group > 0 ? cols / source.group : 0;
  if (source.read_codes)
    out.read_codes = [for_rows, cols, groups, zero = zero_of(source), symmetric = source.symmetric,
                      read = source.read_codes](int64_t first, int64_t count, uint8_t* codes, float* scales,
                                                float* biases) {
      for_rows(first, count, [&](int64_t row, int64_t i) {
        if (row >= 0) return read(row, 1, codes + i * cols, scales + i * groups, biases + i * groups);
        std::fill_n(codes + i * cols, cols, zero.code);
        std::fill_n(scales + i * groups, groups, zero.scale);
        if (!symmetric) std::fill_n(biases + i * groups, groups, 0.0f);
      });
    };
  if (source.read_block_scales)
    out.read_block_scales = [for_rows, groups, blocks = cols / kScaleBlock, symmetric = source.symmetric,
                             read = source.read_block_scales](int64_t first, int64_t count,
                                                              const BlockScales& to) {
      for_rows(first, count, [&](int64_t row, int64_t i) {
        const BlockScales at{to.d + i * blocks, to.dmin + i * blocks, to.scales + i * groups,
                             to.mins + i * groups};
        if (row >= 0) return read(row, 1, at);
        std::fill_n(at.d, blocks, uint16_t{0});
        std::fill_n(at.scales, groups, int8_t{0});
        if (symmetric) return;
        std::fill_n(at.dmin, blocks, uint16_t{0});
        std::fill_n(at.mins, groups, uint8_t{0});
      });
    };
  if (source.read_dense)
    out.read_dense = [for_rows, cols, read = source.read_dense](int64_t first, int64_t count, float* values) {
      for_rows(first, count, [&](int64_t row, int64_t i) {
        if (row >= 0) return read(row, 1, values + i * cols);
        std::fill_n(values + i * cols, cols, 0.0f);
      });
    };
  return out;
}

}  // namespace anabranch
