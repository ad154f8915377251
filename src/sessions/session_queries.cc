// Queries of the store: sessions, paths of messages, searches, responses.
#include <algorithm>
#include <cctype>
#include <climits>
#include <set>

#include "sessions/session_sql.h"

namespace anabranch {
namespace {

constexpr int kSnippetWords = 16;
// These mark a match within a snippet. If the text itself contains them, they are removed from it.
constexpr char kMatchBegin = '\x01', kMatchEnd = '\x02';

// The user's words as a query: all must occur, and the last one may be the beginning of a longer word. Each
// word is quoted, because other characters have a meaning in queries.
std::string words_query(const std::string& text) {
  std::string query, word;
  const auto flush = [&](bool last) {
    if (word.empty()) return;
    // A single letter as a beginning would match nearly everything.
    query += fmt::format("{}\"{}\"{}", query.empty() ? "" : " ", word, last && word.size() > 1 ? " *" : "");
    word.clear();
  };
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80 || std::isalnum(byte) || c == '_')
      word += c;
    else
      flush(false);
  }
  flush(true);
  return query;
}

// A pattern for LIKE with '\' as its escape.
std::string like_pattern(const std::string& text) {
  std::string pattern = "%";
  for (const char c : text) {
    if (c == '%' || c == '_' || c == '\\') pattern += '\\';
    pattern += c;
  }
  return pattern + "%";
}

std::vector<SnippetPart> snippet_parts(const std::string& marked) {
  std::vector<SnippetPart> parts(1);
  for (const char c : marked) {
    if (c != kMatchBegin && c != kMatchEnd) {
      parts.back().text += c;
      continue;
    }
    if (parts.back().text.empty()) parts.pop_back();
    parts.push_back({"", c == kMatchBegin});
  }
  if (parts.back().text.empty()) parts.pop_back();
  return parts;
}

// Adds snippets to the last messages.size() of `sessions`, one message for each, newest first. A single
// query, because with a prefix search ("wor*") each query reads all messages that match the prefix.
void add_snippets(SQLite::Database& db, const std::string& words, const std::vector<MessageId>& messages,
                  std::vector<Session>& sessions) {
  if (messages.empty()) return;
  SQLite::Statement query(
      db,
      fmt::format("SELECT rowid, CASE WHEN rowid IN (SELECT value FROM json_each(?2)) THEN snippet(words, 0, "
                  "char({}), char({}), '…', {}) END FROM words WHERE words MATCH ?1 AND rowid >= ?3 ORDER BY "
                  "rowid DESC",
                  int{kMatchBegin}, int{kMatchEnd}, kSnippetWords));
  query.bind(1, words);
  query.bind(2, dump_json(messages));
  query.bind(3, messages.back());
  size_t next = 0;
  for (const size_t first = sessions.size() - messages.size(); next < messages.size() && query.executeStep();)
    if (query.getColumn(0).getInt64() == messages[next])
      sessions[first + next++].snippet = snippet_parts(query.getColumn(1).getString());
}

// The condition for the sessions that `wanted` selects; ?1 is the owner.
std::string of_query(const SessionQuery& wanted) {
  return fmt::format("{}{}", wanted.unlisted ? "1" : "listed = 1", wanted.owner ? " AND owner = ?1" : "");
}

SessionList all_sessions(SQLite::Database& db, const SessionQuery& wanted, int64_t before, int limit) {
  SQLite::Statement query(db,
                          fmt::format("SELECT {} FROM sessions WHERE {} AND changed < ?2 ORDER BY changed "
                                      "DESC LIMIT ?3",
                                      kSessionColumns, of_query(wanted)));
  if (wanted.owner) query.bind(1, *wanted.owner);
  query.bind(2, before);
  query.bind(3, limit + 1);
  SessionList list;
  while (query.executeStep()) list.sessions.push_back(read_session(query));
  return list;
}

// First the sessions with the text in their title, then those with the words in a message, newest message
// first. So the search can stop when it has enough.
SessionList search_sessions(SQLite::Database& db, const SessionQuery& wanted, const std::string& words,
                            int limit) {
  SessionList list;
  std::set<std::string> seen;
  SQLite::Statement titles(db, fmt::format("SELECT {} FROM sessions WHERE {} AND title LIKE ?2 ESCAPE '\\' "
                                           "ORDER BY changed DESC LIMIT ?3",
                                           kSessionColumns, of_query(wanted)));
  if (wanted.owner) titles.bind(1, *wanted.owner);
  titles.bind(2, like_pattern(wanted.text));
  titles.bind(3, limit + 1);
  while (titles.executeStep()) {
    list.sessions.push_back(read_session(titles));
    seen.insert(list.sessions.back().id);
  }
  SQLite::Statement found(db, "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC");
  found.bind(1, words);
  SQLite::Statement session(db, fmt::format("SELECT {} FROM sessions WHERE {} AND id = (SELECT session FROM "
                                            "messages WHERE id = ?2)",
                                            kSessionColumns, of_query(wanted)));
  std::vector<MessageId> messages;  // the message in which each session was found
  SQLite::Statement which(db, "SELECT session FROM messages WHERE id = ?");
  while (static_cast<int>(list.sessions.size()) <= limit && found.executeStep()) {
    const MessageId message = found.getColumn(0).getInt64();
    which.reset();
    which.bind(1, message);
    if (!which.executeStep() || !seen.insert(which.getColumn(0).getString()).second) continue;
    session.reset();
    if (wanted.owner) session.bind(1, *wanted.owner);
    session.bind(2, message);
    if (!session.executeStep()) continue;
    list.sessions.push_back(read_session(session));
    messages.push_back(message);
  }
  add_snippets(db, words, messages, list.sessions);
  return list;
}

}  // namespace

Json stored_json(const std::string& text) {
  // Within a message, JSON is nested deeper than it was in the request.
  auto json =
      parse_json(text, {.bytes = 2 * SessionStore::kMaxMessageBytes, .depth = 2 * JsonLimits().depth});
  return json && json->is_object() ? std::move(*json) : Json::object();
}

Session read_session(SQLite::Statement& row) {
  Session session;
  session.id = row.getColumn(0).getString();
  session.owner = row.getColumn(1).getString();
  session.title = row.getColumn(2).getString();
  session.model = row.getColumn(3).getString();
  session.settings = stored_json(row.getColumn(4).getString());
  session.metadata = stored_json(row.getColumn(5).getString());
  session.created_at = row.getColumn(6).getInt64();
  session.updated_at = row.getColumn(7).getInt64();
  session.head = row.getColumn(8).getInt64();
  session.messages = row.getColumn(9).getInt64();
  session.bytes = row.getColumn(10).getInt64();
  return session;
}

std::optional<Session> find_session(SQLite::Database& db, const Owner& owner, const std::string& id) {
  SQLite::Statement query(db, fmt::format("SELECT {} FROM sessions WHERE id = ?", kSessionColumns));
  query.bind(1, id);
  if (!query.executeStep()) return std::nullopt;
  Session session = read_session(query);
  if (owner && session.owner != *owner) return std::nullopt;
  return session;
}

Result<Session> SessionStore::find(const Owner& owner, const std::string& id) {
  return read([&](SQLite::Database& db) -> Result<Session> {
    auto session = find_session(db, owner, id);
    if (!session) return no_session(id);
    return std::move(*session);
  });
}

Result<SessionList> SessionStore::list(const SessionQuery& wanted) {
  const std::string words = words_query(wanted.text);
  if (!wanted.text.empty() && words.empty())
    return make_error(ErrorKind::invalid, "There is no word to search for in '{}'", wanted.text);
  if (!words.empty() && !wanted.after.empty())
    return make_error(ErrorKind::invalid, "A search has one page: ask for more results at a time");
  const int limit = std::clamp(wanted.limit, 1, kMaxListed);
  return read([&](SQLite::Database& db) -> Result<SessionList> {
    int64_t before = INT64_MAX;
    if (!wanted.after.empty()) {
      SQLite::Statement query(db, "SELECT changed FROM sessions WHERE id = ?");
      query.bind(1, wanted.after);
      if (!find_session(db, wanted.owner, wanted.after) || !query.executeStep())
        return no_session(wanted.after);
      before = query.getColumn(0).getInt64();
    }
    SessionList list =
        words.empty() ? all_sessions(db, wanted, before, limit) : search_sessions(db, wanted, words, limit);
    list.more = static_cast<int>(list.sessions.size()) > limit;
    if (list.more) list.sessions.resize(static_cast<size_t>(limit));
    return list;
  });
}

namespace {

// The message in a row with the columns id, parent, text, json, about, created_at.
SessionMessage read_message(SQLite::Statement& row) {
  SessionMessage one;
  one.id = row.getColumn(0).getInt64();
  one.parent = row.getColumn(1).getInt64();
  Json rest = stored_json(row.getColumn(3).getString());
  one.message = {{"role", string_at(rest, "role")},
                 {"content", row.getColumn(2).getString() + string_at(rest, kTextRest)}};
  rest.erase(kTextRest);
  one.message.update(rest);
  one.about = stored_json(row.getColumn(4).getString());
  one.created_at = row.getColumn(5).getInt64();
  return one;
}

void add_siblings(SQLite::Database& db, const std::string& session, std::vector<SessionMessage>& messages) {
  SQLite::Statement query(db, "SELECT id FROM messages WHERE session = ? AND parent = ? ORDER BY id");
  for (SessionMessage& one : messages) {
    query.bind(1, session);
    query.bind(2, one.parent);
    while (query.executeStep()) one.siblings.push_back(query.getColumn(0).getInt64());
    query.reset();
  }
}

}  // namespace

Result<SessionPage> SessionStore::page(const Owner& owner, const std::string& id,
                                       std::optional<MessageId> head, MessageId before, int limit) {
  return read([&](SQLite::Database& db) -> Result<SessionPage> {
    const auto session = find_session(db, owner, id);
    if (!session) return no_session(id);
    SQLite::Statement query(db,
                            "SELECT id, parent, text, json, about, created_at FROM messages WHERE id = ? AND "
                            "session = ?");
    const auto find = [&](MessageId message) {
      query.reset();
      query.bind(1, message);
      query.bind(2, id);
      return query.executeStep();
    };
    MessageId at = before != kNoMessage ? before : head.value_or(session->head);
    if (at != kNoMessage && !find(at)) return no_message(at);
    if (before != kNoMessage) at = query.getColumn(1).getInt64();
    SessionPage page;
    size_t bytes = 0;
    // Parents have smaller ids. The check ends the loop even in a damaged file.
    for (MessageId below = INT64_MAX; at != kNoMessage && at < below && find(at);) {
      for (int column = 2; column < 5; ++column)
        bytes += static_cast<size_t>(query.getColumn(column).getBytes());
      page.more = !page.messages.empty() && (page.messages.size() == static_cast<size_t>(limit) ||
                                             (limit < INT_MAX && bytes > kPageBytes));
      if (page.more) break;
      page.messages.push_back(read_message(query));
      below = at;
      at = page.messages.back().parent;
    }
    query.reset();
    std::reverse(page.messages.begin(), page.messages.end());
    add_siblings(db, id, page.messages);
    return page;
  });
}

Result<std::vector<SessionMessage>> SessionStore::path(const Owner& owner, const std::string& id,
                                                       std::optional<MessageId> head) {
  TRY(auto all, page(owner, id, head, kNoMessage, INT_MAX));
  return std::move(all.messages);
}

Result<StoredResponse> SessionStore::find_response(const Owner& owner, const std::string& id) {
  return read([&](SQLite::Database& db) -> Result<StoredResponse> {
    const auto absent = [&] {
      return make_error(ErrorKind::not_found, "There is no stored response '{}' here", id);
    };
    SQLite::Statement query(
        db,
        "SELECT r.session, r.message, r.response, r.input_items, s.owner FROM responses r "
        "JOIN sessions s ON s.id = r.session WHERE r.id = ?");
    query.bind(1, id);
    if (!query.executeStep()) return absent();
    if (owner && query.getColumn(4).getString() != *owner) return absent();
    StoredResponse response{id, query.getColumn(0).getString(), query.getColumn(1).getInt64(),
                            stored_json(query.getColumn(2).getString()), Json::array()};
    auto items = parse_json(query.getColumn(3).getString(), {.bytes = 2 * kMaxMessageBytes});
    if (items && items->is_array()) response.input_items = std::move(*items);
    return response;
  });
}

Result<std::map<std::string, Json>> SessionStore::find_items(const Owner& owner,
                                                             std::span<const std::string> ids) {
  return read([&](SQLite::Database& db) -> Result<std::map<std::string, Json>> {
    std::map<std::string, Json> found;
    std::set<std::string> wanted(ids.begin(), ids.end());
    wanted.erase("");  // no item has it, and every text contains it
    const auto take = [&](const Json& items) {
      if (!items.is_array()) return;
      for (const Json& item : items)
        if (const auto it = wanted.find(string_at(item, "id")); it != wanted.end()) {
          found[*it] = item;
          wanted.erase(it);
        }
    };
    SQLite::Statement query(
        db,
        "SELECT r.response, r.input_items FROM responses r JOIN sessions s ON s.id = r.session "
        "WHERE ?1 IS NULL OR s.owner = ?1 ORDER BY r.rowid DESC");
    if (owner)
      query.bind(1, *owner);
    else
      query.bind(1);
    while (!wanted.empty() && query.executeStep()) {
      for (const int column : {0, 1}) {
        const std::string text = query.getColumn(column).getString();
        // Few texts contain one of the ids, so few are parsed.
        if (std::ranges::none_of(wanted, [&](const auto& id) { return text.find(id) != text.npos; }))
          continue;
        const auto json = parse_json(text, {.bytes = 2 * kMaxMessageBytes});
        if (!json) continue;
        const auto output = json->is_object() ? json->find("output") : json->end();
        take(output != json->end() ? *output : *json);
      }
    }
    return found;
  });
}

}  // namespace anabranch
