// Spans of OpenTelemetry, and their form in OTLP's JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace anabranch::server {

// A request that this server answered.
struct Span {
  std::string trace_id, id;  // hexadecimal digits; empty: the exporter chooses them
  std::string parent_id;     // empty: it begins the trace
  std::string name;
  int64_t begin = 0, end = 0;                           // Unix nanoseconds
  Json attributes = Json::object();                     // texts, numbers, and lists of texts
  std::vector<std::pair<std::string, int64_t>> events;  // names and times
  bool failed = false;
};

std::string span_json(const Span& span);

// The body of a request to a collector. spans: as span_json() writes them.
std::string spans_body(std::string_view version, const std::vector<std::string>& spans);

}  // namespace anabranch::server
