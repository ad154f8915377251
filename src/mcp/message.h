// JSON-RPC 2.0 messages as MCP uses them: conversion from and to text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "mcp/limits.h"

namespace anabranch::mcp {

// Error codes of JSON-RPC.
constexpr int kParseError = -32700, kInvalidRequest = -32600, kMethodNotFound = -32601,
              kInvalidParams = -32602, kInternalError = -32603;

struct Message {
  enum class Kind { request, notification, result, error };
  Kind kind = Kind::notification;
  Json id;             // a string or an integer; null: none (notifications, and some errors)
  std::string method;  // for requests and notifications
  Json body;           // params (an object) or the result (an object)
  int code = 0;        // for errors
  std::string text;    // for errors: the other side's text
};

// One message, or the elements of an array of them (protocol 2025-03-26). Errors: invalid (not JSON, not a
// message), exhausted (too long, nested too deeply); the error is one line and does not quote the text.
Result<std::vector<Message>> parse_messages(std::string_view text, const Limits& limits);

// Each on one line, without a line feed. id: a string or an integer; params: an object, or null for none.
std::string request_text(const Json& id, const std::string& method, const Json& params);
std::string notification_text(const std::string& method, const Json& params);
std::string result_text(const Json& id, const Json& result);
std::string error_text(const Json& id, int code, const std::string& message);

// A client's answer to a request from its server: supports `ping` and nothing else.
std::string answer_to(const Message& request);

}  // namespace anabranch::mcp
