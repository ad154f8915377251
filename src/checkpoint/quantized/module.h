// Input and output of the readers of quantised formats: the tensors of one matrix, or of a stack of matrices
// (the experts of a mixture), and the matrix as one weight source.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/weight_source.h"
#include "checkpoint/quantization.h"
#include "checkpoint/raw_tensors.h"

namespace anabranch {

// Tensors whose names have the same stem and different suffixes.
class QuantizedModule {
 public:
  QuantizedModule(const RawTensors& all, std::string_view stem, const RawTensor& main)
      : all_(all), stem_(stem), main_(main) {}

  std::string_view stem() const { return stem_; }
  const SafetensorsTensor& main() const { return *main_.tensor; }
  // Whether the values of tensors must not be checked: they may be missing, or slow to read.
  bool headers_only() const { return main_.file->extent != Extent::whole; }
  const SafetensorsTensor* find(std::string_view suffix) const;
  bool has(std::string_view suffix, std::string_view dtype) const;
  // Error (invalid): the tensor is missing.
  Result<const SafetensorsTensor*> need(std::string_view suffix) const;
  // Keeps the files of these tensors alive.
  std::shared_ptr<const void> keep(std::span<const std::string_view> suffixes) const;
  // Bytes in the files.
  uint64_t bytes(std::span<const std::string_view> suffixes) const;

  // Names the file and the main tensor.
  template <class... Args>
  Error error(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) const {
    return Error{kind, fmt::format("{}: tensor \"{}\": {}", main_.file->path, shown(main_.tensor->name),
                                   fmt::format(format, std::forward<Args>(args)...))};
  }
  template <class... Args>
  Error invalid(fmt::format_string<Args...> format, Args&&... args) const {
    return error(ErrorKind::invalid, format, std::forward<Args>(args)...);
  }

 private:
  const RawTensor* raw(std::string_view suffix) const;

  const RawTensors& all_;
  std::string_view stem_;
  const RawTensor& main_;
};

// The sizes of a main tensor [rows, cols], or [experts, rows, cols].
struct MatrixSizes {
  int64_t all_rows, rows, cols;  // all_rows: of all experts
};
// Error (invalid): it has another number of dimensions, or no elements.
Result<MatrixSizes> matrix_sizes(const QuantizedModule& module);

// The shape of a module's scales for the matrix of one expert.
struct ScaleShape {
  std::vector<int64_t> one;
  bool shared = false;  // it is a single number for all experts; `one` is empty
};
// matrix: the shape that the scales are for. nullopt if they do not fit the number of experts.
std::optional<ScaleShape> scale_shape(const std::vector<int64_t>& matrix, const SafetensorsTensor& scale);

struct QuantizedMatrix {
  std::string type;            // "gptq-4/128"
  std::vector<int64_t> shape;  // [rows, cols] or [experts, rows, cols]
  WeightSource source;
};

struct QuantizationContext {
  const std::optional<QuantizationConfig>& config;
  const std::string& config_path;  // for messages
};

// One way in which files store a quantised matrix.
struct QuantizedLayout {
  std::string_view main;  // suffix of the tensor that a module is found by; empty: its whole name is the stem
  std::span<const std::string_view> parts;  // suffixes of the module's other tensors
  bool (*matches)(const QuantizedModule& module);
  // `keep` keeps the tensors' bytes.
  Result<QuantizedMatrix> (*read)(const QuantizedModule& module, const QuantizationContext& context,
                                  std::shared_ptr<const void> keep);
};

}  // namespace anabranch
