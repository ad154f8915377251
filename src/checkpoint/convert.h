// Converts a model to a directory or to one GGUF file. A directory has affine-quantised or dense safetensors
// as in mlx-community's models, or FP8 as in Hugging Face's, in shards with an index; config.json with the
// quantisation of each module; and copies of the tokenizer and template. mtp.* tensors go to mtp.safetensors
// beside the shards. The same input gives the same bytes.
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

// Each format is a row of the table in write_format.h.
enum class ConvertFormat {
  mlx,  // a directory like mlx-community's
  fp8,  // a directory like Hugging Face's, "quant_method": "fp8"
  // One GGUF file, with the mix of types to which llama.cpp gives this name:
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
  std::optional<Target> fallback;  // for matrices that no rule matches; nullopt: 4 bits in groups of 64, or
                                   // the format's default
  std::vector<QuantRule> rules;    // the first that matches decides
  TargetKind dense = TargetKind::bf16;  // bf16 or f16: scales, vectors, matrices that cannot be quantised,
                                        // and mtp.* without a rule
  uint64_t max_shard_bytes = 48'000'000;
  // Text of further files by name ("tokenizer.json"), where the source directory has none of that name.
  std::map<std::string, std::string> side_files;
  // For a GGUF file: the metadata about tokenizer, template and origin, and the name of the calibration text.
  GgufKeys gguf_keys{};
  std::string calibration_text{};
  // Returns the importance of the inputs of matrices. Matrices that are missing in it are quantised without.
  // It is called once, after all other checks. Null: no calibration.
  std::function<Result<Importance>()> calibrate;
  // Called on the calling thread with the module that is being written and the share of all weights done.
  std::function<void(std::string_view module, double done)> progress;
};

struct ConvertReport {
  std::string output;
  int tensors = 0, quantised = 0;  // modules; a quantised triple counts once
  int files = 0;
  uint64_t parameters = 0;
  uint64_t source_bytes = 0, bytes = 0;
  // The squared error of the affine matrices divided by that of MLX's own quantiser on the same values; 1 if
  // that has no error, nullopt if no matrix is affine.
  std::optional<double> error_ratio;
  double relative_error = 0;  // squared error over squared weights
  int calibrated = 0;         // of `quantised`: weighted by importance, as are their errors above
  std::vector<std::string> warnings;
};

// Parses "4", "4/64" (bits / group), "bf16", "f16", "fp8" or "keep".
Result<Target> parse_target(std::string_view text);

// Parses {"default": {"bits": 4, "group": 64}, "rules": [{"match": "mtp.*", "dtype": "bf16"}, {"match":
// "*.down_proj", "bits": 6, "group": 64}]} ("default" may be absent, "group" is 64 if so; dtypes are bf16,
// f16 and keep) into `fallback` and `rules`. `path` is for messages.
Result<void> parse_recipe(std::string_view text, const std::string& path, ConvertOptions& options);

// The recipe that parse_recipe() reads as these options' `fallback` and `rules`.
Json recipe_json(const ConvertOptions& options);

// Whether a pattern matches the whole text: * stands for any run of characters, ? for any one character.
bool glob_matches(std::string_view pattern, std::string_view text);

// Errors: those of Checkpoint::open; invalid (output exists, a rule that cannot be met or matches nothing,
// values that are not finite), unsupported (a family that the format is not written for), io.
Result<ConvertReport> convert(const std::string& source, const ConvertOptions& options);

}  // namespace anabranch
