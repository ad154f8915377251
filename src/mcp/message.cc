#include "mcp/message.h"

namespace anabranch::mcp {
namespace {

constexpr size_t kMaxBatch = 1024;

Error no_message(const char* what) {
  return {ErrorKind::invalid, fmt::format("no JSON-RPC message: {}", what)};
}

Result<Message> read_request(Message message, const Json& json) {
  message.method = json["method"].get<std::string>();
  message.kind = json.contains("id") ? Message::Kind::request : Message::Kind::notification;
  if (message.kind == Message::Kind::request && message.id.is_null())
    return no_message("the id is neither a string nor an integer");
  const auto params = json.find("params");
  if (params == json.end() || params->is_null()) {
    message.body = Json::object();
  } else if (params->is_object()) {
    message.body = *params;
  } else {
    return no_message("'params' is no object");
  }
  return message;
}

Result<Message> read_error(Message message, const Json& error) {
  message.kind = Message::Kind::error;
  if (!error.is_object()) return no_message("'error' is no object");
  const auto code = error.find("code");
  if (code != error.end() && code->is_number_integer()) {
    const auto value = code->get<int64_t>();
    message.code = value < INT32_MIN || value > INT32_MAX ? kInternalError : static_cast<int>(value);
  }
  message.text = string_at(error, "message");
  return message;
}

Result<Message> read_message(const Json& json) {
  if (!json.is_object()) return no_message("it is no object");
  if (string_at(json, "jsonrpc") != "2.0") return no_message("\"jsonrpc\" is not \"2.0\"");
  Message message;
  if (const auto id = json.find("id"); id != json.end() && (id->is_string() || id->is_number_integer()))
    message.id = *id;
  if (const auto method = json.find("method"); method != json.end())
    return method->is_string() ? read_request(std::move(message), json)
                               : Result<Message>(no_message("'method' is no string"));
  if (const auto error = json.find("error"); error != json.end())
    return read_error(std::move(message), *error);
  const auto result = json.find("result");
  if (result == json.end()) return no_message("it has neither 'method' nor 'result' nor 'error'");
  if (!result->is_object()) return no_message("'result' is no object");
  if (message.id.is_null()) return no_message("a result without an id");
  message.kind = Message::Kind::result;
  message.body = *result;
  return message;
}

Json envelope() {
  return {{"jsonrpc", "2.0"}};
}

}  // namespace

Result<std::vector<Message>> parse_messages(std::string_view text, const Limits& limits) {
  TRY(const Json json, parse_json(text, {.bytes = limits.message_bytes, .depth = limits.message_depth}));
  std::vector<Message> out;
  if (!json.is_array()) {
    TRY(Message message, read_message(json));
    out.push_back(std::move(message));
    return out;
  }
  if (json.size() > kMaxBatch) return no_message("an array of too many");
  for (const Json& element : json) {
    TRY(Message message, read_message(element));
    out.push_back(std::move(message));
  }
  return out;
}

std::string request_text(const Json& id, const std::string& method, const Json& params) {
  Json out = envelope();
  out["id"] = id;
  out["method"] = method;
  if (!params.is_null()) out["params"] = params;
  return dump_json(out);
}

std::string notification_text(const std::string& method, const Json& params) {
  Json out = envelope();
  out["method"] = method;
  if (!params.is_null()) out["params"] = params;
  return dump_json(out);
}

std::string result_text(const Json& id, const Json& result) {
  Json out = envelope();
  out["id"] = id;
  out["result"] = result;
  return dump_json(out);
}

std::string error_text(const Json& id, int code, const std::string& message) {
  Json out = envelope();
  out["id"] = id;
  out["error"] = {{"code", code}, {"message", message}};
  return dump_json(out);
}

std::string answer_to(const Message& request) {
  if (request.method == "ping") return result_text(request.id, Json::object());
  return error_text(request.id, kMethodNotFound, "Anabranch does not offer this to servers");
}

}  // namespace anabranch::mcp
