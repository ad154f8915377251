#include "cli/mcp_sessions.h"

#include "cli/chat_session.h"
#include "cli/text.h"
#include "sessions/session_text.h"

namespace anabranch::cli {
namespace {

constexpr int kUsualLimit = 20, kMostListed = 100;
constexpr size_t kMostBytes = 64 << 10;  // bytes of a conversation that are shown; of a longer one, its end

Json schema() {
  return {
      {"type", "object"},
      {"properties",
       {{"action",
         {{"type", "string"},
          {"enum", {"list", "search", "read"}},
          {"description",
           "list: the latest ones; search: those with the words in `query`; read: one as Markdown"}}},
        {"query", {{"type", "string"}, {"description", "Words that a message has, or a part of a title"}}},
        {"session",
         {{"type", "string"}, {"description", "Which one to read: its id, or a part of its title"}}},
        {"limit", {{"type", "integer"}, {"minimum", 1}, {"maximum", kMostListed}}}}},
      {"required", {"action"}},
      {"additionalProperties", false}};
}

Result<std::string> list(SessionStore& store, const std::string& words, int limit) {
  SessionQuery query;
  query.limit = limit;
  query.text = words;
  TRY(const SessionList found, store.list(query));
  std::string text;
  for (const Session& session : found.sessions) {
    text += fmt::format("{} \"{}\", {}, {}\n", session.id, session.title,
                        count_text(static_cast<uint64_t>(session.messages), "message"),
                        age_text(session.updated_at * 1'000'000'000));
    if (session.snippet.empty()) continue;
    text += "  ";
    for (const SnippetPart& part : session.snippet) text += part.text;
    text += "\n";
  }
  return text.empty() ? "There are none" : text;
}

Result<std::string> read(SessionStore& store, const std::string& wanted) {
  if (wanted.empty())
    return make_error(ErrorKind::invalid, "'session' is missing: `list` and `search` tell the ids");
  TRY(const Session session, find_session(store, wanted));
  TRY(const auto messages, store.path({}, session.id));
  std::string text = to_markdown(session, messages);
  if (text.size() <= kMostBytes) return text;
  size_t from = text.size() - kMostBytes;
  while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80) ++from;
  return "(the beginning is left out)\n" + text.substr(from);
}

Result<std::string> run(SessionStore& store, const Json& arguments) {
  const std::string action = string_at(arguments, "action"), query = string_at(arguments, "query");
  int limit = kUsualLimit;
  if (const auto given = arguments.find("limit"); given != arguments.end()) {
    if (!given->is_number_integer() || *given < 1 || *given > kMostListed)
      return make_error(ErrorKind::invalid, "'limit' must be an integer from 1 to {}", kMostListed);
    limit = given->get<int>();
  }
  if (action == "list") return list(store, "", limit);
  if (action == "read") return read(store, string_at(arguments, "session"));
  if (action != "search") return make_error(ErrorKind::invalid, "'action' must be list, search or read");
  if (query.empty()) return make_error(ErrorKind::invalid, "'query' is missing: the words to search for");
  return list(store, query, limit);
}

}  // namespace

mcp::ServedTool sessions_tool(SessionStore& store) {
  return {"sessions",
          "Kept conversations",
          "Lists, searches and reads the user's conversations with the model that are kept on this machine",
          schema(),
          true,
          [&store](const mcp::ServedCall& call) { return run(store, call.arguments); }};
}

}  // namespace anabranch::cli
