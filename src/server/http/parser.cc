#include "server/http/parser.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/lower_case.h"
#include "server/http/target.h"

namespace anabranch::server {
namespace {

constexpr size_t kChunkLineBytes = 512;  // a chunk's size and its extensions
constexpr size_t kMethodBytes = 32;

// Whether a token may have this character (RFC 9110, 5.6.2).
bool is_token_char(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), is_token_char);
}

// Whether a field's value may have this character (RFC 9110, 5.5): no control characters but tabs.
bool is_field_char(char c) {
  const auto u = static_cast<unsigned char>(c);
  return c == '\t' || (u >= 0x20 && u != 0x7f);
}

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

// Only blanks and tabs are white space around a field's value (RFC 9110, 5.6.3).
std::string_view trim(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// Whether a comma-separated list names the (lower-case) token.
bool lists(std::string_view list, std::string_view token) {
  while (true) {
    const size_t comma = list.find(',');
    if (lower_case(trim(list.substr(0, comma))) == token) return true;
    if (comma == std::string_view::npos) return false;
    list.remove_prefix(comma + 1);
  }
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

void RequestParser::fail(int status, std::string message, const char* code) {
  state_ = State::failed;
  fault_ = {status, std::move(message), "", code};
}

// Moves input to line_, up to the end of the line. True: line_ is a whole line, without its CRLF.
bool RequestParser::take_line(std::string_view input, size_t& used) {
  const size_t end = std::min(input.find('\n', used), input.size());
  const size_t bytes = std::min(end + 1, input.size()) - used;
  const bool chunk_line = state_ == State::body && body_ != Body::trailers;
  if (!chunk_line && (head_bytes_ += bytes) > header_bytes_) {
    fail(431, fmt::format("The request headers are larger than {} bytes", header_bytes_),
         "headers_too_large");
    return false;
  }
  line_.append(input, used, bytes);
  used += bytes;
  if (chunk_line && line_.size() > (body_ == Body::chunk_end ? 2 : kChunkLineBytes)) {
    fail(400, "Malformed HTTP request: a chunk is longer than its size says, or its size line too long");
    return false;
  }
  if (end == input.size()) return false;
  if (line_.size() < 2 || line_[line_.size() - 2] != '\r') {
    fail(400, "Malformed HTTP request: lines must end with CR LF");
    return false;
  }
  line_.resize(line_.size() - 2);
  return true;
}

size_t RequestParser::skip_empty_line(std::string_view input) {
  constexpr std::string_view kEmptyLine = "\r\n";
  size_t skipped = 0;
  while (head_bytes_ == 0 && empty_line_ < kEmptyLine.size() && skipped < input.size() &&
         input[skipped] == kEmptyLine[empty_line_])
    ++empty_line_, ++skipped;
  return skipped;
}

size_t RequestParser::take(std::string_view input) {
  size_t used = 0;
  if (state_ == State::head) {
    used = skip_empty_line(input);
    const bool begins = head_bytes_ == 0 && used < input.size();
    if (begins && (empty_line_ == 1 || !is_token_char(input[used]))) {
      fail(400, input[used] == '\x16' ? "This port speaks plain HTTP, and what came looks like TLS"
                                      : "Malformed HTTP request: it begins with no method");
      return used;
    }
    while (state_ == State::head && take_line(input, used)) {
      take_head_line(line_);
      line_.clear();
    }
  } else if (state_ == State::body) {
    while (state_ == State::body && used < input.size()) take_body(input, used);
  }
  return used;
}

void RequestParser::take_head_line(std::string_view line) {
  if (request_.method.empty()) {
    take_request_line(line);
  } else if (line.empty()) {
    end_head();
  } else {
    take_field(line, true);
  }
}

void RequestParser::take_request_line(std::string_view line) {
  const size_t first = line.find(' '), second = line.find(' ', std::min(first, line.size() - 1) + 1);
  if (line.empty() || first == line.npos || second == line.npos)
    return fail(400, "Malformed HTTP request: the first line must be 'METHOD TARGET HTTP/1.1'");
  const std::string_view method = line.substr(0, first), target = line.substr(first + 1, second - first - 1),
                         version = line.substr(second + 1);
  if (!is_token(method) || method.size() > kMethodBytes)
    return fail(400, "Malformed HTTP request: bad method");
  if (target.empty() ||
      !std::all_of(target.begin(), target.end(), [](char c) { return c > ' ' && c < 0x7f; }))
    return fail(400, "Malformed HTTP request: the target must be visible ASCII (escape the rest as %XX)");
  if (version != "HTTP/1.1" && version != "HTTP/1.0") {
    const bool other = version.size() == 8 && version.substr(0, 5) == "HTTP/" && version[6] == '.' &&
                       hex_digit(version[5]) >= 0 && hex_digit(version[7]) >= 0;
    if (other) return fail(505, "Only HTTP/1.1 and HTTP/1.0 are spoken here", "http_version_not_supported");
    return fail(400, "Malformed HTTP request: bad version");
  }
  request_.method = method;
  request_.target = target;
  http10_ = version == "HTTP/1.0";
}

// keep: false for trailers, which are checked and then discarded.
bool RequestParser::take_field(std::string_view line, bool keep) {
  const auto bad = [&](const char* why) {
    fail(400, fmt::format("Malformed HTTP request: {}", why));
    return false;
  };
  if (is_blank(line[0])) return bad("a header must not be folded over several lines");
  const size_t colon = line.find(':');
  if (colon == line.npos) return bad("a header without a colon");
  const std::string_view name = line.substr(0, colon), value = trim(line.substr(colon + 1));
  if (!is_token(name)) return bad("a header's name must be a token, right before its colon");
  if (!std::all_of(value.begin(), value.end(), is_field_char))
    return bad("a header's value contains a control character");
  if (keep) request_.headers.emplace_back(lower_case(name), value);
  return true;
}

void RequestParser::end_head() {
  const auto hosts = request_.count("host");
  if (hosts > 1) return fail(400, "More than one Host header");
  if (hosts == 0 && !http10_) return fail(400, "HTTP/1.1 requests must have a Host header");
  note_connection();
  find_body_length();
  if (state_ == State::failed) return;
  const std::string* expect = request_.header("expect");
  expects_continue_ = expect && !http10_ && lower_case(*expect) == "100-continue";
  state_ = body_ == Body::counted && left_ == 0 ? State::done : State::body;
}

void RequestParser::note_connection() {
  bool close = false, keep = !http10_;
  for (const auto& [name, value] : request_.headers) {
    if (name != "connection") continue;
    close |= lists(value, "close");
    keep |= lists(value, "keep-alive");
  }
  keep_alive_ = keep && !close;
}

// Finds the length of the body as in RFC 9112, 6.3. Refuses malformed requests that the RFC lets servers
// repair.
void RequestParser::find_body_length() {
  const auto codings = request_.count("transfer-encoding"), lengths = request_.count("content-length");
  if (codings > 0) {
    if (http10_) return fail(400, "HTTP/1.0 has no Transfer-Encoding");
    if (lengths > 0) return fail(400, "A request must not have both Transfer-Encoding and Content-Length");
    if (codings > 1 || lower_case(*request_.header("transfer-encoding")) != "chunked")
      return fail(400, "The only Transfer-Encoding that is understood is 'chunked'");
    body_ = Body::chunk_size;
    return;
  }
  if (lengths == 0) return;
  if (lengths > 1) return fail(400, "More than one Content-Length header");
  const std::string& length = *request_.header("content-length");
  if (length.empty() || length.find_first_not_of("0123456789") != length.npos)
    return fail(400, "Content-Length must be one decimal number");
  for (const char digit : length) {
    left_ = left_ * 10 + static_cast<uint64_t>(digit - '0');
    if (left_ > body_bytes_) break;  // stop before it overflows
  }
  if (left_ > body_bytes_)
    fail(413, fmt::format("The request body is larger than the limit of {} bytes", body_bytes_),
         "request_too_large");
}

// Appends the bytes that belong to the rest of the body or chunk, and returns how many they are.
size_t RequestParser::append(std::string_view bytes) {
  const size_t n = static_cast<size_t>(std::min<uint64_t>(left_, bytes.size()));
  request_.body.append(bytes, 0, n);
  left_ -= n;
  return n;
}

void RequestParser::take_body(std::string_view input, size_t& used) {
  if (body_ == Body::counted) {
    used += append(input.substr(used));
    if (left_ == 0) state_ = State::done;
    return;
  }
  if (body_ == Body::chunk) {
    used += append(input.substr(used));
    if (left_ == 0) body_ = Body::chunk_end;
    return;
  }
  if (!take_line(input, used)) return;
  const std::string line = std::exchange(line_, {});
  if (body_ == Body::chunk_size) return take_chunk_line(line);
  if (body_ == Body::trailers) {
    if (line.empty())
      state_ = State::done;
    else
      take_field(line, false);
    return;
  }
  body_ = Body::chunk_size;  // after the two bytes that end a chunk
}

// Parses the line before a chunk: chunk-size [ chunk-ext ]. Extensions are ignored.
void RequestParser::take_chunk_line(std::string_view line) {
  constexpr size_t kDigits = 16;  // of 64 bits
  size_t digits = 0;
  uint64_t size = 0;
  for (; digits < line.size() && digits <= kDigits && hex_digit(line[digits]) >= 0; ++digits)
    size = size * 16 + static_cast<uint64_t>(hex_digit(line[digits]));
  const std::string_view rest = line.substr(digits);
  const std::string_view extensions = trim(rest);
  const bool extended =
      !extensions.empty() && extensions[0] == ';' && std::all_of(rest.begin(), rest.end(), is_field_char);
  if (digits == 0 || digits > kDigits || (!rest.empty() && !extended))
    return fail(400, "Malformed HTTP request: bad chunk size");
  if (size > body_bytes_ - request_.body.size())
    return fail(413, fmt::format("The request body is larger than the limit of {} bytes", body_bytes_),
                "request_too_large");
  left_ = size;
  body_ = size == 0 ? Body::trailers : Body::chunk;
}

}  // namespace anabranch::server
