#include "server/api/continuation_fields.h"

#include "server/api/thinking_fields.h"

namespace anabranch::server {
namespace {

bool forces_call(const ToolChoice& choice) {
  return choice.kind == ToolChoice::Kind::required || choice.kind == ToolChoice::Kind::named;
}

bool is_assistant(const Json& message) {
  return string_at(message, "role") == "assistant";
}

// Whether the request asks to continue its final message.
struct ContinueWish {
  std::optional<bool> said;  // nothing if no field decides
  std::string field;         // the field that decides
};

std::optional<bool> opening_wish(JsonFields& fields) {
  if (const auto opening = fields.boolean("add_generation_prompt")) return opening;
  const Json* extra = fields.object("chat_template_kwargs");
  return extra ? JsonFields(*extra).boolean("add_generation_prompt") : std::nullopt;
}

// Reads "prefix" of the messages as the client sent them. Only the last message's value counts; returns it.
bool read_prefix(JsonFields& fields) {
  const Json* list = fields.array("messages");
  bool last = false;
  for (size_t i = 0; list && i < list->size(); i++) {
    const std::string where = fmt::format("messages[{}].", i);
    JsonFields message((*list)[i], where);
    last = message.boolean("prefix").value_or(false);
    if (last && !is_assistant((*list)[i]))
      message.fail("prefix", "invalid_value",
                   fmt::format("'{}prefix' is for messages of the assistant's only", where));
    if (message.error()) fields.fail(*message.error());
  }
  return last;
}

ContinueWish read_wish(JsonFields& fields) {
  ContinueWish wish{fields.boolean("continue_final_message"), "continue_final_message"};
  const auto fail = [&](const std::string& field, const std::string& other) {
    fields.fail(field, "invalid_value",
                fmt::format("{} contradicts {}: leave one of them out", field, other));
  };
  if (read_prefix(fields)) {
    if (wish.said == false) fail("continue_final_message", "the final message's \"prefix\": true");
    wish = {true, "prefix"};
  }
  if (opening_wish(fields) != true) return wish;
  if (wish.said == true) fail("add_generation_prompt", "'" + wish.field + "': true");
  wish.said = false;
  return wish;
}

// Removes the last message if it can be continued, and returns its text and reasoning.
std::optional<Continuation> take(JsonFields& fields, const std::string& field, Json& messages,
                                 const ToolChoice& choice) {
  const auto fail = [&](const std::string& message) {
    fields.fail(field, "invalid_value", fmt::format("'{}': {}", field, message));
    return std::nullopt;
  };
  if (messages.empty() || !is_assistant(messages.back()))
    return fail("the final message is not the assistant's, so there is nothing to continue");
  if (messages.back().contains("tool_calls"))
    return fail("the final message has tool calls, which nothing can continue; their results come next");
  if (forces_call(choice))
    return fail("'tool_choice' asks for a call, and no call can continue the final message's text");
  Continuation continuation{string_at(messages.back(), "content"),
                            string_at(messages.back(), "reasoning_content")};
  if (continuation.content.empty() && !continuation.reasoning.empty() &&
      read_thinking(fields).mode == ThinkMode::off)
    return fail("the final message is a thought to be continued, but thinking is turned off");
  messages.erase(messages.size() - 1);
  if (continuation.content.empty() && continuation.reasoning.empty()) return std::nullopt;
  return continuation;
}

}  // namespace

std::optional<Continuation> read_continuation(JsonFields& fields, Json& messages, const ToolChoice& choice) {
  const ContinueWish wish = read_wish(fields);
  if (fields.error() || wish.said == false) return std::nullopt;
  if (!wish.said) {
    const Json& last = messages.back();
    if (!is_assistant(last) || last.contains("tool_calls") || forces_call(choice)) return std::nullopt;
    return take(fields, "messages", messages, choice);
  }
  return take(fields, wish.field, messages, choice);
}

std::optional<Continuation> read_prefill(JsonFields& fields, Json& messages, const ToolChoice& choice) {
  if (!is_assistant(messages.back())) return std::nullopt;
  return take(fields, "messages", messages, choice);
}

}  // namespace anabranch::server
