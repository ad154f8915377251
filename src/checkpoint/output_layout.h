// Names, shapes and descriptions of a family's tensors in the directories that `convert` writes. Each output
// format has one implementation.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/convert.h"

namespace anabranch {

// Whether a model of a family that applies 1 + w does so for this norm.
bool is_shifted_norm(std::string_view hf_name);

// Whether the module is the router of a mixture of experts.
bool is_router(std::string_view module);

class OutputLayout {
 public:
  virtual ~OutputLayout() = default;

  // The name in the directory for a Hugging Face name. "*" in the result stands for the number of an expert,
  // if each expert's matrix is a separate tensor. Errors: unsupported (not a tensor of this family).
  virtual Result<std::string> name(const std::string& hf_name) const = 0;
  virtual std::vector<int64_t> shape(std::string_view hf_name, const std::vector<int64_t>& shape) const = 0;
  // The number to add to a norm's values. norms: the convention of these values.
  virtual int norm_shift(std::string_view hf_name, NormConvention norms) const = 0;
  virtual bool stays_f32(std::string_view hf_name) const = 0;
  // The target of a matrix without a rule. fallback: the one in the options.
  virtual Target default_target(std::string_view module, const std::optional<Target>& fallback) const = 0;
  // Error (invalid): files of this format cannot hold it.
  virtual Result<void> check(const Target& target) const = 0;
  // The content of config.json. matrices: each matrix's target, by the name of its module in the directory.
  virtual Json config(const std::map<std::string, Target>& matrices) const = 0;
  // The `format` for ShardWriter, which states the norm convention of the files.
  virtual const char* norm_format() const = 0;
};

// Errors: unsupported (a family that this format is not written for).
Result<std::unique_ptr<OutputLayout>> make_layout(const ConvertOptions& options, const Json& config,
                                                  const std::string& path);

}  // namespace anabranch
