#include "checkpoint/quantized/module.h"

#include "checkpoint/store.h"

namespace anabranch {

const RawTensor* QuantizedModule::raw(std::string_view suffix) const {
  const auto at = all_.find(std::string(stem_).append(suffix));
  return at == all_.end() ? nullptr : &at->second;
}

const SafetensorsTensor* QuantizedModule::find(std::string_view suffix) const {
  const RawTensor* found = raw(suffix);
  return found ? found->tensor : nullptr;
}

bool QuantizedModule::has(std::string_view suffix, std::string_view dtype) const {
  const SafetensorsTensor* found = find(suffix);
  return found && found->dtype == dtype;
}

Result<const SafetensorsTensor*> QuantizedModule::need(std::string_view suffix) const {
  const SafetensorsTensor* found = find(suffix);
  if (!found) return invalid("\"{}{}\", which belongs to it, is missing", shown(stem_), suffix);
  return found;
}

std::shared_ptr<const void> QuantizedModule::keep(std::span<const std::string_view> suffixes) const {
  auto out = std::make_shared<std::vector<std::shared_ptr<const void>>>();
  out->push_back(main_.file->keep);
  for (const auto suffix : suffixes)
    if (const RawTensor* part = raw(suffix); part && part->file->keep != out->front())
      out->push_back(part->file->keep);
  return out;
}

uint64_t QuantizedModule::bytes(std::span<const std::string_view> suffixes) const {
  uint64_t sum = main_.tensor->data.size();
  for (const auto suffix : suffixes)
    if (const RawTensor* part = raw(suffix)) sum += part->tensor->data.size();
  return sum;
}

Result<MatrixSizes> matrix_sizes(const QuantizedModule& m) {
  const auto& shape = m.main().shape;
  const auto [all_rows, cols] = rows_and_cols(shape);
  if (shape.size() < 2 || shape.size() > 3 || all_rows == 0 || cols == 0)
    return m.invalid("it has shape {}; a matrix, or one for each expert, was expected", shape_text(shape));
  return MatrixSizes{all_rows, shape[shape.size() - 2], cols};
}

std::optional<ScaleShape> scale_shape(const std::vector<int64_t>& matrix, const SafetensorsTensor& scale) {
  const auto [lines, last] = rows_and_cols(scale.shape);
  if (lines * last == 1) return ScaleShape{{}, true};
  ScaleShape out{scale.shape};
  if (matrix.size() == 2) return out;
  if (out.one.empty() || out.one[0] != matrix[0]) return std::nullopt;
  out.one.erase(out.one.begin());
  return out;
}

}  // namespace anabranch
