// Converts and writes one tensor. Matrices are read, converted and written a block of rows at a time, so that
// the memory needed does not depend on their size.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/convert.h"
#include "checkpoint/quantize.h"
#include "checkpoint/shard_writer.h"

namespace anabranch {

// How one tensor, or quantised triple, is converted.
struct TensorConversion {
  TensorInfo info;
  std::string module;       // "model.layers.0.mlp.up_proj"; a tensor without ".weight" has its whole name
  std::string out_name;     // in the MLX directory, with ".weight"
  TargetKind kind;          // affine, fp8, or how the values are stored: bf16 f16; keep: as f32
  AffineFormat format{};    // of affine
  bool codes_kept = false;  // affine: the source's codes
  WeightKind scale_kind = WeightKind::bf16;
  std::vector<int64_t> shape;
  std::optional<WeightSource> matrix;
  // The importance of the columns, by expert; may be empty (quantize_row).
  std::vector<std::vector<float>> importance{};
};

WeightKind stored_kind(TargetKind kind);
int64_t element_count(const std::vector<int64_t>& shape);
// out_name without ".weight".
std::string module_of(const TensorConversion& job);
std::vector<Piece> pieces_of(const TensorConversion& job);
// An error whose message names the file and the tensor.
Error conversion_error(const TensorConversion& job, ErrorKind kind, const std::string& why);

// shift: added to every value. Releases the source's pages as it goes. Adds to `stats`. Errors: invalid
// (values that are not finite, or too large for their type), io.
Result<void> write_tensor(const TensorConversion& job, int shift, Checkpoint& source, ShardWriter& writer,
                          QuantizeStats& stats);

}  // namespace anabranch
