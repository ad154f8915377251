#include "server/http/trace_parent.h"

#include <algorithm>

namespace anabranch::server {
namespace {

bool is_hex(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// Whether it is an id: hexadecimal digits that are not all 0.
bool is_id(std::string_view text) {
  return is_hex(text) && text.find_first_not_of('0') != text.npos;
}

}  // namespace

// "VERSION-TRACE-SPAN-FLAGS". Versions above 00 may add fields behind these.
std::optional<TraceParent> parse_trace_parent(std::string_view header) {
  constexpr size_t kTrace = 3, kSpan = 36, kFlags = 53, kEnd = 55;
  if (header.size() < kEnd) return std::nullopt;
  for (const size_t dash : {kTrace - 1, kSpan - 1, kFlags - 1})
    if (header[dash] != '-') return std::nullopt;
  const auto version = header.substr(0, 2), trace = header.substr(kTrace, 32),
             span = header.substr(kSpan, 16), flags = header.substr(kFlags, 2);
  if (!is_hex(version) || version == "ff" || !is_id(trace) || !is_id(span) || !is_hex(flags))
    return std::nullopt;
  if (header.size() > kEnd && (version == "00" || header[kEnd] != '-')) return std::nullopt;
  const char low = flags[1];
  const int digit = low <= '9' ? low - '0' : low - 'a' + 10;
  return TraceParent{std::string(trace), std::string(span), (digit & 1) != 0};
}

}  // namespace anabranch::server
