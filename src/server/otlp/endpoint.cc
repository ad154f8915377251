#include "server/otlp/endpoint.h"

#include <algorithm>
#include <string_view>

#include "base/white_space.h"
#include "net/http_text.h"

namespace anabranch::server {
namespace {

constexpr std::string_view kPath = "/v1/traces";

// A header's name: a token of RFC 9110.
bool is_token(std::string_view text) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::ranges::all_of(text, [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kOthers.find(c) != kOthers.npos;
  });
}

bool is_printable(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return (c >= 0 && c < ' ') || c == 127; });
}

}  // namespace

Result<OtlpEndpoint> otlp_endpoint(std::string url, const std::string& headers) {
  const std::string origin = net::origin_of(url);
  const bool http = origin.starts_with("http://") || origin.starts_with("https://");
  if (!http || url.find_first_of("?#") != url.npos)
    return make_error(ErrorKind::invalid,
                      "--otlp takes the address of a collector without '?' and '#', such as "
                      "http://127.0.0.1:4318");
  while (url.ends_with('/')) url.pop_back();
  if (!url.ends_with(kPath)) url += kPath;
  OtlpEndpoint endpoint{std::move(url), {}};
  for (std::string_view rest = headers; !rest.empty();) {
    const std::string_view pair = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(pair.size() + 1, rest.size()));
    if (is_blank(pair)) continue;
    const size_t equals = std::min(pair.find('='), pair.size());
    const std::string name(trimmed(pair.substr(0, equals)));
    const std::string value =
        net::percent_decoded(std::string(trimmed(pair.substr(std::min(equals + 1, pair.size())))));
    if (equals == pair.size() || !is_token(name) || !is_printable(value))
      return make_error(ErrorKind::invalid,
                        "OTEL_EXPORTER_OTLP_HEADERS must be name=value pairs with commas between them");
    endpoint.headers[name] = value;
  }
  return endpoint;
}

}  // namespace anabranch::server
