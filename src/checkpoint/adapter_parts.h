// An adapter's matrices as its file stores them. The reader of each format makes AdapterParts, from which
// read_adapter() makes an AdapterFile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "base/weight_source.h"
#include "checkpoint/file_bytes.h"
#include "checkpoint/gguf_families.h"

namespace anabranch {

struct AdapterMatrix {
  std::string name;                // in the file
  std::string module;              // in the base model, without ".weight"
  bool up = false;                 // B, not A
  bool transposed = false;         // stored as [in, rank] or [rank, out]
  std::string type;                // in the file: "F32"
  std::optional<WeightKind> kind;  // nullopt: not f32, f16 or bf16
  std::vector<int64_t> shape;      // in the file, slowest dimension first
  std::span<const std::byte> data;
  int64_t rank = 0;  // that the config states; 0: it states none
  double alpha = 1;  // the module's
};

enum class AdapterScale { alpha, alpha_over_rank, alpha_over_root_of_rank };

struct AdapterParts {
  std::string path;  // of the file with the tensors
  std::string base;
  AdapterScale scale = AdapterScale::alpha;
  std::vector<AdapterMatrix> matrices{};
  std::optional<GgufModel> gguf{};  // in whose order of rows and columns the modules are
  std::vector<FileBytes> files{};   // that the matrices' data points into
};

// Each checks that every tensor is half of a module. The shapes and types are not checked.
Result<AdapterParts> read_peft_adapter(const std::string& directory);
Result<AdapterParts> read_mlx_adapter(const std::string& directory);
Result<AdapterParts> read_gguf_adapter(const std::string& path, const Json& base_config);

inline constexpr const char* kPeftTensors = "adapter_model.safetensors";
inline constexpr const char* kMlxTensors = "adapters.safetensors";
inline constexpr const char* kMergeAdapter =
    "merge the adapter into its model with the tool that made it (for PEFT: merge_and_unload(), then "
    "save_pretrained())";

// Removes ".lora_a" or ".lora_b" from the end of a name of MLX or GGUF. Returns whether it was ".lora_b";
// nullopt: the name ends in neither.
std::optional<bool> strip_lora_half(std::string_view& name);

// Error (unsupported): a file's tensors with these names are not halves of modules. `names` is not empty.
Error foreign_tensors(const std::string& path, const std::vector<std::string>& names);

}  // namespace anabranch
