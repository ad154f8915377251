#include "chat/template_traits.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <utility>
#include <vector>

#include "base/white_space.h"
#include "chat/message_text.h"

namespace anabranch {
namespace {

// A text that no template writes by itself, and no part of another such text.
std::string mark(size_t index) {
  return fmt::format("m7c1d{}x", index);
}

// Visits what must not be lost of a message: its texts, and its calls' arguments. Message: Json or const
// Json.
template <class Message, class VisitText, class VisitArguments>
void for_each_kept(Message& message, const VisitText& text, const VisitArguments& arguments) {
  for_each_text(message, text);
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (auto& call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    auto& function = call["function"];
    if (function.contains("arguments")) arguments(function["arguments"]);
  }
}

// Puts a mark into a call's arguments, which keep their form: an object, its JSON, or another text.
template <class Next>
void mark_arguments(Json& arguments, const Next& next) {
  if (arguments.is_object()) {
    if (!arguments.empty()) arguments = {{"key", next()}};
  } else if (arguments.is_string()) {
    const auto json = parse_json(arguments.get_ref<const std::string&>());
    if (!json.ok() || !json->is_object())
      arguments = next();
    else if (!json->empty())
      arguments = dump_json({{"key", next()}});
  }
}

// A conversation for a probe: each letter is a message.
Json conversation(std::string_view letters) {
  Json messages = Json::array();
  int calls = 0, results = 0;
  // Nine letters and digits, as Mistral's templates want.
  const auto id = [](int number) { return fmt::format("probe{:04}", number); };
  const auto add = [&](const char* role, Json content) -> Json& {
    messages.push_back({{"role", role}, {"content", std::move(content)}});
    return messages.back();
  };
  const auto add_calls = [&](const char* content, int count) {
    Json& list = add("assistant", content)["tool_calls"];
    for (int i = 0; i < count; i++)
      list.push_back({{"id", id(calls++)},
                      {"type", "function"},
                      {"function", {{"name", "probe_f"}, {"arguments", {{"key", "value"}}}}}});
  };
  for (const char letter : letters) switch (letter) {
      case 'S':
        add("system", "text");
        break;
      case 'U':
        add("user", "text");
        break;
      case 'u':
        add("user", "");
        break;
      case 'A':
        add("assistant", "text");
        break;
      case 'a':
        add("assistant", "");
        break;
      case 'p':
        add("assistant", Json::array({{{"type", "text"}, {"text", ""}}}));
        break;
      case 'C':
        add_calls("", 1);
        break;
      case 'D':
        add_calls("", 2);
        break;
      case 'B':
        add_calls("text", 1);
        break;
      default:  // a result
        add("tool", "text")["tool_call_id"] = id(results++);
        messages.back()["name"] = "probe_f";
    }
  return messages;
}

enum class Arguments { object, json, text };

Json with_arguments(Json messages, Arguments form) {
  if (form == Arguments::object) return messages;
  for (Json& message : messages)
    if (message.contains("tool_calls"))
      for (Json& call : message["tool_calls"]) {
        Json& arguments = call["function"]["arguments"];
        arguments = form == Arguments::json ? dump_json(arguments) : "text";
      }
  return messages;
}

enum class Ids { long_ones, none };

Json with_ids(Json messages, Ids ids) {
  const auto change = [&](Json& object, const char* key) {
    if (!object.contains(key)) return;
    if (ids == Ids::none)
      object.erase(key);
    else
      object[key] = "call_" + string_at(object, key) + "-abcdef.0123456789";
  };
  for (Json& message : messages) {
    change(message, "tool_call_id");
    if (message.contains("tool_calls"))
      for (Json& call : message["tool_calls"]) change(call, "id");
  }
  return messages;
}

const Json& probe_tools() {
  static const Json tools = Json::array(
      {{{"type", "function"},
        {"function",
         {{"name", "probe_f"},
          {"description", "A probe"},
          {"parameters", {{"type", "object"}, {"properties", {{"key", {{"type", "string"}}}}}}}}}}});
  return tools;
}

// Renders probes, with tools and without them, as far as the template takes the simplest conversation so.
class Prober {
 public:
  explicit Prober(const ChatTemplate& chat) : chat_(chat) {
    options_.now = 0;
    plain_ = renders(conversation("U"), nullptr);
    with_tools_ = renders(conversation("U"), probe_tools());
  }

  bool takes(const Json& messages) const {
    return (plain_ || with_tools_) && (!plain_ || renders(messages, nullptr)) &&
           (!with_tools_ || renders(messages, probe_tools()));
  }
  bool takes(std::initializer_list<std::string_view> conversations) const {
    return std::ranges::all_of(conversations, [&](auto letters) {
      return takes(with_arguments(conversation(letters), arguments_));
    });
  }
  // The form of arguments in the conversations from now on.
  void write_arguments_as(Arguments form) { arguments_ = form; }

 private:
  bool renders(const Json& messages, const Json& tools) const {
    return probe_texts(chat_, messages, tools, options_) == Texts::kept;
  }

  const ChatTemplate& chat_;
  TemplateOptions options_;
  bool plain_ = false, with_tools_ = false;
  Arguments arguments_ = Arguments::object;
};

}  // namespace

TemplateTraits probe_template(const ChatTemplate& chat) {
  Prober prober(chat);
  TemplateTraits traits;
  traits.system = prober.takes({"SU", "SUAU"});
  traits.several_systems = prober.takes({"SSU"});
  traits.late_system = prober.takes({"SUASU", "SUSAU", "SUS", "USAU", "SUAS"});
  traits.two_users = prober.takes({"UU", "UAUU", "UUAU"});
  traits.two_answers = prober.takes({"UAA", "UAAU"});
  traits.assistant_first = prober.takes({"AU", "AUAU"});
  traits.without_user = prober.takes({"A"}) && (!traits.system || prober.takes({"S", "SA"}));
  traits.empty_answer = prober.takes({"Ua", "UaU"});
  if (prober.takes({"uAU"})) traits.user_filler = "";
  if (traits.empty_answer)
    traits.answer_filler = "";
  else if (const Json part = conversation("UpU"); prober.takes(part))
    traits.answer_filler = part[1]["content"];
  traits.object_arguments = prober.takes({"UCT", "UCTAU"});
  if (!traits.object_arguments) prober.write_arguments_as(Arguments::json);
  traits.user_after_result = traits.lone_result = prober.takes({"UTAU", "UATU", "TAU"});
  traits.calls = traits.object_arguments || prober.takes({"UCT", "UCTAU"});
  if (!traits.calls) return traits;
  traits.system = traits.system && prober.takes({"SUCT"});
  traits.late_system = traits.late_system && prober.takes({"SUCTS", "UCTSAU"});
  traits.assistant_first = traits.assistant_first && prober.takes({"CTAU"});
  traits.without_user =
      traits.without_user && prober.takes({"CT"}) && (!traits.system || prober.takes({"SCT", "SCTA"}));
  traits.several_calls = prober.takes({"UDTT", "UDTTAU"});
  traits.text_with_last_calls = prober.takes({"UBT"});
  traits.text_with_calls = traits.text_with_last_calls && prober.takes({"UBTAU"});
  traits.text_before_calls = prober.takes({"UACT", "UACTAU"});
  traits.calls_after_calls = prober.takes({"UCCTT", "UCCTTAU"});
  traits.answer_after_call = prober.takes({"UCA", "UCAU"});
  traits.user_after_call = prober.takes({"UCU", "UCUAU"});
  traits.user_after_result = prober.takes({"UCTU", "UCTUAU"});
  traits.text_arguments = prober.takes(with_arguments(conversation("UCT"), Arguments::text));
  traits.any_id = prober.takes(with_ids(conversation("UCTAU"), Ids::long_ones));
  traits.no_id = prober.takes(with_ids(conversation("UCTAU"), Ids::none));
  return traits;
}

bool has_texts(const std::string& rendered, const Json& messages, size_t least) {
  size_t from = 0;
  bool all = true;
  for (const Json& message : messages) {
    size_t first = std::string::npos;
    const auto check = [&](const Json& text) {
      const auto part = trimmed(text.get_ref<const std::string&>());
      if (part.empty() || !all) return;
      const size_t at = part.size() < least ? std::string::npos : rendered.find(part, from);
      all = at != std::string::npos;
      first = std::min(first, at);
    };
    for_each_kept(message, check, [&](const Json& arguments) {
      if (arguments.empty()) return;
      const auto text =
          arguments.is_object() ? std::ranges::find_if(arguments, &Json::is_string) : arguments.begin();
      if (text == arguments.end())
        all = false;
      else
        check(*text);
    });
    if (!all) return false;
    if (first != std::string::npos) from = first + 1;
  }
  return true;
}

Texts probe_texts(const ChatTemplate& chat, const Json& messages, const Json& tools,
                  const TemplateOptions& options) {
  Json marked = messages;
  std::vector<bool> in_order;  // for each mark
  bool leading = true;
  for (Json& message : marked) {
    leading = leading && string_at(message, "role") == "system";
    const auto next = [&](bool ordered) {
      in_order.push_back(ordered);
      return mark(in_order.size() - 1);
    };
    const bool ordered = !leading && !message.contains("tool_calls");
    for_each_kept(
        message,
        [&](Json& text) {
          if (!is_blank(text.get_ref<const std::string&>())) text = next(ordered);
        },
        [&](Json& arguments) { mark_arguments(arguments, [&] { return next(true); }); });
  }
  const auto pieces = chat.render(marked, tools, options);
  if (!pieces.ok()) return Texts::refused;
  const std::string text = join(*pieces);
  size_t last = 0;
  for (size_t i = 0; i < in_order.size(); i++) {
    const size_t at = text.find(mark(i), in_order[i] ? last : 0);
    if (at == std::string::npos) return Texts::lost;
    if (in_order[i]) last = at;
  }
  return Texts::kept;
}

}  // namespace anabranch
