// JSON-RPC 2.0 messages as MCP uses them, from and to text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "mcp/limits.h"

namespace anabranch::mcp {

// Errors of JSON-RPC.
constexpr int kParseError = -32700, kInvalidRequest = -32600, kMethodNotFound = -32601,
              kInvalidParams = -32602, kInternalError = -32603;

struct Message {
  enum class Kind { request, notification, result, error };
  Kind kind = Kind::notification;
  Json id;             // a string or an integer; null: none (notifications, and some errors)
  std::string method;  // of requests and notifications
  Json body;           // params (an object) or the result (an object)
  int code = 0;        // of errors
  std::string text;    // of errors, what the other side says
};

// One message, or the elements of an array of them (protocol 2025-03-26). Errors: invalid (no JSON, no
// message), exhausted (too long, nested too deeply); one line, without the text itself.
Result<std::vector<Message>> parse_messages(std::string_view text, const Limits& limits);

// Each on one line, without a line feed. id: a string or an integer; params: an object, or null for none.
std::string request_text(const Json& id, const std::string& method, const Json& params);
std::string notification_text(const std::string& method, const Json& params);
std::string result_text(const Json& id, const Json& result);
std::string error_text(const Json& id, int code, const std::string& message);

// What a client answers a request of its server's: `ping`, and nothing else is offered.
std::string answer_to(const Message& request);

}  // namespace anabranch::mcp
