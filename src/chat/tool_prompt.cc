#include "chat/tool_prompt.h"

#include <algorithm>

#include "chat/message_text.h"
#include "output/tool_json.h"

namespace anabranch {
namespace {

constexpr std::string_view kMark = "probe-7c1d";  // a text that no template writes by itself

// The rendered messages; "" if the template refuses them.
std::string rendered(const ChatTemplate& chat, const Json& messages) {
  TemplateOptions options;
  options.now = 0;
  const auto pieces = chat.render(messages, Json(), options);
  return pieces.ok() ? join(*pieces) : "";
}

bool takes_system(const ChatTemplate& chat) {
  const Json messages = Json::array({message_of("system", kMark), message_of("user", "A")});
  return rendered(chat, messages).find(kMark) != std::string::npos;
}

// The instructions: one tool per line, as the client described it.
std::string instructions(const Json& tools) {
  std::string text =
      "You can call the tools listed here, one JSON object per line, with their parameters as JSON "
      "schemas:\n<tools>\n";
  for (const Json& tool : tools)
    text += dump_json(tool.contains("function") ? tool["function"] : tool) + "\n";
  text +=
      "</tools>\nTo call a tool, write its name and its arguments as JSON between tags:\n"
      "<tool_call>\n{\"name\": \"NAME\", \"arguments\": {\"PARAMETER\": \"VALUE\"}}\n</tool_call>\n"
      "The result comes in the next message, between <tool_response> tags. Call a tool only where it helps.";
  return text;
}

std::string call_text(const Json& call) {
  const auto function = call.find("function");
  const Json& named = function != call.end() && function->is_object() ? *function : call;
  const auto arguments = named.find("arguments");
  std::string text = "{}";
  if (arguments != named.end())
    text = arguments->is_string() ? arguments->get<std::string>() : dump_json(*arguments);
  return fmt::format("<tool_call>\n{{\"name\": {}, \"arguments\": {}}}\n</tool_call>",
                     json_string(string_at(named, "name")), text);
}

bool has_images(const Json& content) {
  return content.is_array() &&
         std::ranges::any_of(content, [](const Json& part) { return string_at(part, "type") == "image"; });
}

void put_before(Json& message, const std::string& text) {
  Json content = text;
  append_content(content, message["content"], "\n\n");
  message["content"] = std::move(content);
}

void put_behind(Json& message, const std::string& text, const char* between) {
  append_content(message["content"], text, between);
}

// Appends the other message's content, with its images, between two texts.
void put_content_behind(Json& message, const Json& other, const std::string& before, const std::string& after,
                        const char* between) {
  Json whole = before;
  if (const auto content = other.find("content"); content != other.end())
    append_content(whole, has_images(*content) ? *content : Json(text_of(*content)), "");
  append_content(whole, after, "");
  append_content(message["content"], whole, between);
}

// A result as a part of a user message.
void put_result_behind(Json& message, const Json& result) {
  put_content_behind(message, result, "<tool_response>\n", "\n</tool_response>", "\n");
}

}  // namespace

Json result_as_user(const Json& result) {
  Json message = message_of("user", "");
  put_result_behind(message, result);
  return message;
}

Json with_calls_as_text(const Json& messages) {
  Json out = messages;
  for (Json& message : out) {
    const auto calls = message.is_object() ? message.find("tool_calls") : message.end();
    if (string_at(message, "role") != "assistant" || calls == message.end() || !calls->is_array()) continue;
    std::string text;
    for (const Json& call : *calls) text += (text.empty() ? "" : "\n") + call_text(call);
    message.erase("tool_calls");
    put_behind(message, text, "\n");
  }
  return out;
}

Json with_results_as_text(const Json& messages) {
  Json out = Json::array();
  bool results = false;  // the last message holds tool results
  for (const Json& message : messages) {
    const std::string role = string_at(message, "role");
    if (role == "tool") {
      if (!results) out.push_back(message_of("user", ""));
      put_result_behind(out.back(), message);
      results = true;
      continue;
    }
    if (role == "user" && results)
      put_content_behind(out.back(), message, "", "", "\n\n");
    else
      out.push_back(message);
    results = false;
  }
  return out;
}

namespace {

class ToolPrompt final : public ChatTemplate {
 public:
  explicit ToolPrompt(const ChatTemplate& chat) : chat_(chat), takes_system_(takes_system(chat)) {}

  Result<std::vector<PromptPiece>> render(const Json& messages, const Json& tools,
                                          const TemplateOptions& options) const override {
    if (!messages.is_array()) return chat_.render(messages, nullptr, options);
    Json out = with_results_as_text(with_calls_as_text(messages));
    if (tools.is_array() && !tools.empty()) add_instructions(out, instructions(tools));
    return chat_.render(out, nullptr, options);
  }
  bool mentions(std::string_view variable) const override {
    return variable == "tools" || chat_.mentions(variable);
  }

 private:
  void add_instructions(Json& messages, const std::string& text) const {
    if (!takes_system_) {
      for (Json& message : messages)
        if (string_at(message, "role") == "user") return put_before(message, text);
      messages.insert(messages.begin(), message_of("user", text));
    } else if (!messages.empty() && string_at(messages[0], "role") == "system") {
      put_behind(messages[0], text, "\n\n");
    } else {
      messages.insert(messages.begin(), message_of("system", text));
    }
  }

  const ChatTemplate& chat_;
  const bool takes_system_;
};

}  // namespace

std::unique_ptr<const ChatTemplate> with_tool_prompt(const ChatTemplate& chat) {
  return std::make_unique<ToolPrompt>(chat);
}

}  // namespace anabranch
