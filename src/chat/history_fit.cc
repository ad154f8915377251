#include "chat/history_fit.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/white_space.h"
#include "chat/call_arguments.h"
#include "chat/call_ids.h"
#include "chat/message_text.h"
#include "chat/tool_prompt.h"

namespace anabranch {
namespace {

constexpr const char* kBetween = "\n\n";  // between two texts that become one message
constexpr size_t kShortText = 24;         // such a text may stand somewhere else in a prompt by chance

bool has_role(const Json& message, const char* role) {
  return string_at(message, "role") == role;
}

bool is_answer(const Json& message) {
  return has_role(message, "assistant");
}

size_t count_calls(const Json& message) {
  const auto calls = message.find("tool_calls");
  return calls == message.end() || !calls->is_array() ? 0 : calls->size();
}

bool has_text(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end()) return false;
  if (!content->is_array()) return !is_blank(text_of(*content));
  return std::ranges::any_of(*content, [](const Json& part) {
    return string_at(part, "type") != "text" || !is_blank(string_at(part, "text"));
  });
}

void append_to(Json& message, const Json& other) {
  append_content(message["content"], other.value("content", Json()), kBetween);
}

// Puts a content before the message's own.
void put_before(Json& message, Json content) {
  append_content(content, message.value("content", Json()), kBetween);
  message["content"] = std::move(content);
}

// Moves thoughts out of the message's texts. Within a joined text, a template would take all before them for
// a thought, and leave it out.
void take_thoughts(Json& message) {
  constexpr std::string_view kOpen = "<think>", kClose = "</think>";
  std::string thoughts = string_at(message, "reasoning_content");
  for_each_text(message, [&](Json& text) {
    const std::string whole = text.get<std::string>();
    const size_t close = whole.rfind(kClose);
    if (close == whole.npos) return;
    // In quotes or before a comma the tag is only mentioned.
    const size_t behind = close + kClose.size();
    if (behind < whole.size() && std::string_view("`'\",.;:)").find(whole[behind]) != std::string_view::npos)
      return;
    auto thought = trimmed(std::string_view(whole).substr(0, close));
    if (thought.starts_with(kOpen)) thought = trimmed(thought.substr(kOpen.size()));
    thoughts.append(thoughts.empty() ? "" : kBetween).append(thought);
    text = whole.substr(std::min(whole.find_first_not_of(kSpace, close + kClose.size()), whole.size()));
  });
  if (!thoughts.empty()) message["reasoning_content"] = std::move(thoughts);
}

// One answer from two that follow each other.
void append_answer(Json& answer, Json other) {
  take_thoughts(other);
  append_to(answer, other);
  const std::string more = string_at(other, "reasoning_content");
  if (!more.empty()) {
    const std::string thought = string_at(answer, "reasoning_content");
    answer["reasoning_content"] = thought.empty() ? more : thought + kBetween + more;
  }
  if (count_calls(other) == 0) return;
  Json& calls = answer["tool_calls"];
  for (const Json& call : other["tool_calls"]) calls.push_back(call);
}

// Whether the message at `at` is a result of a call: it follows a message with calls, with nothing but other
// results in between, and names one of these calls, or none.
bool has_call(const Json& messages, size_t at) {
  if (!has_role(messages[at], "tool")) return false;
  constexpr size_t kMostResults = 512;  // of one turn; beyond them, each would take as many steps
  size_t before = at;
  while (before > 0 && at - before < kMostResults && has_role(messages[before - 1], "tool")) before--;
  if (before == 0) return false;
  const Json& caller = messages[before - 1];
  if (at - before >= count_calls(caller)) return false;
  const auto id = messages[at].find("tool_call_id");
  if (id == messages[at].end() || *id == "") return true;
  return std::ranges::any_of(caller["tool_calls"], [&](const Json& call) {
    return call.is_object() && (!call.contains("id") || call["id"] == *id);
  });
}

// Results without their calls become texts of the user.
Json without_lone_results(const Json& messages) {
  Json out = Json::array();
  for (size_t i = 0; i < messages.size(); i++)
    out.push_back(has_role(messages[i], "tool") && !has_call(messages, i) ? result_as_user(messages[i])
                                                                          : messages[i]);
  return out;
}

// Joins the system messages at the beginning into one; if the template takes none, into a message of the
// user.
Json with_fitted_instructions(const Json& messages, const TemplateTraits& traits) {
  size_t leading = 0;
  while (leading < messages.size() && has_role(messages[leading], "system")) leading++;
  if (leading == 0 || (traits.system && (leading == 1 || traits.several_systems))) return messages;
  Json out = Json::array({messages[0]});
  for (size_t i = 1; i < leading; i++) append_to(out[0], messages[i]);
  size_t next = leading;
  if (!traits.system) {
    out[0]["role"] = "user";
    if (next < messages.size() && has_role(messages[next], "user")) append_to(out[0], messages[next++]);
  }
  for (; next < messages.size(); next++) out.push_back(messages[next]);
  return out;
}

// Later system messages become the beginning of the user's next message if it follows them, otherwise
// messages of the user. Nothing may stand between a call and its result: there they become the result's
// beginning.
Json without_late_instructions(const Json& messages) {
  Json out = Json::array(), late;
  bool leading = true;
  for (const Json& message : messages) {
    const bool system = has_role(message, "system");
    leading = leading && system;
    if (system && !leading) {
      append_content(late, message.value("content", Json()), kBetween);
      continue;
    }
    out.push_back(message);
    if (late.is_null()) continue;
    Json content = std::exchange(late, Json());
    if (has_role(message, "user") || has_call(out, out.size() - 1))
      put_before(out.back(), std::move(content));
    else
      out.insert(out.end() - 1, message_of("user", std::move(content)));
  }
  if (!late.is_null()) out.push_back(message_of("user", std::move(late)));
  return out;
}

// The results behind the message at `at`, each moved behind its call: the message becomes several with one
// call each. Returns the index of the last result.
size_t split_calls(const Json& messages, size_t at, Json& out) {
  const Json& calls = messages[at]["tool_calls"];
  std::vector<const Json*> results;
  while (at + 1 < messages.size() && has_role(messages[at + 1], "tool")) results.push_back(&messages[++at]);
  const Json message = out.back();
  out.erase(out.size() - 1);
  for (size_t i = 0; i < calls.size(); i++) {
    out.push_back(i == 0 ? message : message_of("assistant", ""));
    out.back()["tool_calls"] = Json::array({calls[i]});
    const std::string id = calls[i].is_object() ? string_at(calls[i], "id") : "";
    auto own = std::ranges::find_if(
        results, [&](const Json* result) { return !id.empty() && string_at(*result, "tool_call_id") == id; });
    if (own == results.end())
      own = std::ranges::find_if(
          results, [](const Json* result) { return string_at(*result, "tool_call_id").empty(); });
    if (own == results.end()) continue;
    out.push_back(**own);
    results.erase(own);
  }
  for (const Json* result : results) out.push_back(*result);
  return at;
}

// One call in each message, and no text beside calls, as far as the template wants that.
Json with_split_calls(const Json& messages, const TemplateTraits& traits) {
  size_t last = messages.size();  // no answer follows from here on
  while (last > 0 && (!is_answer(messages[last - 1]) || count_calls(messages[last - 1]) > 0)) last--;
  Json out = Json::array();
  for (size_t i = 0; i < messages.size(); i++) {
    Json message = messages[i];
    const size_t calls = count_calls(message);
    const bool takes_text = traits.text_with_calls || (traits.text_with_last_calls && i >= last);
    if (calls > 0 && !takes_text && has_text(message)) {
      Json text = message;
      text.erase("tool_calls");
      message["content"] = "";
      message.erase("reasoning_content");
      out.push_back(std::move(text));
    }
    out.push_back(std::move(message));
    if (calls > 1 && !traits.several_calls) i = split_calls(messages, i, out);
  }
  return out;
}

// Puts the messages into an order of roles that the template takes, one after another: neighbours become one
// message, or a filler stands between them.
class Order {
 public:
  explicit Order(const TemplateTraits& traits) : traits_(traits) {}

  void add(const Json& message) {
    if (has_role(message, "system")) {
      out_.push_back(message);
      return;
    }
    if (!has_turns() && !has_role(message, "user") && !traits_.assistant_first) fill("user");
    if (has_role(message, "user"))
      add_user(message);
    else if (is_answer(message))
      add_answer(message);
    else
      out_.push_back(message);
  }

  Json take() {
    const bool asked = std::ranges::any_of(out_, [](const Json& m) { return has_role(m, "user"); });
    if (out_.empty() || (!asked && !traits_.without_user)) {
      const bool system = !out_.empty() && has_role(out_[0], "system");
      out_.insert(out_.begin() + system, message_of("user", traits_.user_filler));
    }
    return std::move(out_);
  }

 private:
  bool has_turns() const { return !out_.empty() && !has_role(out_.back(), "system"); }
  void fill(const char* role) {
    out_.push_back(
        message_of(role, role == std::string_view("user") ? traits_.user_filler : traits_.answer_filler));
  }

  void add_user(const Json& message) {
    if (has_turns()) {
      Json& last = out_.back();
      if (has_role(last, "user") && !traits_.two_users) return append_to(last, message);
      if ((count_calls(last) > 0 && !traits_.user_after_call) ||
          (has_role(last, "tool") && !traits_.user_after_result))
        fill("assistant");
    }
    out_.push_back(message);
  }

  void add_answer(Json message) {
    const bool calls = count_calls(message) > 0;
    if (!calls && !has_text(message) && !traits_.empty_answer) message["content"] = traits_.answer_filler;
    if (has_turns() && is_answer(out_.back()) && !takes_behind(out_.back(), message)) {
      if (is_one_turn(out_.back(), message)) return append_answer(out_.back(), std::move(message));
      fill("user");
    }
    out_.push_back(std::move(message));
  }

  // Whether the template takes an answer directly behind another one.
  bool takes_behind(const Json& last, const Json& message) const {
    if (count_calls(last) > 0)
      return count_calls(message) > 0 ? traits_.calls_after_calls : traits_.answer_after_call;
    return count_calls(message) > 0 ? traits_.text_before_calls : traits_.two_answers;
  }
  // Whether the template takes both as one answer, which has its text before its calls.
  bool is_one_turn(const Json& last, const Json& message) const {
    const size_t before = count_calls(last), calls = before + count_calls(message);
    if (before > 0 && has_text(message)) return false;
    return (calls < 2 || traits_.several_calls) && (calls == 0 || traits_.text_with_calls || !has_text(last));
  }

  const TemplateTraits& traits_;
  Json out_ = Json::array();
};

}  // namespace

Json fit_history(const Json& given, const TemplateTraits& traits) {
  Json messages = traits.calls         ? given
                  : traits.lone_result ? with_calls_as_text(given)
                                       : with_results_as_text(with_calls_as_text(given));
  for (Json& message : messages)
    if (message.value("content", Json()).is_null()) message["content"] = "";
  if (!traits.text_arguments) name_text_arguments(messages);
  if (traits.calls && !traits.object_arguments) write_object_arguments(messages);
  if (!traits.lone_result) messages = without_lone_results(messages);
  messages = with_fitted_instructions(messages, traits);
  if (!traits.late_system) messages = without_late_instructions(messages);
  messages = with_split_calls(messages, traits);
  Order order(traits);
  for (const Json& message : messages) order.add(message);
  messages = order.take();
  if (!traits.any_id || (!traits.no_id && misses_ids(messages))) shorten_call_ids(messages);
  return messages;
}

namespace {

class FittedHistory final : public ChatTemplate {
 public:
  explicit FittedHistory(const ChatTemplate& chat)
      : chat_(chat), traits_(probe_template(chat)), strict_(strict(traits_)), plain_(strict(traits_)) {
    strict_.calls = traits_.calls;
    strict_.object_arguments = traits_.object_arguments;
  }

  Result<std::vector<PromptPiece>> render(const Json& messages, const Json& tools,
                                          const TemplateOptions& options) const override {
    if (!messages.is_array() || !std::ranges::all_of(messages, [](const Json& m) { return m.is_object(); }))
      return chat_.render(messages, tools, options);
    if (!has_unread_arguments(messages)) return render_read(messages, tools, options);
    Json read = messages;
    read_all_arguments(read);
    return render_read(read, tools, options);
  }
  bool mentions(std::string_view variable) const override { return chat_.mentions(variable); }

 private:
  // messages: with their arguments read.
  Result<std::vector<PromptPiece>> render_read(const Json& messages, const Json& tools,
                                               const TemplateOptions& options) const {
    auto first = attempt(messages, tools, options);
    if (first.complete || first.is_final()) return std::move(first.pieces);
    for (const TemplateTraits* traits : {&traits_, &strict_, &plain_}) {
      auto next = attempt(fit_history(messages, *traits), tools, options);
      if (next.complete || (next.pieces.ok() && !first.pieces.ok())) first = std::move(next);
      if (first.complete) break;
    }
    return std::move(first.pieces);
  }

  struct Attempt {
    Result<std::vector<PromptPiece>> pieces;
    bool complete = false;  // rendered, and no text is lost
    // Whether other messages would not help.
    bool is_final() const { return !pieces.ok() && pieces.error().kind != ErrorKind::invalid; }
  };

  Attempt attempt(const Json& messages, const Json& tools, const TemplateOptions& options) const {
    Attempt attempt{chat_.render(messages, tools, options)};
    attempt.complete = attempt.pieces.ok() && (has_texts(join(*attempt.pieces), messages, kShortText) ||
                                               probe_texts(chat_, messages, tools, options) != Texts::lost);
    return attempt;
  }

  // Everything that a template could refuse is adapted.
  static TemplateTraits strict(const TemplateTraits& traits) {
    return {.user_filler = traits.user_filler, .answer_filler = traits.answer_filler};
  }

  const ChatTemplate& chat_;
  const TemplateTraits traits_;
  TemplateTraits strict_, plain_;  // for what the traits do not tell: with native calls, and with none
};

}  // namespace

std::unique_ptr<const ChatTemplate> with_fitted_history(const ChatTemplate& chat) {
  return std::make_unique<FittedHistory>(chat);
}

}  // namespace anabranch
