// Parses HTTP/1.1 requests (RFC 9112). Strict: a request is refused where proxies and servers are known to
// disagree about its end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/http/api_error.h"
#include "server/http/types.h"

namespace anabranch::server {

// One request. Takes bytes in portions of any size; the state says how far the request has been parsed.
class RequestParser {
 public:
  enum class State { head, body, done, failed };

  // Larger heads give 431, larger bodies 413.
  RequestParser(size_t header_bytes, size_t body_bytes)
      : header_bytes_(header_bytes), body_bytes_(body_bytes) {}

  // Takes this request's bytes from the front of `input` and returns how many they were. Stops at the end of
  // the head (call again for the body), at the end of the request, and at a fault.
  size_t take(std::string_view input);
  // Skips an empty line before the request (RFC 9112, 2.2), or the part of it that `input` begins with, and
  // returns how many bytes these are. take() does so, too.
  size_t skip_empty_line(std::string_view input);
  State state() const { return state_; }
  // Why the request is refused. The connection must end, because the start of the next request is unknown.
  const ApiError& fault() const { return fault_; }

  // Method, target and headers are complete after the head. The parser does not interpret the body.
  const HttpRequest& request() const { return request_; }
  // Moves the whole request out of the parser; call it when the state is done.
  HttpRequest take_request() { return std::move(request_); }
  size_t body_size() const { return request_.body.size(); }
  bool http10() const { return http10_; }
  bool keep_alive() const { return keep_alive_; }
  bool expects_continue() const { return expects_continue_; }

 private:
  // The part of the body that the next byte belongs to.
  enum class Body { counted, chunk_size, chunk, chunk_end, trailers };

  bool take_line(std::string_view input, size_t& used);
  void take_head_line(std::string_view line);
  void take_request_line(std::string_view line);
  bool take_field(std::string_view line, bool keep);
  void end_head();
  void find_body_length();
  void note_connection();
  void take_body(std::string_view input, size_t& used);
  void take_chunk_line(std::string_view line);
  size_t append(std::string_view bytes);
  void fail(int status, std::string message, const char* code = "bad_request");

  const size_t header_bytes_, body_bytes_;
  State state_ = State::head;
  Body body_ = Body::counted;
  ApiError fault_;
  HttpRequest request_;
  std::string line_;       // the part of the current line that has arrived
  size_t empty_line_ = 0;  // bytes of the empty line before the request
  size_t head_bytes_ = 0;  // of request line, fields and trailers so far
  uint64_t left_ = 0;      // bytes of the body or of the chunk that have not arrived yet
  bool http10_ = false, keep_alive_ = false, expects_continue_ = false;
};

}  // namespace anabranch::server
