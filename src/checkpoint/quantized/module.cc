#include "checkpoint/quantized/module.h"

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

}  // namespace anabranch
