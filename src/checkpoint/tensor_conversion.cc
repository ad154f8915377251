#include "checkpoint/tensor_conversion.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/thread_pool.h"
#include "checkpoint/affine.h"
#include "checkpoint/dense.h"
#include "checkpoint/file_bytes.h"
#include "checkpoint/fp8_writer.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"

namespace anabranch {

namespace {

constexpr int64_t kBlockElements = 1 << 20;

std::string sibling(const TensorConversion& job, std::string_view suffix) {
  return module_of(job) + std::string(suffix);
}

// Calls write_rows(first, count) for all rows of the job's matrix, block by block.
template <class WriteRows>
Result<void> for_blocks(const WeightSource& m, const Checkpoint& source, const WriteRows& write_rows) {
  const int64_t block = std::max<int64_t>(1, kBlockElements / std::max<int64_t>(1, m.cols));
  for (int64_t first = 0; first < m.rows; first += block) {
    TRY_VOID(write_rows(first, std::min(block, m.rows - first)));
    source.release_pages();
  }
  return {};
}

// Writes `values` from element `first` of the tensor on.
Result<void> write_values(const TensorConversion& job, int shift, int64_t first, std::span<float> values,
                          ShardWriter& writer) {
  if (shift != 0)
    for (float& v : values) v += static_cast<float>(shift);
  const auto kind = stored_kind(job.kind);
  const auto size = static_cast<size_t>(dense_size(kind));
  std::vector<std::byte> bytes(values.size() * size);
  if (!float_to_dense(kind, values.data(), static_cast<int64_t>(values.size()), bytes.data()))
    return conversion_error(job, ErrorKind::invalid,
                            fmt::format("has values that {} cannot hold", dtype_name(kind)));
  return writer.write_part(job.out_name, static_cast<uint64_t>(first) * size, bytes.data(), bytes.size());
}

Result<void> write_dense(const TensorConversion& job, int shift, Checkpoint& source, ShardWriter& writer) {
  if (!job.matrix) {
    TRY(const auto array, source.take(job.info.name, job.info.shape));
    std::vector<float> values(array.data<float>(), array.data<float>() + array.size());
    return write_values(job, shift, 0, values, writer);
  }
  const WeightSource& m = *job.matrix;
  return for_blocks(m, source, [&](int64_t first, int64_t count) {
    std::vector<float> values(static_cast<size_t>(count * m.cols));
    const int64_t grain = std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, m.cols));
    shared_threads().parallel_for(count, grain, [&](int64_t begin, int64_t end) {
      read_values(m, first + begin, end - begin, &values[begin * m.cols]);
    });
    return write_values(job, shift, first * m.cols, values, writer);
  });
}

// The importance of the columns of row r; null: all count alike.
const float* importance_of(const TensorConversion& job, int64_t r) {
  if (job.importance.empty()) return nullptr;
  const int64_t experts = job.info.shape.size() == 3 ? job.info.shape[0] : 1;
  const auto expert = static_cast<size_t>(r / (job.matrix->rows / experts));
  const bool known = expert < job.importance.size() && !job.importance[expert].empty();
  return known ? job.importance[expert].data() : nullptr;
}

void quantise_row(const WeightSource& m, int64_t r, const TensorConversion& job, uint8_t* codes,
                  std::byte* scales, std::byte* biases, QuantizeStats& stats) {
  const int64_t groups = m.cols / job.format.group;
  std::vector<float> values(m.cols);
  std::vector<uint16_t> s(groups), b(groups);
  read_values(m, r, 1, values.data());
  quantize_row(values.data(), importance_of(job, r), m.cols, job.format, job.scale_kind == WeightKind::f16,
               codes, s.data(), b.data(), stats);
  std::memcpy(scales, s.data(), s.size() * 2);
  std::memcpy(biases, b.data(), b.size() * 2);
}

void copy_row(const WeightSource& m, int64_t r, WeightKind scale_kind, uint8_t* codes, std::byte* scales,
              std::byte* biases, QuantizeStats& stats) {
  const int64_t groups = m.cols / m.group;
  std::vector<float> s(groups), b(groups);
  m.read_codes(r, 1, codes, s.data(), b.data());
  if (m.symmetric)
    for (int64_t g = 0; g < groups; g++) b[g] = -static_cast<float>(m.zero_point) * s[g];
  for (float v : s) stats.finite &= std::isfinite(v);
  for (float v : b) stats.finite &= std::isfinite(v);
  stats.finite &= float_to_dense(scale_kind, s.data(), groups, scales) &&
                  float_to_dense(scale_kind, b.data(), groups, biases);
}

// Quantises and writes rows [first, first + count), or copies their codes.
Result<void> write_affine_rows(const TensorConversion& job, int64_t first, int64_t count, ShardWriter& writer,
                               QuantizeStats& total) {
  const WeightSource& m = *job.matrix;
  const int64_t row_bytes = m.cols * job.format.bits / 8;
  const int64_t scale_bytes = m.cols / job.format.group * dense_size(job.scale_kind);
  std::vector<std::byte> codes(static_cast<size_t>(count * row_bytes));
  std::vector<std::byte> scales(static_cast<size_t>(count * scale_bytes)), biases(scales.size());
  const int64_t grain = std::max<int64_t>(1, (1 << 15) / m.cols);
  std::vector<QuantizeStats> stats(static_cast<size_t>((count + grain - 1) / grain));
  shared_threads().parallel_for(static_cast<int64_t>(stats.size()), 1, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> row(m.cols);
    for (int64_t part = begin; part < end; part++)
      for (int64_t r = part * grain; r < std::min(count, (part + 1) * grain); r++) {
        std::byte *s = &scales[r * scale_bytes], *b = &biases[r * scale_bytes];
        job.codes_kept ? copy_row(m, first + r, job.scale_kind, row.data(), s, b, stats[part])
                       : quantise_row(m, first + r, job, row.data(), s, b, stats[part]);
        pack_codes(job.format.bits, row.data(), m.cols, &codes[r * row_bytes]);
      }
  });
  for (const QuantizeStats& s : stats) {
    if (!s.finite)
      return conversion_error(job, ErrorKind::invalid, "has values or scales that are not finite");
    total.error += s.error;
    total.minmax_error += s.minmax_error;
    total.energy += s.energy;
  }
  const auto at = static_cast<uint64_t>(first);
  TRY_VOID(writer.write_part(job.out_name, at * row_bytes, codes.data(), codes.size()));
  TRY_VOID(writer.write_part(sibling(job, ".scales"), at * scale_bytes, scales.data(), scales.size()));
  return writer.write_part(sibling(job, ".biases"), at * scale_bytes, biases.data(), biases.size());
}

}  // namespace

WeightKind stored_kind(TargetKind kind) {
  if (kind == TargetKind::keep) return WeightKind::f32;
  return kind == TargetKind::f16 ? WeightKind::f16 : WeightKind::bf16;
}

int64_t element_count(const std::vector<int64_t>& shape) {
  const auto [rows, cols] = rows_and_cols(shape);
  return rows * cols;
}

std::string module_of(const TensorConversion& job) {
  return job.out_name.substr(0, job.out_name.size() - std::string_view(".weight").size());
}

std::vector<Piece> pieces_of(const TensorConversion& job) {
  if (job.kind == TargetKind::fp8) return fp8_pieces(job);
  if (job.kind != TargetKind::affine) {
    const auto kind = stored_kind(job.kind);
    return {{job.out_name, dtype_name(kind), job.shape,
             static_cast<uint64_t>(element_count(job.shape) * dense_size(kind))}};
  }
  const auto [rows, cols] = rows_and_cols(job.shape);
  const int64_t words = cols * job.format.bits / 32, groups = cols / job.format.group;
  std::vector<int64_t> code_shape = job.shape, scale_shape = job.shape;
  code_shape.back() = words;
  scale_shape.back() = groups;
  const auto scale_bytes = static_cast<uint64_t>(rows * groups * dense_size(job.scale_kind));
  const char* scale_type = dtype_name(job.scale_kind);
  return {{job.out_name, "U32", code_shape, static_cast<uint64_t>(rows * words * 4)},
          {sibling(job, ".scales"), scale_type, scale_shape, scale_bytes},
          {sibling(job, ".biases"), scale_type, scale_shape, scale_bytes}};
}

Error conversion_error(const TensorConversion& job, ErrorKind kind, const std::string& why) {
  return make_error(kind, "{}: tensor \"{}\" {}", job.info.file, shown(job.info.name), why);
}

Result<void> write_tensor(const TensorConversion& job, int shift, Checkpoint& source, ShardWriter& writer,
                          QuantizeStats& stats) {
  if (job.kind == TargetKind::fp8) return write_fp8(job, source, writer, stats);
  if (job.kind != TargetKind::affine) return write_dense(job, shift, source, writer);
  return for_blocks(*job.matrix, source, [&](int64_t first, int64_t count) {
    return write_affine_rows(job, first, count, writer, stats);
  });
}

}  // namespace anabranch
