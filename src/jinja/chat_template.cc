#include "jinja/chat_template.h"

#include <algorithm>
#include <array>

#include "jinja/parser.h"
#include "jinja/run.h"
#include "jinja/unicode.h"

namespace anabranch {
namespace {

using jinja::None;
using jinja::Text;
using jinja::Value;
using Pairs = std::vector<std::pair<Value, Value>>;
using Variables = std::vector<std::pair<std::string, Value>>;

constexpr size_t kProbeSteps = 100'000;
constexpr const char* kProbe = "a7f3 probe";

// The format of messages that the template accepts.
struct MessageFormat {
  bool parts = true;             // content may be a list of parts
  bool thinking_key = false;     // the reasoning's key is "thinking"; with calls, it takes no text beside it
  bool thinking_parts = false;   // reasoning is such a part: {"type": "thinking", "thinking": ...}
  bool parsed_arguments = true;  // a tool call's arguments are an object
};

Text own(std::string_view text) {
  return Text(std::string(text), true);
}

// Usual role names are trusted: templates build markers from them ('<|' + role + '|>'), and a name from a
// fixed set cannot carry the text of a message.
Value role_value(const Json& role) {
  static constexpr std::array kRoles{"system",    "user",        "assistant",    "tool",
                                     "developer", "function",    "ipython",      "model",
                                     "tool_call", "observation", "tool_response"};
  if (!role.is_string()) return jinja::from_json(role);
  const std::string& name = role.get_ref<const std::string&>();
  return Text(jinja::sanitize_utf8(name), std::find(kRoles.begin(), kRoles.end(), name) != kRoles.end());
}

bool only_text_parts(const Json& content) {
  return content.is_array() && std::all_of(content.begin(), content.end(), [](const Json& part) {
           return part.is_object() && part.contains("text") && part["text"].is_string() &&
                  (!part.contains("type") || part["type"] == "text");
         });
}

Value content_value(const Json& content, const MessageFormat& format) {
  if (format.parts || !content.is_array() || content.empty()) return jinja::from_json(content);
  if (!only_text_parts(content))
    jinja::fail("this model's chat template takes only text, but a message has a part of another type");
  std::string joined;
  for (const Json& part : content) {
    if (!joined.empty()) joined += "\n";
    joined += part["text"].get_ref<const std::string&>();
  }
  return jinja::untrusted(jinja::sanitize_utf8(joined));
}

// {"name", "arguments"}, with the arguments parsed if they are a JSON object in a string.
Value function_value(const Json& function, bool& parsed_any) {
  Pairs pairs;
  for (const auto& [key, item] : function.get_ref<const Json::object_t&>()) {
    Value value = jinja::from_json(item);
    if (key == "arguments" && item.is_string()) {
      const std::string& text = item.get_ref<const std::string&>();
      Result<Json> object = parse_json(text.empty() ? "{}" : text);
      if (object.ok() && object->is_object()) {
        value = jinja::from_json(*object);
        parsed_any = true;
      }
    }
    pairs.emplace_back(jinja::untrusted(jinja::sanitize_utf8(key)), std::move(value));
  }
  return jinja::make_dict(std::move(pairs));
}

Value tool_call_value(const Json& call, bool& parsed_any) {
  if (!call.is_object()) return jinja::from_json(call);
  if (!call.contains("function")) return function_value(call, parsed_any);
  Pairs pairs;
  for (const auto& [key, item] : call.get_ref<const Json::object_t&>())
    pairs.emplace_back(jinja::untrusted(jinja::sanitize_utf8(key)), key == "function" && item.is_object()
                                                                        ? function_value(item, parsed_any)
                                                                        : jinja::from_json(item));
  return jinja::make_dict(std::move(pairs));
}

// The reasoning of an assistant's message, under any of its names; null if there is none.
const Json* reasoning_of(const Json& message) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"})
    if (const auto it = message.find(name); it != message.end() && !it->is_null()) return &*it;
  return nullptr;
}

// The content with the reasoning as its first part.
Json with_thinking_part(const Json& message, const Json& reasoning) {
  Json parts = Json::array({{{"type", "thinking"}, {"thinking", reasoning}}});
  const auto content = message.find("content");
  if (content == message.end()) return parts;
  if (content->is_string() && *content != "") parts.push_back({{"type", "text"}, {"text", *content}});
  if (content->is_array()) parts.insert(parts.end(), content->begin(), content->end());
  return parts;
}

// The text, too, as reasoning.
Json with_text_as_thinking(const Json& message, const std::string& reasoning) {
  const Json content = message.value("content", Json());
  std::string thinking = reasoning;
  const auto add = [&](const std::string& text) { thinking += (thinking.empty() ? "" : "\n\n") + text; };
  if (content.is_string() && content != "") add(content.get_ref<const std::string&>());
  if (only_text_parts(content))
    for (const Json& part : content) add(part["text"].get_ref<const std::string&>());
  Json out = message;
  out["thinking"] = std::move(thinking);
  out["content"] = "";
  return out;
}

bool has_calls(const Json& message) {
  const auto calls = message.find("tool_calls");
  return calls != message.end() && calls->is_array() && !calls->empty();
}

Value message_value(const Json& given, const MessageFormat& format, bool& parsed_any) {
  if (!given.is_object()) jinja::fail("a message is not an object");
  const Json* reasoning = reasoning_of(given);
  const bool thinks =
      reasoning && reasoning->is_string() && *reasoning != "" && given.value("role", Json()) == "assistant";
  const Json content = given.value("content", Json());
  Json changed;
  if (thinks && format.thinking_parts) {
    changed = given;
    changed["content"] = with_thinking_part(given, *reasoning);
  } else if (thinks && format.thinking_key && has_calls(given) &&
             (content.is_string() || only_text_parts(content))) {
    changed = with_text_as_thinking(given, reasoning->get_ref<const std::string&>());
  }
  const Json& message = changed.is_null() ? given : changed;
  Pairs pairs;
  for (const auto& [key, item] : message.get_ref<const Json::object_t&>()) {
    Value value;
    if (key == "role") {
      value = role_value(item);
    } else if (key == "content") {
      value = content_value(item, format);
    } else if (key == "tool_calls" && format.parsed_arguments && item.is_array()) {
      std::vector<Value> calls;
      for (const Json& call : item) calls.push_back(tool_call_value(call, parsed_any));
      value = jinja::make_list(std::move(calls));
    } else {
      value = jinja::from_json(item);
    }
    pairs.emplace_back(jinja::untrusted(jinja::sanitize_utf8(key)), std::move(value));
  }
  if (reasoning && !(message.contains("reasoning_content") && !message["reasoning_content"].is_null()))
    pairs.emplace_back(own("reasoning_content"), jinja::from_json(*reasoning));
  // gpt-oss' template tests whether the key exists.
  if (format.thinking_key && reasoning && reasoning->is_string() && !message.contains("thinking"))
    pairs.emplace_back(own("thinking"), jinja::from_json(*reasoning));
  return jinja::make_dict(std::move(pairs));
}

// The tools as the templates need them that cannot do without: Apertus' reads a description of each tool,
// which the API does not ask for, and Hermes' a list where there are none.
Json with_descriptions(const Json& tools) {
  Json out = tools.is_null() ? Json::array() : tools;
  for (Json& tool : out) {
    if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) continue;
    Json& description = tool["function"]["description"];
    if (description.is_null()) description = "";
  }
  return out;
}

class Template final : public ChatTemplate {
 public:
  Template(std::unique_ptr<const jinja::Ast> ast, std::string bos, std::string eos)
      : ast_(std::move(ast)), bos_(std::move(bos)), eos_(std::move(eos)) {
    format_.parts = renders("user", "content", part("text"));
    format_.thinking_parts = format_.parts && renders("assistant", "content", part("thinking")) &&
                             !renders("assistant", "reasoning_content", own(kProbe));
    format_.thinking_key = renders("assistant", "thinking", own(kProbe), false) &&
                           !renders("assistant", "reasoning_content", own(kProbe), false);
  }

  Result<std::vector<PromptPiece>> render(const Json& messages, const Json& tools,
                                          const TemplateOptions& options) const override {
    if (!messages.is_array()) return make_error(ErrorKind::invalid, "messages must be an array");
    if (!tools.is_null() && !tools.is_array())
      return make_error(ErrorKind::invalid, "tools must be an array");
    if (!options.extra.is_object())
      return make_error(ErrorKind::invalid, "chat_template_kwargs must be an object");
    auto first = render_arguments(messages, tools, options);
    if (first.ok() || first.error().kind != ErrorKind::invalid) return first;
    const Json other = with_descriptions(tools);
    if (other == tools) return first;
    auto second = render_arguments(messages, other, options);
    return second.ok() ? std::move(second) : std::move(first);
  }

  bool mentions(std::string_view variable) const override {
    return ast_->symbol_of.count(std::string(variable)) > 0;
  }

 private:
  Result<std::vector<PromptPiece>> render_arguments(const Json& messages, const Json& tools,
                                                    const TemplateOptions& options) const {
    MessageFormat format = format_;
    bool parsed_any = false;
    Result<std::vector<PromptPiece>> first = attempt(messages, tools, options, format, parsed_any);
    if (first.ok() || !parsed_any || first.error().kind != ErrorKind::invalid) return first;
    // Some templates (such as DeepSeek's) append the arguments to a string, so they take no object.
    format.parsed_arguments = false;
    Result<std::vector<PromptPiece>> second = attempt(messages, tools, options, format, parsed_any);
    return second.ok() ? std::move(second) : std::move(first);
  }

  Result<std::vector<PromptPiece>> attempt(const Json& messages, const Json& tools,
                                           const TemplateOptions& options, const MessageFormat& format,
                                           bool& parsed_any) const {
    try {
      Variables variables;
      for (const auto& [key, item] : options.extra.items())
        variables.emplace_back(key, jinja::from_json(item));
      std::vector<Value> list;
      for (const Json& message : messages) list.push_back(message_value(message, format, parsed_any));
      variables.emplace_back("messages", jinja::make_list(std::move(list)));
      variables.emplace_back("tools", jinja::from_json(tools));
      if (!options.extra.contains("documents")) variables.emplace_back("documents", None{});
      if (options.enable_thinking) variables.emplace_back("enable_thinking", *options.enable_thinking);
      variables.emplace_back("add_generation_prompt", options.add_generation_prompt);
      variables.emplace_back("bos_token", own(bos_));
      variables.emplace_back("eos_token", own(eos_));
      return pieces(jinja::evaluate(*ast_, variables, options.now));
    } catch (jinja::Failure& failure) {
      return std::move(failure.error);
    }
  }

  static std::vector<PromptPiece> pieces(const Text& text) {
    std::vector<PromptPiece> out;
    size_t begin = 0;
    for (const Text::Run& run : text.runs()) {
      out.push_back({text.bytes().substr(begin, run.end - begin), run.trusted});
      begin = run.end;
    }
    return out;
  }

  // [{"type": TYPE, TYPE: kProbe}]
  static Value part(const std::string& type) {
    return jinja::make_list({jinja::make_dict({{own("type"), own(type)}, {own(type), own(kProbe)}})});
  }

  // Whether the template renders kProbe in this field of a message, and not as Python prints a list.
  // open: an answer is to follow.
  bool renders(const std::string& role, const std::string& field, const Value& value,
               bool open = true) const {
    std::vector<Value> messages;
    if (role != "user")  // a user begins the conversation
      messages.push_back(jinja::make_dict({{own("role"), own("user")}, {own("content"), own("A")}}));
    Pairs pairs{{own("role"), own(role)}, {own(field), value}};
    if (field != "content") pairs.emplace_back(own("content"), own("B"));
    messages.push_back(jinja::make_dict(std::move(pairs)));
    Variables variables{{"messages", jinja::make_list(std::move(messages))},
                        {"tools", None{}},
                        {"documents", None{}},
                        {"add_generation_prompt", open},
                        {"bos_token", own(bos_)},
                        {"eos_token", own(eos_)}};
    try {
      const std::string out = jinja::evaluate(*ast_, variables, 0, kProbeSteps).bytes();
      const auto has = [&](const char* text) { return out.find(text) != std::string::npos; };
      return has(kProbe) && !has("'type'") && !has("\"type\"");
    } catch (const jinja::Failure&) {
      return false;
    }
  }

  std::unique_ptr<const jinja::Ast> ast_;
  std::string bos_, eos_;
  MessageFormat format_;
};

}  // namespace

Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::parse(std::string_view source, std::string bos,
                                                                std::string eos) {
  try {
    return std::shared_ptr<const ChatTemplate>(
        std::make_shared<const Template>(jinja::parse(source), std::move(bos), std::move(eos)));
  } catch (jinja::Failure& failure) {
    return std::move(failure.error);
  }
}

std::string join(const std::vector<PromptPiece>& pieces) {
  std::string out;
  for (const PromptPiece& piece : pieces) out += piece.text;
  return out;
}

}  // namespace anabranch
