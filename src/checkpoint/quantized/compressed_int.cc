// Integers of compressed-tensors. "pack-quantized": weight_packed [rows, cols * bits / 32] of I32, codes plus
// 2^(bits - 1) as a stream of bits for each row, or (older files, 3, 5 and 6 bits) whole codes in each word;
// weight_scale [rows, groups]; weight_zero_point, packed alike along the rows (older files: I8);
// weight_shape; weight_g_idx. "int-quantized": weight of I8.
#include <algorithm>
#include <cstring>

#include "checkpoint/affine.h"
#include "checkpoint/dense.h"
#include "checkpoint/quantized/bit_stream.h"
#include "checkpoint/quantized/grouped.h"
#include "checkpoint/quantized/int_codes.h"
#include "checkpoint/quantized/layouts.h"
#include "checkpoint/store.h"

namespace anabranch {

namespace {

constexpr std::string_view kPackedParts[] = {".weight_scale", ".weight_zero_point", ".weight_shape",
                                             ".weight_g_idx"};
constexpr std::string_view kInt8Parts[] = {".weight_scale", ".weight_zero_point", ".weight_g_idx"};

bool matches_packed(const QuantizedModule& m) {
  return m.main().dtype == "I32" && m.find(".weight_scale");
}
bool matches_int8(const QuantizedModule& m) {
  return m.main().dtype == "I8" && m.find(".weight_scale");
}

// Scales of a matrix [experts * rows, cols]: one for the matrix (of an expert), for each row, or for each
// group of a row.
struct IntScales {
  WeightKind kind;
  int64_t rows, groups;  // of an expert
  int64_t experts;       // 1: all share them
};

Result<IntScales> find_scales(const QuantizedModule& m, const std::vector<int64_t>& shape) {
  TRY(const auto* scale, m.need(".weight_scale"));
  const auto kind = dense_kind(scale->dtype);
  const int64_t rows = shape[shape.size() - 2];
  const auto found = scale_shape(shape, *scale);
  std::vector<int64_t> own = found ? found->one : shape;
  while (own.size() < 2) own.push_back(1);
  if (!kind || !found || own.size() != 2 || (own[0] != 1 && own[0] != rows) || own[1] < 1 ||
      own[1] > shape.back())
    return m.invalid("shape {} and scales {} of type {} do not go together", shape_text(shape),
                     shape_text(scale->shape), scale->dtype);
  return IntScales{*kind, own[0], own[1], found->shared || shape.size() == 2 ? 1 : shape[0]};
}

// How codes lie in words.
struct Packing {
  int bits = 8;
  bool whole = false;  // no code crosses a word boundary
  int64_t words(int64_t count) const {
    return whole ? whole_word_count(count, bits) : word_count(count, bits);
  }
  uint8_t at(const std::byte* data, int64_t stride, int64_t i) const {
    return whole ? whole_code_at(data, stride, bits, i) : code_at(data, stride, bits, i);
  }
};

Packing find_packing(const QuantizationContext& context, int64_t cols, int64_t words) {
  const int stream =
      find_width({2, 3, 4, 5, 6, 8}, context, [&](int bits) { return word_count(cols, bits) == words; });
  if (stream != 0) return {stream, false};
  return {find_width({3, 5, 6}, context, [&](int bits) { return whole_word_count(cols, bits) == words; }),
          true};
}

// Zero points [experts, rows, groups] as I8, or packed along the rows into I32.
Result<void> find_zeros(const QuantizedModule& m, const IntScales& s, int64_t rows, Packing packing,
                        IntCodes& codes, std::shared_ptr<const void> keep) {
  const int offset = 1 << (codes.bits - 1);
  codes.zero = offset;
  const auto* zeros = m.find(".weight_zero_point");
  if (!zeros) return {};
  const int64_t bytes = static_cast<int64_t>(zeros->data.size()), groups = s.groups, own = s.rows;
  const auto row_of = [=, experts = s.experts](int64_t row) {
    return std::pair{experts == 1 ? int64_t{0} : row / rows, own == 1 ? int64_t{0} : row % rows};
  };
  const auto* data = zeros->data.data();
  if (zeros->dtype == "I8" && bytes == s.experts * own * groups) {
    codes.read_zeros = [=](int64_t first, int64_t count, uint8_t* out) {
      for (int64_t i = 0; i < count; i++) {
        const auto [expert, row] = row_of(first + i);
        for (int64_t g = 0; g < groups; g++)
          out[i * groups + g] =
              static_cast<uint8_t>(static_cast<int8_t>(data[(expert * own + row) * groups + g]) + offset);
      }
      (void)keep;
    };
    return {};
  }
  const int64_t words = packing.words(own);
  if (zeros->dtype == "I32" && bytes == s.experts * words * groups * 4) {
    codes.read_zeros = [=](int64_t first, int64_t count, uint8_t* out) {
      for (int64_t i = 0; i < count; i++) {
        const auto [expert, row] = row_of(first + i);
        for (int64_t g = 0; g < groups; g++)
          out[i * groups + g] = packing.at(data + (expert * words * groups + g) * 4, groups, row);
      }
      (void)keep;
    };
    return {};
  }
  return m.invalid("\"{}\" has type {} and shape {}, which does not fit the scales", shown(zeros->name),
                   zeros->dtype, shape_text(zeros->shape));
}

// Makes the matrix, with everything except the reader of codes, which `codes` has already.
Result<QuantizedMatrix> read_codes(const QuantizedModule& m, const QuantizationContext& context,
                                   std::vector<int64_t> shape, Packing packing, IntCodes codes,
                                   std::shared_ptr<const void> keep) {
  const auto [all_rows, cols] = rows_and_cols(shape);
  const int64_t rows = shape[shape.size() - 2];
  TRY(const IntScales s, find_scales(m, shape));
  codes.bits = packing.bits;
  codes.rows = all_rows;
  codes.cols = cols;
  codes.groups = s.groups;
  codes.group = group_length(cols, s.groups, context.config ? context.config->group : 0);
  if (codes.group == 0) return m.invalid("{} groups do not divide {} inputs", s.groups, cols);
  if (const auto* index = m.find(".weight_g_idx")) {
    TRY(codes.group_of, read_group_index(m, *index, cols, codes.group, s.groups));
  }
  codes.scale_kind = s.kind;
  codes.headers_only = m.headers_only();
  codes.read_scales = [s, rows, data = m.find(".weight_scale")->data.data(), keep](
                          int64_t first, int64_t count, float* out) {
    for (int64_t i = 0; i < count; i++) {
      const int64_t expert = s.experts == 1 ? 0 : (first + i) / rows,
                    row = s.rows == 1 ? 0 : (first + i) % rows;
      dense_to_float(s.kind, data + (expert * s.rows + row) * s.groups * dense_size(s.kind), s.groups,
                     out + i * s.groups);
    }
  };
  TRY_VOID(find_zeros(m, s, rows, packing, codes, keep));
  const std::string group = s.groups > 1 ? std::to_string(codes.group) : s.rows == 1 ? "tensor" : "channel";
  QuantizedMatrix out{fmt::format("int-{}/{}", codes.bits, group), std::move(shape), {}};
  out.source = int_source(std::move(codes));
  return out;
}

// The shape before packing, from the values of weight_shape. They are zeros if only the header of a file
// exists; the shape is then computed from the packed words.
Result<std::vector<int64_t>> unpacked_shape(const QuantizedModule& m, const QuantizationContext& context) {
  TRY(const auto* tensor, m.need(".weight_shape"));
  const auto& packed = m.main().shape;
  std::vector<int64_t> out;
  const size_t size = tensor->dtype == "I64" ? 8 : tensor->dtype == "I32" ? 4 : 0;
  for (size_t i = 0; size > 0 && i + size <= tensor->data.size(); i += size) {
    int64_t n = 0;
    std::memcpy(&n, tensor->data.data() + i, size);
    out.push_back(n);
  }
  if (m.headers_only() && !packed.empty() && std::ranges::count(out, 0) == std::ssize(packed)) {
    out = packed;
    out.back() = packed.back() * 32 / (context.config && context.config->bits > 0 ? context.config->bits : 4);
  }
  const bool fits = (out.size() == 2 || out.size() == 3) && out.size() == packed.size() &&
                    std::equal(out.begin(), out.end() - 1, packed.begin()) && out.back() > 0 &&
                    out.back() <= INT32_MAX && rows_and_cols(out).first > 0;
  if (!fits)
    return m.invalid("its shape {} does not fit what \"{}\" says", shape_text(packed), shown(tensor->name));
  return out;
}

Result<QuantizedMatrix> read_packed(const QuantizedModule& m, const QuantizationContext& context,
                                    std::shared_ptr<const void> keep) {
  TRY(auto shape, unpacked_shape(m, context));
  const int64_t cols = shape.back(), words = m.main().shape.back();
  const Packing packing = find_packing(context, cols, words);
  if (packing.bits == 0)
    return m.invalid("{} words for {} inputs are of no width that is read (2, 3, 4, 5, 6 and 8 bits)", words,
                     cols);
  IntCodes codes;
  codes.read_codes = [data = m.main().data.data(), cols, words, packing, keep](int64_t first, int64_t count,
                                                                               uint8_t* out) {
    for (int64_t r = 0; r < count; r++) {
      const std::byte* line = data + (first + r) * words * 4;
      const int64_t fast = packing.whole ? 0 : cols / 8 * 8;
      unpack_codes(packing.bits, line, fast, out + r * cols);
      for (int64_t c = fast; c < cols; c++) out[r * cols + c] = packing.at(line, 1, c);
    }
  };
  return read_codes(m, context, std::move(shape), packing, std::move(codes), std::move(keep));
}

Result<QuantizedMatrix> read_int8(const QuantizedModule& m, const QuantizationContext& context,
                                  std::shared_ptr<const void> keep) {
  TRY(const MatrixSizes sizes, matrix_sizes(m));
  IntCodes codes;
  codes.read_codes = [data = m.main().data.data(), cols = sizes.cols, keep](int64_t first, int64_t count,
                                                                            uint8_t* out) {
    for (int64_t i = 0; i < count * cols; i++) out[i] = static_cast<uint8_t>(data[first * cols + i]) ^ 0x80;
  };
  return read_codes(m, context, m.main().shape, Packing(), std::move(codes), std::move(keep));
}

}  // namespace

const QuantizedLayout kPackedIntLayout{".weight_packed", kPackedParts, matches_packed, read_packed};
const QuantizedLayout kInt8Layout{".weight", kInt8Parts, matches_int8, read_int8};

}  // namespace anabranch
