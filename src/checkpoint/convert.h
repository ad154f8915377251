// Writes a model as a directory: affine-quantised or dense safetensors as mlx-community's, or FP8 as Hugging
// Face's, in shards with an index, config.json with the quantisation of each module, tokenizer and template
// copied; mtp.* tensors go to mtp.safetensors beside the shards. Or writes it as one GGUF file. The same
// input gives the same bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/gguf_keys.h"
#include "checkpoint/importance.h"
#include "checkpoint/quantization.h"

namespace anabranch {

enum class TargetKind {
  affine,
  bf16,
  f16,
  fp8,   // E4M3 codes with a scale for each block of 128 x 128 (of ConvertFormat::fp8)
  keep,  // codes or values as the source has them, where an MLX directory can hold them
};

struct Target {
  TargetKind kind = TargetKind::affine;
  AffineFormat format{4, 64};  // of `affine`
};

// A row of the table of formats each (write_format.h).
enum class ConvertFormat {
  mlx,  // a directory as mlx-community's
  fp8,  // one as Hugging Face's, "quant_method": "fp8"
  // One GGUF file, of the mixes of types that llama.cpp gives these names:
  q4_k_m,
  iq4_xs,
  q8_0,
  f16,
};

struct QuantRule {
  std::string
      pattern;  // glob (* and ?) over module paths: "model.layers.*.mlp.down_proj", "lm_head", "mtp.*"
  Target target;
};

struct ConvertOptions {
  std::string output;  // directory or file to make; must not exist unless `force`
  bool force = false;  // replace an existing model directory or GGUF file
  ConvertFormat format = ConvertFormat::mlx;
  std::optional<Target> fallback;       // of matrices that no rule matches; none: 4 bits in groups of 64, or
                                        // what the format says
  std::vector<QuantRule> rules;         // the first that matches decides
  TargetKind dense = TargetKind::bf16;  // bf16 or f16: scales, vectors, matrices that cannot be quantised,
                                        // and mtp.* without a rule
  uint64_t max_shard_bytes = 48'000'000;
  // Text of further files by name ("tokenizer.json"), where the source directory has none of that name.
  std::map<std::string, std::string> side_files;
  // Of a GGUF file: what it says about tokenizer, template and origin, and the name of the text of
  // calibration.
  GgufKeys gguf_keys{};
  std::string calibration_text{};
  // Of the inputs of matrices; those that it lacks are rounded without. Called once, when all that can be
  // checked without it has been. Null: none.
  std::function<Result<Importance>()> calibrate;
  // (module being written, share of all weights done); from the calling thread.
  std::function<void(std::string_view module, double done)> progress;
};

struct ConvertReport {
  std::string output;
  int tensors = 0, quantised = 0;  // modules; a quantised triple counts once
  int files = 0;
  uint64_t parameters = 0;
  uint64_t source_bytes = 0, bytes = 0;
  // Squared error of the affine matrices over that of MLX's own quantiser on the same values; 1 if there is
  // none, nothing if none is affine.
  std::optional<double> error_ratio;
  double relative_error = 0;  // squared error over squared weights
  int calibrated = 0;         // of `quantised`: weighted by importance, as are their errors above
  std::vector<std::string> warnings;
};

// "4" "4/64" (bits / group), "bf16", "f16", "fp8", "keep".
Result<Target> parse_target(std::string_view text);

// {"default": {"bits": 4, "group": 64}, "rules": [{"match": "mtp.*", "dtype": "bf16"}, {"match":
// "*.down_proj", "bits": 6, "group": 64}]} ("default" may be absent, "group" is 64 if so; dtypes are bf16,
// f16 and keep) into `fallback` and `rules`. `path` is for messages.
Result<void> parse_recipe(std::string_view text, const std::string& path, ConvertOptions& options);

// The recipe that parse_recipe() reads as these options' `fallback` and `rules`.
Json recipe_json(const ConvertOptions& options);

// * any run of characters, ? any one.
bool glob_matches(std::string_view pattern, std::string_view text);

// Errors: what Checkpoint::open says; invalid (output exists, a rule that cannot be met or matches nothing,
// values that are not finite), unsupported (a family that the format is not written for), io.
Result<ConvertReport> convert(const std::string& source, const ConvertOptions& options);

}  // namespace anabranch
