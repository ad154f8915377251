#include "server/api/adapter_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>

namespace anabranch::server {

ApiResult<std::map<int, float>> read_adapter_scales(const Json& list, const std::string& where,
                                                    const std::vector<ServedAdapter>& known) {
  std::map<int, float> scales;
  const auto wrong = [&](const std::string& message) {
    return ApiError{400, message, "lora", "invalid_value"};
  };
  if (!list.is_array() || list.size() > kMostAdapters)
    return wrong(fmt::format("'{}' must be an array of at most {} objects {{\"id\", \"scale\"}}", where,
                             kMostAdapters));
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string at = fmt::format("{}[{}]", where, i);
    if (!list[i].is_object()) return wrong(fmt::format("'{}' must be an object {{\"id\", \"scale\"}}", at));
    JsonFields fields(list[i], at + ".");
    const auto id = fields.integer("id", 0, INT_MAX);
    const auto scale = fields.number("scale", -kMostAdapterScale, kMostAdapterScale);
    if (fields.error()) return *fields.error();
    if (!id || !scale) return wrong(fmt::format("'{}' lacks \"{}\"", at, id ? "scale" : "id"));
    if (std::ranges::find(known, static_cast<int>(*id), &ServedAdapter::id) == known.end())
      return wrong(fmt::format(
          "'{}' names the adapter {}, but the model has none of this id: GET /lora-adapters lists them", at,
          *id));
    if (!scales.emplace(static_cast<int>(*id), static_cast<float>(*scale)).second)
      return wrong(fmt::format("'{}' names the adapter {} twice", where, *id));
  }
  std::erase_if(scales, [](const auto& one) { return one.second == 0; });
  if (scales.size() > kMaxAdapters)
    return wrong(
        fmt::format("'{}' has {} adapters, but a request may apply {}", where, scales.size(), kMaxAdapters));
  return scales;
}

std::vector<AppliedAdapter> read_adapters(JsonFields& fields, const AvailableAdapters& available) {
  const Json* list = fields.find("lora");
  ApiResult<std::map<int, float>> wanted = std::map<int, float>();
  if (list) wanted = read_adapter_scales(*list, "lora", available.known);
  if (!wanted) fields.fail(wanted.error());
  std::vector<AppliedAdapter> applied;
  for (const ServedAdapter& adapter : available.known) {
    float scale = adapter.scale;
    if (!available.named.empty()) scale = adapter.name == available.named ? 1 : 0;
    if (list) scale = wanted && wanted->contains(adapter.id) ? wanted->at(adapter.id) : 0;
    if (scale == 0) continue;
    if (!adapter.loaded)
      fields.fail(ApiError{
          503,
          fmt::format("The adapter '{}' could not be loaded again, as the server's log tells", adapter.name),
          "model", "model_not_loaded"});
    applied.push_back({adapter.loaded, scale});
  }
  if (fields.error()) applied.clear();
  return applied;
}

}  // namespace anabranch::server
