#include "net/http_text.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include "base/lower_case.h"

namespace anabranch::net {
namespace {

// port_flags: of libcurl, CURLU_DEFAULT_PORT or CURLU_NO_DEFAULT_PORT.
std::string origin(const std::string& url, unsigned port_flags) {
  CURLU* parts = curl_url();
  char *scheme = nullptr, *host = nullptr, *port = nullptr;
  std::string out;
  if (curl_url_set(parts, CURLUPART_URL, url.c_str(), 0) == CURLUE_OK &&
      curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
      curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK) {
    out = fmt::format("{}://{}", scheme, host);
    if (curl_url_get(parts, CURLUPART_PORT, &port, port_flags) == CURLUE_OK) out += fmt::format(":{}", port);
  }
  for (char* text : {scheme, host, port}) curl_free(text);
  curl_url_cleanup(parts);
  return lower_case(out);
}

}  // namespace

std::string origin_of(const std::string& url) {
  return origin(url, CURLU_NO_DEFAULT_PORT);
}

std::string origin_with_port(const std::string& url) {
  return origin(url, CURLU_DEFAULT_PORT);
}

std::string percent_decoded(const std::string& text) {
  int size = 0;
  char* decoded = curl_easy_unescape(nullptr, text.c_str(), static_cast<int>(text.size()), &size);
  const std::string out(decoded ? decoded : "", static_cast<size_t>(size));
  curl_free(decoded);
  return out;
}

std::optional<std::time_t> parse_http_date(const std::string& text) {
  const std::time_t date = curl_getdate(text.c_str(), nullptr);
  return date < 0 ? std::nullopt : std::optional(date);
}

}  // namespace anabranch::net
