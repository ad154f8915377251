#include "server/otlp/span.h"

#include <fmt/format.h>

namespace anabranch::server {
namespace {

constexpr int kServer = 2;  // SPAN_KIND_SERVER
constexpr int kError = 2;   // STATUS_CODE_ERROR

// OTLP's AnyValue. Whole numbers of 64 bits are texts.
Json any_value(const Json& value) {
  if (value.is_number_integer()) return {{"intValue", std::to_string(value.get<int64_t>())}};
  if (value.is_number()) return {{"doubleValue", value}};
  if (value.is_string()) return {{"stringValue", value}};
  Json values = Json::array();
  for (const Json& each : value) values.push_back(any_value(each));
  return {{"arrayValue", {{"values", std::move(values)}}}};
}

Json attributes_json(const Json& attributes) {
  Json list = Json::array();
  for (const auto& [key, value] : attributes.items())
    list.push_back({{"key", key}, {"value", any_value(value)}});
  return list;
}

}  // namespace

std::string span_json(const Span& span) {
  Json json = {{"traceId", span.trace_id}, {"spanId", span.id}};
  if (!span.parent_id.empty()) json["parentSpanId"] = span.parent_id;
  json["name"] = span.name;
  json["kind"] = kServer;
  json["startTimeUnixNano"] = std::to_string(span.begin);
  json["endTimeUnixNano"] = std::to_string(span.end);
  json["attributes"] = attributes_json(span.attributes);
  if (!span.events.empty()) json["events"] = Json::array();
  for (const auto& [name, at] : span.events)
    json["events"].push_back({{"timeUnixNano", std::to_string(at)}, {"name", name}});
  if (span.failed) json["status"] = {{"code", kError}};
  return dump_json(json);
}

std::string spans_body(std::string_view version, const std::vector<std::string>& spans) {
  const Json resource = {
      {"attributes", attributes_json({{"service.name", "anabranch"}, {"service.version", version}})}};
  const Json scope = {{"name", "anabranch"}, {"version", version}};
  return fmt::format(R"({{"resourceSpans":[{{"resource":{},"scopeSpans":[{{"scope":{},"spans":[{}]}}]}}]}})",
                     dump_json(resource), dump_json(scope), fmt::join(spans, ","));
}

}  // namespace anabranch::server
