#include "server/http/exchange.h"

#include <fmt/core.h>

#include <ctime>

namespace anabranch::server {
namespace {

// The reason phrases of the statuses that the server sends; clients ignore them (RFC 9112, 4).
std::string_view reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 204:
      return "No Content";
    case 304:
      return "Not Modified";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 415:
      return "Unsupported Media Type";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "";
  }
}

// The date as IMF-fixdate (RFC 9110, 5.6.7). The names are English, because the process sets no locale.
std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc)};
}

}  // namespace

std::string Exchange::head(const HttpResponse& response, bool chunked) const {
  std::string text = fmt::format("HTTP/1.1 {} {}\r\n", response.status, reason(response.status));
  text += fmt::format("Server: anabranch\r\nDate: {}\r\n", http_date());
  const bool empty =
      response.status == 204 || response.status == 304;  // without type and length (RFC 9110, 8.6)
  if (!empty) text += fmt::format("Content-Type: {}\r\n", response.content_type);
  const auto has = [&](const char* name) {
    return std::ranges::any_of(response.headers, [&](const auto& header) { return header.first == name; });
  };
  for (const Headers* headers : {&response.headers, &headers_})
    for (const auto& [name, value] : *headers) text += fmt::format("{}: {}\r\n", name, value);
  // Other sites' pages must not use an answer as a script or an image, and proxies must not cache it.
  if (!has("X-Content-Type-Options")) text += "X-Content-Type-Options: nosniff\r\n";
  if (!has("Cross-Origin-Resource-Policy")) text += "Cross-Origin-Resource-Policy: same-origin\r\n";
  if (!has("Cache-Control")) text += "Cache-Control: no-store\r\n";
  if (chunked)
    text += "X-Accel-Buffering: no\r\n";  // nginx must not buffer events
  else if (!empty)
    text += fmt::format("Content-Length: {}\r\n", response.body.size());
  if (chunked && !http10_) text += "Transfer-Encoding: chunked\r\n";
  if (!keep_alive_)
    text += "Connection: close\r\n";
  else if (http10_)
    text += "Connection: keep-alive\r\n";
  return text + "\r\n";
}

void Exchange::respond(HttpResponse response) {
  if (done_ || started_) return;
  done_ = true;
  if (!outlet_) return;
  outlet_->responded(response.status);
  if (outlet_->stopping()) keep_alive_ = false;
  std::string text = head(response, false);
  if (!head_) text += response.body;
  outlet_->send(text, false);
}

void Exchange::start(std::string content_type, std::string heartbeat) {
  if (done_ || started_) return;
  started_ = true;
  heartbeat_ = std::move(heartbeat);
  if (!outlet_) return;
  if (http10_ || outlet_->stopping()) keep_alive_ = false;  // HTTP/1.0 ends a stream by closing
  HttpResponse response;
  outlet_->responded(response.status);
  response.content_type = std::move(content_type);
  outlet_->send(head(response, true), true);
}

void Exchange::write(std::string_view data) {
  if (!outlet_ || !streaming() || data.empty() || head_) return;
  if (http10_)
    outlet_->send(data, true);
  else
    outlet_->send(fmt::format("{:x}\r\n{}\r\n", data.size(), data), true);
}

void Exchange::finish(bool close_connection) {
  if (!streaming()) return;
  done_ = true;
  if (!outlet_) return;
  if (close_connection) keep_alive_ = false;
  if (!http10_ && !head_) outlet_->send("0\r\n\r\n", false);
  outlet_->wake();
}

}  // namespace anabranch::server
