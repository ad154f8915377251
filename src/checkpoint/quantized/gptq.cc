// GPTQ: codes of a matrix [in, out] in words along the inputs, qweight [in * bits / 32, out]; zero points
// along the outputs, qzeros [groups, out * bits / 32], in the first version of the format less one; scales
// [groups, out]; g_idx [in] (desc_act). AutoRound writes the same.
#include <algorithm>

#include "checkpoint/affine.h"
#include "checkpoint/dense.h"
#include "checkpoint/quantized/bit_stream.h"
#include "checkpoint/quantized/grouped.h"
#include "checkpoint/quantized/int_codes.h"
#include "checkpoint/quantized/layouts.h"

namespace anabranch {

namespace {

constexpr std::string_view kParts[] = {".qzeros", ".scales", ".g_idx"};

bool two_dimensions(const SafetensorsTensor* t) {
  return t && t->shape.size() == 2 && t->shape[0] > 0 && t->shape[1] > 0;
}

bool matches(const QuantizedModule& m) {
  const auto* scales = m.find(".scales");
  return m.main().dtype == "I32" && two_dimensions(&m.main()) && two_dimensions(scales) &&
         m.main().shape[1] == scales->shape[1];
}

struct Sizes {
  int64_t rows, cols, groups;
  int bits;
};

// Finds the width of the codes from the zero points.
Result<Sizes> find_sizes(const QuantizedModule& m, const QuantizationContext& context) {
  const auto& w = m.main().shape;
  const auto* scales = m.find(".scales");
  TRY(const auto* zeros, m.need(".qzeros"));
  const int64_t rows = w[1], groups = scales->shape[0];
  const auto inputs = [&](int bits) { return w[0] * 32 / bits; };
  const int bits = find_width({2, 3, 4, 8}, context, [&](int width) {
    return two_dimensions(zeros) && zeros->dtype == "I32" && zeros->shape[0] == groups &&
           zeros->shape[1] == word_count(rows, width) && word_count(inputs(width), width) == w[0] &&
           inputs(width) <= INT32_MAX;
  });
  if (bits == 0)
    return m.invalid("qweight {}, qzeros {} of {} and scales {} do not go together", shape_text(w),
                     shape_text(zeros->shape), zeros->dtype, shape_text(scales->shape));
  return Sizes{rows, inputs(bits), groups, bits};
}

// Codes of `count` outputs. Neighbouring outputs lie side by side in the file, so reads the file's lines for
// all of them, and puts the words of each output one after another.
void read_gptq_codes(const std::byte* words, const Sizes& s, int64_t first, int64_t count, uint8_t* out) {
  const int64_t lines = word_count(s.cols, s.bits), whole = s.cols / 8 * 8;
  std::vector<uint32_t> own(static_cast<size_t>(count * lines));
  for (int64_t line = 0; line < lines; line++)
    for (int64_t i = 0; i < count; i++) own[i * lines + line] = word_at(words, line * s.rows + first + i);
  for (int64_t i = 0; i < count; i++) {
    const auto* row = reinterpret_cast<const std::byte*>(own.data() + i * lines);
    unpack_codes(s.bits, row, whole, out + i * s.cols);
    for (int64_t c = whole; c < s.cols; c++) out[i * s.cols + c] = code_at(row, 1, s.bits, c);
  }
}

// Values [groups, rows] of a file, transposed: [count, groups].
void read_scale_rows(WeightKind kind, const std::byte* data, int64_t rows, int64_t groups, int64_t first,
                     int64_t count, float* out) {
  std::vector<float> line(static_cast<size_t>(count));
  for (int64_t g = 0; g < groups; g++) {
    dense_to_float(kind, data + (g * rows + first) * dense_size(kind), count, line.data());
    for (int64_t i = 0; i < count; i++) out[i * groups + g] = line[i];
  }
}

Result<QuantizedMatrix> read(const QuantizedModule& m, const QuantizationContext& context,
                             std::shared_ptr<const void> keep) {
  TRY(const Sizes sizes, find_sizes(m, context));
  const auto* scales = m.find(".scales");
  const auto scale_kind = dense_kind(scales->dtype);
  if (!scale_kind) return m.invalid("scales of type {}", scales->dtype);
  IntCodes codes;
  codes.rows = sizes.rows;
  codes.cols = sizes.cols;
  codes.bits = sizes.bits;
  codes.groups = sizes.groups;
  codes.group = group_length(sizes.cols, sizes.groups, context.config ? context.config->group : 0);
  if (codes.group == 0) return m.invalid("{} groups do not divide {} inputs", sizes.groups, sizes.cols);
  if (const auto* index = m.find(".g_idx")) {
    TRY(codes.group_of, read_group_index(m, *index, sizes.cols, codes.group, sizes.groups));
  }
  codes.scale_kind = *scale_kind;
  codes.headers_only = m.headers_only();
  codes.read_codes = [words = m.main().data.data(), sizes, keep](int64_t first, int64_t count, uint8_t* out) {
    read_gptq_codes(words, sizes, first, count, out);
  };
  codes.read_scales = [data = scales->data.data(), kind = *scale_kind, sizes, keep](
                          int64_t first, int64_t count, float* out) {
    read_scale_rows(kind, data, sizes.rows, sizes.groups, first, count, out);
  };
  const int plus = !context.config || context.config->zeros_minus_one ? 1 : 0;
  codes.read_zeros = [words = m.find(".qzeros")->data.data(), sizes, plus, keep](int64_t first, int64_t count,
                                                                                 uint8_t* out) {
    const int64_t line = word_count(sizes.rows, sizes.bits) * 4;
    const int mask = (1 << sizes.bits) - 1;
    for (int64_t i = 0; i < count; i++)
      for (int64_t g = 0; g < sizes.groups; g++)
        out[i * sizes.groups + g] =
            static_cast<uint8_t>((code_at(words + g * line, 1, sizes.bits, first + i) + plus) & mask);
  };
  return QuantizedMatrix{sizes.groups == 1 ? fmt::format("gptq-{}/channel", sizes.bits)
                                           : fmt::format("gptq-{}/{}", sizes.bits, codes.group),
                         {sizes.rows, sizes.cols},
                         int_source(std::move(codes))};
}

// ---- AWQ ("gemm"): a matrix [in, out] in words along the outputs, in a special order; zero points in the
// same way.

constexpr int kAwqBits = 4, kAwqPack = 8;
// The position of the code of output 8 i + j in its word, in nibbles.
constexpr int kAwqPlace[kAwqPack] = {0, 4, 1, 5, 2, 6, 3, 7};

bool matches_awq(const QuantizedModule& m) {
  const auto* scales = m.find(".scales");
  return m.main().dtype == "I32" && two_dimensions(&m.main()) && two_dimensions(scales) &&
         m.main().shape[1] * kAwqPack == scales->shape[1];
}

uint8_t awq_code(const std::byte* line, int64_t output) {
  return (word_at(line, output / kAwqPack) >> (kAwqBits * kAwqPlace[output % kAwqPack])) & 15;
}

// Codes of `count` outputs. Works in tiles of inputs, because one input's codes are adjacent in the file and
// far apart in `out`.
void read_awq_codes(const std::byte* words, int64_t cols, int64_t line, int64_t first, int64_t count,
                    uint8_t* out) {
  constexpr int64_t kTile = 64;
  std::vector<uint8_t> tile(static_cast<size_t>(count * kTile));
  for (int64_t from = 0; from < cols; from += kTile) {
    const int64_t width = std::min(kTile, cols - from);
    for (int64_t c = 0; c < width; c++)
      for (int64_t i = 0; i < count;) {
        uint32_t word = word_at(words + (from + c) * line, (first + i) / kAwqPack);
        for (int64_t j = (first + i) % kAwqPack; j < kAwqPack && i < count; j++, i++)
          tile[i * kTile + c] = word >> (kAwqBits * kAwqPlace[j]) & 15;
      }
    for (int64_t i = 0; i < count; i++) std::copy_n(tile.data() + i * kTile, width, out + i * cols + from);
  }
}

Result<QuantizedMatrix> read_awq(const QuantizedModule& m, const QuantizationContext& context,
                                 std::shared_ptr<const void> keep) {
  const auto* scales = m.find(".scales");
  const int64_t rows = scales->shape[1], groups = scales->shape[0], cols = m.main().shape[0];
  const auto scale_kind = dense_kind(scales->dtype);
  if (!scale_kind) return m.invalid("scales of type {}", scales->dtype);
  const auto* zeros = m.find(".qzeros");
  if (zeros && (zeros->dtype != "I32" || zeros->shape != std::vector<int64_t>{groups, rows / kAwqPack}))
    return m.invalid("qweight {}, qzeros {} of {} and scales {} do not go together",
                     shape_text(m.main().shape), shape_text(zeros->shape), zeros->dtype,
                     shape_text(scales->shape));
  IntCodes codes;
  codes.rows = rows;
  codes.cols = cols;
  codes.bits = kAwqBits;
  codes.groups = groups;
  codes.group = group_length(cols, groups, context.config ? context.config->group : 0);
  if (codes.group == 0) return m.invalid("{} groups do not divide {} inputs", groups, cols);
  codes.scale_kind = *scale_kind;
  codes.headers_only = m.headers_only();
  codes.zero = 8;
  const int64_t line = rows / kAwqPack * 4;
  codes.read_codes = [words = m.main().data.data(), cols, line, keep](int64_t first, int64_t count,
                                                                      uint8_t* out) {
    read_awq_codes(words, cols, line, first, count, out);
  };
  codes.read_scales = [data = scales->data.data(), kind = *scale_kind, rows, groups, keep](
                          int64_t first, int64_t count, float* out) {
    read_scale_rows(kind, data, rows, groups, first, count, out);
  };
  if (zeros)
    codes.read_zeros = [words = zeros->data.data(), groups, line, keep](int64_t first, int64_t count,
                                                                        uint8_t* out) {
      for (int64_t i = 0; i < count; i++)
        for (int64_t g = 0; g < groups; g++) out[i * groups + g] = awq_code(words + g * line, first + i);
    };
  return QuantizedMatrix{groups == 1 ? std::string("awq-4/channel") : fmt::format("awq-4/{}", codes.group),
                         {rows, cols},
                         int_source(std::move(codes))};
}

}  // namespace

const QuantizedLayout kGptqLayout{".qweight", kParts, matches, read};
const QuantizedLayout kAwqLayout{".qweight", kParts, matches_awq, read_awq};

}  // namespace anabranch
