#include "sessions/session_text.h"

#include <algorithm>

#include "base/clock.h"
#include "sessions/session_store.h"

namespace anabranch {
namespace {

constexpr size_t kMaxSessions = 10'000;  // per text

// "2026-01-31 23:59"
std::string minute_text(int64_t unix_seconds) {
  std::string text = rfc3339(unix_seconds * 1'000'000'000).substr(0, 16);
  std::replace(text.begin(), text.end(), 'T', ' ');
  return text;
}

// A fenced block whose fence is longer than every run of backticks in the text.
std::string fenced(std::string_view text, std::string_view language) {
  size_t longest = 2, run = 0;
  for (const char c : text) longest = std::max(longest, run = c == '`' ? run + 1 : 0);
  const std::string fence(longest + 1, '`');
  return fmt::format("{}{}\n{}\n{}\n", fence, language, text, fence);
}

std::string quote(std::string_view text) {
  std::string out = "> ";
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "> ";
  }
  return out + "\n";
}

std::string message_markdown(const SessionMessage& one) {
  const std::string role = string_at(one.message, "role"), content = string_at(one.message, "content");
  std::string name = role == "user" ? "User" : role == "system" ? "System" : "Assistant";
  if (role == "tool") {
    const auto mcp = one.about.find("mcp");
    const std::string tool = mcp == one.about.end() ? "" : string_at(*mcp, "name");
    return fmt::format("### Result{}{}\n\n{}", tool.empty() ? "" : " of ", tool, fenced(content, ""));
  }
  std::string text = fmt::format("## {}\n", name);
  if (const std::string thought = string_at(one.message, "reasoning_content"); !thought.empty())
    text += "\n*Thought:*\n\n" + quote(thought);
  if (!content.empty()) text += fmt::format("\n{}{}", content, content.back() == '\n' ? "" : "\n");
  if (const auto images = one.message.find("images"); images != one.message.end())
    text += fmt::format("\n*Images: {}*\n", images->size());
  const auto calls = one.message.find("tool_calls");
  if (calls == one.message.end() || !calls->is_array()) return text;
  for (const Json& call : *calls) {
    const auto function = call.find("function");
    if (function == call.end()) continue;
    const auto arguments = function->find("arguments");
    const std::string given = arguments == function->end() ? ""
                              : arguments->is_string()     ? arguments->get<std::string>()
                                                           : dump_json(*arguments);
    text += fmt::format("\n*Calls {}:*\n\n{}", string_at(*function, "name"), fenced(given, "json"));
  }
  return text;
}

Error line_error(size_t line, std::string_view what) {
  return make_error(ErrorKind::invalid, "Line {}: {}", line, what);
}

void take_head(const Json& head, NewSession& session) {
  session.title = string_at(head, "title").substr(0, SessionStore::kMaxTitle);
  for (auto [name, target] :
       {std::pair("settings", &session.settings), std::pair("metadata", &session.metadata)})
    if (const auto value = head.find(name); value != head.end() && value->is_object()) *target = *value;
  session.settings.erase("tools");  // whoever imports a conversation chooses its tools anew
}

// Whether it is {"id", "function": {"name", "arguments"}}, with arguments as text or an object.
bool is_call(const Json& call) {
  const auto function = call.is_object() ? call.find("function") : call.end();
  if (!call.is_object() || function == call.end() || string_at(call, "id").empty()) return false;
  if (string_at(*function, "name").empty()) return false;
  const auto arguments = function->find("arguments");
  return arguments != function->end() && (arguments->is_string() || arguments->is_object());
}

// Whether it is [{"at", "url", "detail"?}, ...]: images of a user or tool message, each with its position in
// the text.
bool are_images(const Json& images, const Json& message) {
  const std::string role = string_at(message, "role");
  if (!images.is_array() || images.empty() || (role != "user" && role != "tool")) return false;
  return std::ranges::all_of(images, [&](const Json& image) {
    const auto at = image.is_object() ? image.find("at") : image.end();
    return image.is_object() && at != image.end() && at->is_number_unsigned() &&
           at->get<uint64_t>() <= string_at(message, "content").size() &&
           string_at(image, "url").starts_with("data:image/");
  });
}

}  // namespace

std::string to_json_lines(const Session& session, std::span<const SessionMessage> messages) {
  const Json head = {{"session",
                      {{"title", session.title},
                       {"model", session.model},
                       {"created_at", session.created_at},
                       {"settings", session.settings},
                       {"metadata", session.metadata}}}};
  std::string text = dump_json(head) + "\n";
  for (const SessionMessage& one : messages) {
    Json line = one.message;
    line["created_at"] = one.created_at;
    line["about"] = one.about;
    text += dump_json(line) + "\n";
  }
  return text;
}

std::string to_markdown(const Session& session, std::span<const SessionMessage> messages) {
  std::string text =
      fmt::format("# {}\n\n{}{}{}\n", session.title.empty() ? "Conversation" : session.title,
                  minute_text(session.created_at), session.model.empty() ? "" : ", ", session.model);
  for (const SessionMessage& one : messages) text += "\n" + message_markdown(one);
  return text;
}

std::optional<NewMessage> message_from(Json json) {
  if (!json.is_object() || string_at(json, "role").empty()) return std::nullopt;
  NewMessage out;
  // Fields about tool calls ("mcp_calls", "mcp") are not imported: they are shown when consent is asked for,
  // so they must come from our own record. Neither are ids of responses: clients could refer to them.
  if (const auto about = json.find("about"); about != json.end())
    for (const char* name : {"model", "status", "usage", "seconds", "thinking_seconds"})
      if (const auto value = about->is_object() ? about->find(name) : about->end(); value != about->end())
        out.about[name] = *value;
  if (const auto at = json.find("created_at"); at != json.end()) out.about["created_at"] = *at;
  for (const char* name : {"about", "created_at"}) json.erase(name);
  const auto content = json.find("content");
  if (content == json.end() || content->is_null()) {
    json["content"] = "";
  } else if (content->is_array()) {
    std::string text;
    for (const Json& part : *content) text += string_at(part, "text");
    *content = text;
  }
  if (!json["content"].is_string()) return std::nullopt;
  // Copy only fields that a chat template knows, and only with the types that it expects.
  for (const char* name : {"role", "content", "reasoning_content", "tool_call_id", "name"})
    if (const auto value = json.find(name); value != json.end() && value->is_string())
      out.message[name] = *value;
  if (const auto images = json.find("images"); images != json.end() && !images->is_null()) {
    if (!are_images(*images, out.message)) return std::nullopt;
    out.message["images"] = std::move(*images);
  }
  const auto calls = json.find("tool_calls");
  if (calls == json.end() || calls->is_null()) return out;
  if (!calls->is_array() || !std::ranges::all_of(*calls, is_call)) return std::nullopt;
  out.message["tool_calls"] = std::move(*calls);
  return out;
}

Result<std::vector<NewSession>> from_json_lines(std::string_view text) {
  std::vector<NewSession> sessions;
  bool open = false;  // further messages belong to the last session
  for (size_t line = 1; !text.empty(); ++line) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view row = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (row.find_first_not_of(" \t\r") == row.npos) continue;
    auto json = parse_json(row);
    if (!json) return line_error(line, json.error().message);
    if (!json->is_object()) return line_error(line, "it must be an object");
    const auto head = json->find("session");
    const auto list = json->find("messages");
    const bool whole = list != json->end() && list->is_array();
    if (whole || (head != json->end() && head->is_object())) {
      if (sessions.size() == kMaxSessions) return line_error(line, "there are too many sessions");
      take_head(whole ? *json : *head, sessions.emplace_back());
      open = !whole;
    }
    if (head != json->end()) continue;
    if (!whole && !open) {
      sessions.emplace_back();
      open = true;
    }
    Json messages = whole ? *list : Json::array({std::move(*json)});
    for (Json& one : messages) {
      auto message = message_from(std::move(one));
      if (!message) return line_error(line, "a message needs a \"role\" and a \"content\" of text");
      sessions.back().messages.push_back(std::move(*message));
    }
  }
  if (sessions.empty()) return make_error(ErrorKind::invalid, "There is no session in the text");
  return sessions;
}

}  // namespace anabranch
