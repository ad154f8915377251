#include "checkpoint/fp8_writer.h"

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "base/float8.h"
#include "base/thread_pool.h"

namespace anabranch {
namespace {

constexpr float kLargest = 448;           // of E4M3
constexpr int64_t kRowsAtOnce = 1 << 20;  // weights in memory, or a row of blocks if that is more

int64_t blocks_of(int64_t count) {
  return (count + kFp8Block - 1) / kFp8Block;
}

int64_t experts_of(const TensorConversion& job) {
  return job.shape.size() == 3 ? job.shape[0] : 1;
}

std::string expert_name(const TensorConversion& job, int64_t expert) {
  std::string name = job.out_name;
  if (const size_t star = name.find('*'); star != std::string::npos)
    name.replace(star, 1, std::to_string(expert));
  return name;
}

// A block [rows, cols] of a matrix with rows of `stride` weights.
void encode_block(const float* values, int64_t rows, int64_t cols, int64_t stride, uint8_t* codes,
                  float& scale, QuantizeStats& stats) {
  float most = 0;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) {
      const float v = values[r * stride + c];
      stats.finite &= std::isfinite(v);
      most = std::max(most, std::fabs(v));
    }
  scale = most > 0 ? std::max(most / kLargest, FLT_MIN) : 1;
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) {
      const float v = values[r * stride + c];
      uint8_t& code = codes[r * stride + c];
      code = float_to_e4m3(v / scale);
      const double error = double{v} - double{e4m3_to_float(code)} * scale;
      stats.error += error * error;
      stats.energy += double{v} * v;
    }
}

}  // namespace

std::vector<Piece> fp8_pieces(const TensorConversion& job) {
  const int64_t rows = job.shape[job.shape.size() - 2], cols = job.shape.back();
  std::vector<Piece> out;
  for (int64_t e = 0; e < experts_of(job); e++) {
    const std::string name = expert_name(job, e);
    out.push_back({name, "F8_E4M3", {rows, cols}, static_cast<uint64_t>(rows * cols)});
    out.push_back({name + "_scale_inv",
                   "F32",
                   {blocks_of(rows), blocks_of(cols)},
                   static_cast<uint64_t>(blocks_of(rows) * blocks_of(cols) * 4)});
  }
  return out;
}

Result<void> write_fp8(const TensorConversion& job, Checkpoint& source, ShardWriter& writer,
                       QuantizeStats& stats) {
  const WeightSource& m = *job.matrix;
  const int64_t experts = experts_of(job), rows = m.rows / experts, cols = m.cols, across = blocks_of(cols);
  const int64_t step = std::max<int64_t>(1, kRowsAtOnce / (kFp8Block * cols)) * kFp8Block;
  for (int64_t at = 0; at < m.rows;) {
    const int64_t expert = at / rows, first = at % rows, count = std::min(step, rows - first);
    std::vector<uint8_t> codes(static_cast<size_t>(count * cols));
    std::vector<float> scales(static_cast<size_t>(blocks_of(count) * across));
    std::vector<QuantizeStats> parts(static_cast<size_t>(blocks_of(count)));
    shared_threads().parallel_for(blocks_of(count), 1, [&](int64_t begin, int64_t end) {
      for (int64_t down = begin; down < end; down++) {
        const int64_t row = down * kFp8Block, height = std::min(kFp8Block, count - row);
        std::vector<float> values(static_cast<size_t>(height * cols));
        read_values(m, at + row, height, values.data());
        for (int64_t block = 0; block < across; block++) {
          const int64_t col = block * kFp8Block;
          encode_block(&values[col], height, std::min(kFp8Block, cols - col), cols, &codes[row * cols + col],
                       scales[down * across + block], parts[down]);
        }
      }
    });
    for (const QuantizeStats& part : parts) {
      if (!part.finite) return conversion_error(job, ErrorKind::invalid, "has values that are not finite");
      stats.error += part.error;
      stats.energy += part.energy;
    }
    const std::string name = expert_name(job, expert);
    TRY_VOID(writer.write_part(name, static_cast<uint64_t>(first * cols), codes.data(), codes.size()));
    TRY_VOID(writer.write_part(name + "_scale_inv", static_cast<uint64_t>(first / kFp8Block * across * 4),
                               scales.data(), scales.size() * 4));
    source.release_pages();
    at += count;
  }
  return {};
}

}  // namespace anabranch
