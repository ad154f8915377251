// The header "traceparent" (W3C Trace Context), by which a client names the span that its request belongs to.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace anabranch::server {

struct TraceParent {
  std::string trace_id, span_id;  // 32 and 16 lower-case hexadecimal digits
  bool sampled = false;           // the client records this trace
};

// Nothing if the header is not valid; then a new trace begins.
std::optional<TraceParent> parse_trace_parent(std::string_view header);

}  // namespace anabranch::server
