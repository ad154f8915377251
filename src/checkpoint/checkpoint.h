// A model's files on disk: name -> tensor, whatever the format. Files are mapped once and never copied whole.
//
//   directory      config.json + *.safetensors (with or without index), optionally MLX-quantised (affine),
//   and any
//                  further *.safetensors beside them (an MTP sidecar)
//                  or, in Mistral's own layout, params.json + consolidated*.safetensors; these are left aside
//                  where others are
//   *.safetensors  config.json beside it
//   *.gguf         GGUF v3; metadata is re-expressed as config.json, names as Hugging Face's
//
// After open(), names are Hugging Face's ("model.layers.0.mlp.up_proj.weight", "lm_head.weight", "mtp.*"):
// the prefixes "language_model." and "model.language_model." of multimodal checkpoints are folded to
// "model.", GGUF names are translated and its row permutations (llama's rotary order, qwen35's value-head
// order) undone. Tensors for images ("visual.", "vision_tower.") are in vision(); those for sound are left
// out. Every other tensor must be taken or ignored: finish() says which were not.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/result.h"
#include "base/weight_source.h"
#include "checkpoint/file_bytes.h"
#include "checkpoint/gguf_texts.h"
#include "tensor/tensor.h"

namespace anabranch {

// How a file stores the weights of norms that the model applies as (1 + w) (Qwen3.5, Gemma): `offset` stores
// w as Hugging Face does, `plain` stores 1 + w as mlx conversions and GGUF do. Decided per file from the
// shape of conv1d weights ([C, 1, k] raw, [C, k, 1] mlx) where there is one, else from the safetensors
// metadata ("format": "mlx"), never from the values.
enum class NormConvention { offset, plain };

struct TensorInfo {
  std::string name;  // Hugging Face's
  std::string type;  // "F32" "F16" "BF16" "affine-4/64" "Q4_K" ...
  std::vector<int64_t> shape;
  uint64_t bytes = 0;  // in the file, scales and biases included
  std::string file;
  NormConvention norms = NormConvention::offset;
};

// The file that describes how Sentence Transformers makes embeddings from the model's hidden states.
inline constexpr std::string_view kPoolingFile = "1_Pooling/config.json";

class Checkpoint {
 public:
  // Errors name the file, and the tensor if there is one: not_found, io, invalid (truncated, overlapping or
  // out-of-range offsets, absurd header, duplicate names, wrong sizes), unsupported (a type we do not read).
  static Result<std::unique_ptr<Checkpoint>> open(const std::string& path, Extent extent = Extent::whole);
  virtual ~Checkpoint() = default;

  // config.json (for GGUF: the same keys, made from its metadata).
  virtual const Json& config() const = 0;
  virtual std::string name() const = 0;  // model_name_of(path())
  virtual std::string path() const = 0;

  virtual std::vector<TensorInfo> tensors() const = 0;  // sorted by name; quantised triples are one entry
  virtual size_t left_out() const = 0;  // number of tensors for images or sound that were left out
  // The tensors of the vision tower, with their own names (vision_name() in checkpoint/names.h): from the
  // same files, or from a GGUF file mmproj*.gguf beside the model's. Its config() is config.json; for GGUF it
  // has "model_type", "vision_config" and "preprocessor_config". Null if there are none.
  virtual Checkpoint* vision() const { return nullptr; }
  virtual bool has(std::string_view name) const = 0;
  virtual std::optional<TensorInfo> find(std::string_view name) const = 0;

  // The tensor as f32, on the host, with exactly this shape (for vectors and small tensors). If it has more
  // dimensions than a Tensor can have, the result is a matrix whose columns are the last dimension. Errors:
  // not_found, invalid (another shape), each naming the tensor; taking twice is invalid.
  virtual Result<Tensor> take(std::string_view name, const std::vector<int64_t>& shape) = 0;
  // The matrix [rows, cols] with this name, which ends in ".weight"; dense or quantised. The source keeps the
  // map alive.
  virtual Result<WeightSource> take_matrix(std::string_view name, int64_t rows, int64_t cols) = 0;
  // The same for a tensor [count, rows, cols]: one matrix below the other.
  virtual Result<WeightSource> take_matrices(std::string_view name, int64_t count, int64_t rows,
                                             int64_t cols) = 0;
  // Tensors with this prefix may be taken once more: several devices take a share of each.
  virtual void reopen(std::string_view prefix) = 0;
  // Tensors with this prefix need not be taken. Returns how many there are.
  virtual int ignore(std::string_view prefix) = 0;
  // Whether the type of every tensor can be read, except those whose names begin with one of `aside`. Returns
  // the first error.
  virtual Result<void> check_types(std::span<const std::string>) const { return {}; }
  // Error (invalid) naming tensors that were neither taken nor ignored.
  virtual Result<void> finish() const = 0;

  // Releases the memory of the file's pages that were read. Call it after each part of the model, so that the
  // file and its repacked copy are never both in memory as a whole.
  virtual void release_pages() const = 0;

  // Further files of the model, and kPoolingFile: text of `name` ("tokenizer.json", "chat_template.jinja",
  // "generation_config.json") beside config.json; nullopt if it does not exist, and for GGUF.
  virtual std::optional<std::string> side_file(std::string_view name) const = 0;
  // GGUF metadata as JSON, including arrays except those of gguf_texts(); null object for other formats.
  virtual const Json& gguf_metadata() const = 0;
  // The arrays of texts in a GGUF file's metadata about its tokenizer: "tokenizer.ggml.tokens", ... They live
  // as long as the checkpoint.
  virtual const GgufTexts& gguf_texts() const = 0;
};

}  // namespace anabranch
