#include "sessions/session_store.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "base/clock.h"
#include "base/log.h"
#include "base/private_file.h"
#include "base/user_directory.h"
#include "base/write_ahead_log.h"
#include "sessions/session_sql.h"

namespace anabranch {
namespace {

constexpr int kFormat = 1;
constexpr size_t kTitleLength = 60;    // for titles made from a message
constexpr size_t kSessionBytes = 512;  // counted for a session without messages

// A message's content is in `text`, which the full-text index reads, and the rest in `json`. The end of a
// very long content is also in `json`, as kTextRest. AUTOINCREMENT: the id of a removed message is never
// reused.
constexpr const char* kSchema = R"(
CREATE TABLE IF NOT EXISTS sessions (
  id TEXT PRIMARY KEY, owner TEXT NOT NULL, listed INTEGER NOT NULL, title TEXT NOT NULL, model TEXT NOT NULL,
  settings TEXT NOT NULL, metadata TEXT NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL,
  changed INTEGER NOT NULL, head INTEGER NOT NULL, messages INTEGER NOT NULL, bytes INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS sessions_by_owner ON sessions (owner, listed, changed);
CREATE INDEX IF NOT EXISTS sessions_by_change ON sessions (listed, changed);
CREATE TABLE IF NOT EXISTS messages (
  id INTEGER PRIMARY KEY AUTOINCREMENT, session TEXT NOT NULL, parent INTEGER NOT NULL, text TEXT NOT NULL,
  json TEXT NOT NULL, about TEXT NOT NULL, created_at INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS messages_by_session ON messages (session, parent);
CREATE TABLE IF NOT EXISTS responses (
  id TEXT PRIMARY KEY, session TEXT NOT NULL, message INTEGER NOT NULL, response TEXT NOT NULL,
  input_items TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS responses_by_session ON responses (session);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(
  text, content='messages', content_rowid='id', prefix='2 3', tokenize='unicode61 remove_diacritics 2');
)";

// Files of earlier programs with this format lack traces, or their column `message`.
constexpr const char* kTraces = R"(
CREATE TABLE IF NOT EXISTS traces (session TEXT NOT NULL, trace TEXT NOT NULL,
  message INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (session, trace)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS traces_by_trace ON traces (trace);
)";

std::string new_session_id() {
  std::random_device random;
  return fmt::format("conv_{:08x}{:08x}{:08x}", random(), random(), random());
}

// The first line of the first user message, shortened at the end of a word.
std::string title_of(std::span<const NewMessage> messages) {
  for (const NewMessage& one : messages) {
    if (string_at(one.message, "role") != "user") continue;
    std::string line = string_at(one.message, "content");
    line.erase(0, line.find_first_not_of(" \t\r\n"));
    line.resize(std::min(line.size(), line.find_first_of("\r\n")));
    if (line.size() <= kTitleLength) return line;
    size_t end = line.rfind(' ', kTitleLength);
    if (end == line.npos || end < kTitleLength / 2)
      for (end = kTitleLength; end > 0 && (static_cast<unsigned char>(line[end]) & 0xC0) == 0x80;) --end;
    return line.substr(0, end) + "…";
  }
  return {};
}

// How much of a message's text is indexed. A whole book would take seconds, and everybody else would wait.
size_t indexed_length(const std::string& text) {
  constexpr size_t kIndexed = 256 << 10;
  size_t end = std::min(text.size(), kIndexed);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return end;
}

Result<void> check_json(const Json& json, const char* name) {
  if (!json.is_object()) return make_error(ErrorKind::invalid, "'{}' must be an object", name);
  if (dump_json(json).size() > SessionStore::kMaxSettings)
    return make_error(ErrorKind::invalid, "'{}' has more than {} KiB", name,
                      SessionStore::kMaxSettings >> 10);
  return {};
}

Result<void> check_title(const std::string& title) {
  if (title.size() <= SessionStore::kMaxTitle) return {};
  return make_error(ErrorKind::invalid, "'title' has more than {} bytes", SessionStore::kMaxTitle);
}

size_t size_of(const NewMessage& one) {
  return dump_json(one.message).size() + dump_json(one.about).size();
}

Error too_large() {
  return make_error(ErrorKind::invalid, "A session holds at most {} MiB: begin a new one",
                    SessionStore::kMaxSessionBytes >> 20);
}

Result<void> check_messages(std::span<const NewMessage> messages) {
  size_t bytes = 0;
  if (messages.size() > static_cast<size_t>(SessionStore::kMaxMessages))
    return make_error(ErrorKind::invalid, "A session holds at most {} messages", SessionStore::kMaxMessages);
  for (const NewMessage& one : messages) {
    if (!one.message.is_object() || string_at(one.message, "role").empty() || !one.about.is_object())
      return make_error(ErrorKind::invalid, "A message must be an object with a 'role'");
    if (const auto content = one.message.find("content");
        content == one.message.end() || !content->is_string())
      return make_error(ErrorKind::invalid, "A message's 'content' must be a text");
    const size_t size = size_of(one);
    if (size > SessionStore::kMaxMessageBytes)
      return make_error(ErrorKind::invalid, "A message has more than {} MiB",
                        SessionStore::kMaxMessageBytes >> 20);
    bytes += size;
  }
  if (bytes > static_cast<size_t>(SessionStore::kMaxSessionBytes)) return too_large();
  return {};
}

// Fails if a table does not have the expected structure.
void check_schema(SQLite::Database& db) {
  for (const char* columns :
       {"id, owner, listed, title, model, settings, metadata, created_at, updated_at, changed, head, "
        "messages, "
        "bytes FROM sessions",
        "id, session, parent, text, json, about, created_at FROM messages",
        "id, session, message, response, input_items FROM responses", "rowid, text FROM words"})
    SQLite::Statement(db, fmt::format("SELECT {} LIMIT 0", columns)).executeStep();
}

Result<std::unique_ptr<SQLite::Database>> open_database(const std::string& path) {
  try {
    auto db = std::make_unique<SQLite::Database>(path.empty() ? ":memory:" : path,
                                                 SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, kBusyMs);
    db->exec("PRAGMA trusted_schema = OFF");
    use_write_ahead_log(*db, kBusyMs);
    // An acknowledged message also survives a power failure.
    db->exec("PRAGMA synchronous = FULL");
    db->exec("PRAGMA secure_delete = ON");
    SQLite::Transaction transaction(*db, SQLite::TransactionBehavior::IMMEDIATE);
    const int format = db->execAndGet("PRAGMA user_version").getInt();
    if (format > kFormat)
      return make_error(ErrorKind::unsupported,
                        "{} was written by a newer version of anabranch: use that one, or another directory",
                        path);
    if (format < kFormat) {
      db->exec(kSchema);
      db->exec(fmt::format("PRAGMA user_version = {}", kFormat));
    }
    check_schema(*db);
    db->exec(kTraces);
    if (db->execAndGet("SELECT count(*) FROM pragma_table_info('traces') WHERE name = 'message'").getInt() ==
        0)
      db->exec("ALTER TABLE traces ADD COLUMN message INTEGER NOT NULL DEFAULT 0");
    transaction.commit();
    return db;
  } catch (const SQLite::Exception& e) {
    return make_error(ErrorKind::io, "cannot open the sessions in {}: {}", path, e.what());
  }
}

// Opens a connection that can read while another one writes.
Result<std::unique_ptr<SQLite::Database>> open_reader(const std::string& path) {
  try {
    auto db = std::make_unique<SQLite::Database>(path, SQLite::OPEN_READWRITE, kBusyMs);
    db->exec("PRAGMA trusted_schema = OFF");
    db->exec("PRAGMA query_only = ON");
    return db;
  } catch (const SQLite::Exception& e) {
    return make_error(ErrorKind::io, "cannot read the sessions in {}: {}", path, e.what());
  }
}

}  // namespace

std::string session_file(const std::string& directory) {
  return directory + "/sessions.db";
}

std::string default_session_directory() {
  const std::string own = user_data_directory();
  return own.empty() ? own : own + "/sessions";
}

SessionStore::SessionStore(std::unique_ptr<SQLite::Database> db, Retention retention,
                           std::function<void()> due)
    : db_(std::move(db)), retention_(retention), due_(std::move(due)) {}

SessionStore::~SessionStore() = default;

Result<std::unique_ptr<SessionStore>> SessionStore::open(const std::string& directory, Retention retention,
                                                         std::function<void()> due) {
  std::string path;
  if (!directory.empty()) {
    path = session_file(directory);
    if (const int error = make_private_directory(directory))
      return make_error(ErrorKind::io, "cannot create the directory {}: {}", directory, std::strerror(error));
    TRY_VOID(make_private_file(path));  // SQLite gives its own files the same mode
  }
  TRY(auto db, open_database(path));
  std::unique_ptr<SessionStore> store(new SessionStore(std::move(db), retention, std::move(due)));
  for (auto& reader : store->readers_)
    if (!path.empty()) {
      TRY(reader, open_reader(path));
      store->free_readers_.push_back(reader.get());
    }
  TRY_VOID(store->prune());
  if (!store->due_) {
    TRY_VOID(store->upkeep());
  } else if (store->scrub_due_) {
    store->due_();
  }
  return store;
}

Result<Session> SessionStore::create(const NewSession& session) {
  TRY(auto made, create_all(std::span(&session, 1)));
  return std::move(made.front());
}

Result<std::vector<Session>> SessionStore::create_all(std::span<const NewSession> sessions) {
  for (const NewSession& session : sessions) {
    TRY_VOID(check_title(session.title));
    TRY_VOID(check_json(session.settings, "settings"));
    TRY_VOID(check_json(session.metadata, "metadata"));
    TRY_VOID(check_messages(session.messages));
  }
  size_t bytes = 0;
  auto made = run(true, [&]() -> Result<std::vector<Session>> {
    std::vector<Session> all;
    for (const NewSession& session : sessions) {
      all.push_back(create_one(session));
      bytes += static_cast<size_t>(all.back().bytes);
    }
    return all;
  });
  if (made) prune_after(bytes);
  return made;
}

// Call within a transaction, with a checked session.
Session SessionStore::create_one(const NewSession& session) {
  const std::string id = new_session_id();
  const std::string settings = dump_json(session.settings), metadata = dump_json(session.metadata);
  SQLite::Statement add(*db_, "INSERT INTO sessions VALUES (?,?,?,?,'',?,?,?,?,?,0,0,?)");
  add.bind(1, id);
  add.bind(2, session.owner);
  add.bind(3, session.listed ? 1 : 0);
  add.bind(4, session.title);
  add.bind(5, settings);
  add.bind(6, metadata);
  add.bind(7, unix_seconds());
  add.bind(8, unix_seconds());
  add.bind(9, unix_nanoseconds());
  add.bind(10, static_cast<int64_t>(kSessionBytes + settings.size() + metadata.size()));
  add.exec();
  insert(id, kNoMessage, session.messages);
  return *find_session(*db_, std::nullopt, id);
}

// Call within a transaction, with checked messages.
std::vector<MessageId> SessionStore::insert(const std::string& id, MessageId parent,
                                            std::span<const NewMessage> messages) {
  std::vector<MessageId> ids;
  if (messages.empty()) return ids;
  SQLite::Statement add(
      *db_, "INSERT INTO messages (session, parent, text, json, about, created_at) VALUES (?,?,?,?,?,?)");
  SQLite::Statement index(*db_, "INSERT INTO words (rowid, text) VALUES (?,?)");
  std::string model;
  int64_t bytes = 0;
  for (const NewMessage& one : messages) {
    Json rest = one.message;
    rest.erase("content");
    std::string text = string_at(one.message, "content");
    if (const size_t end = indexed_length(text); end < text.size()) {
      rest[kTextRest] = text.substr(end);
      text.resize(end);
    }
    const std::string json = dump_json(rest), about = dump_json(one.about);
    if (std::string named = string_at(one.about, "model"); !named.empty()) model = std::move(named);
    add.bind(1, id);
    add.bind(2, parent);
    add.bind(3, text);
    add.bind(4, json);
    add.bind(5, about);
    const auto at = one.about.find("created_at");  // of an imported message
    add.bind(6, at != one.about.end() && at->is_number_integer() ? at->get<int64_t>() : unix_seconds());
    add.exec();
    add.reset();
    parent = db_->getLastInsertRowid();
    ids.push_back(parent);
    index.bind(1, parent);
    index.bind(2, text);
    index.exec();
    index.reset();
    bytes += static_cast<int64_t>(text.size() + json.size() + about.size());
  }
  SQLite::Statement note(*db_,
                         "UPDATE sessions SET head = ?2, messages = messages + ?3, bytes = bytes + ?4, "
                         "updated_at = ?5, changed = ?6, title = iif(title = '', ?7, title), "
                         "model = iif(?8 = '', model, ?8) WHERE id = ?1");
  note.bind(1, id);
  note.bind(2, parent);
  note.bind(3, static_cast<int64_t>(messages.size()));
  note.bind(4, bytes);
  note.bind(5, unix_seconds());
  note.bind(6, unix_nanoseconds());
  note.bind(7, title_of(messages));
  note.bind(8, model);
  note.exec();
  return ids;
}

Result<std::vector<MessageId>> SessionStore::append(const Owner& owner, const std::string& id,
                                                    std::optional<MessageId> parent,
                                                    std::span<const NewMessage> messages) {
  TRY_VOID(check_messages(messages));
  size_t bytes = 0;
  for (const NewMessage& one : messages) bytes += size_of(one);
  auto ids = run(true, [&]() -> Result<std::vector<MessageId>> {
    const auto session = find_session(*db_, owner, id);
    if (!session) return no_session(id);
    if (session->messages + static_cast<int64_t>(messages.size()) > kMaxMessages)
      return make_error(ErrorKind::invalid, "A session holds at most {} messages: begin a new one",
                        kMaxMessages);
    if (session->bytes + static_cast<int64_t>(bytes) > kMaxSessionBytes) return too_large();
    const MessageId below = parent.value_or(session->head);
    if (below != kNoMessage) {
      SQLite::Statement query(*db_, "SELECT 1 FROM messages WHERE id = ? AND session = ?");
      query.bind(1, below);
      query.bind(2, id);
      if (!query.executeStep()) return no_message(below);
    }
    return insert(id, below, messages);
  });
  if (ids) prune_after(bytes);
  return ids;
}

Result<void> SessionStore::take_back(const std::string& id, std::span<const MessageId> messages,
                                     MessageId head) {
  return run(true, [&]() -> Result<void> {
    MessageId parent = kNoMessage;  // of the first message
    for (size_t i = messages.size(); i-- > 0;) {
      SQLite::Statement query(
          *db_,
          "SELECT length(CAST(text AS BLOB)) + length(CAST(json AS BLOB)) + "
          "length(CAST(about AS BLOB)), parent FROM messages WHERE id = ?1 AND session = ?2 AND "
          "NOT EXISTS (SELECT 1 FROM messages WHERE session = ?2 AND parent = ?1)");
      query.bind(1, messages[i]);
      query.bind(2, id);
      if (!query.executeStep()) return {};  // something was added below it in the meantime
      SQLite::Statement note(
          *db_,
          "UPDATE sessions SET messages = messages - 1, bytes = bytes - ?3, "
          "head = iif(head = ?2, (SELECT parent FROM messages WHERE id = ?2), head) WHERE id = ?1");
      note.bind(1, id);
      note.bind(2, messages[i]);
      note.bind(3, query.getColumn(0).getInt64());
      note.exec();
      parent = query.getColumn(1).getInt64();
      remove_messages("id = ?", messages[i]);
    }
    SQLite::Statement back(
        *db_,
        "UPDATE sessions SET head = ?2 WHERE id = ?1 AND head = ?3 AND (?2 = 0 OR EXISTS (SELECT 1 "
        "FROM messages WHERE id = ?2 AND session = ?1))");
    back.bind(1, id);
    back.bind(2, head);
    back.bind(3, parent);
    back.exec();
    return {};
  });
}

Result<Session> SessionStore::change(const Owner& owner, const std::string& id, const SessionChange& change) {
  if (change.title) TRY_VOID(check_title(*change.title));
  if (change.settings) TRY_VOID(check_json(*change.settings, "settings"));
  if (change.metadata) TRY_VOID(check_json(*change.metadata, "metadata"));
  return run(true, [&]() -> Result<Session> {
    auto session = find_session(*db_, owner, id);
    if (!session) return no_session(id);
    const auto old_bytes = dump_json(session->settings).size() + dump_json(session->metadata).size();
    if (change.title) session->title = *change.title;
    if (change.settings) session->settings = *change.settings;
    if (change.metadata) session->metadata = *change.metadata;
    if (change.head) {
      // Ids ascend, so the newest leaf below a message is found by repeatedly going to the newest child.
      SQLite::Statement leaf(
          *db_,
          "WITH RECURSIVE down(id) AS (SELECT id FROM messages WHERE id = ?1 AND session = ?2 "
          "UNION ALL SELECT (SELECT max(id) FROM messages WHERE session = ?2 AND parent = "
          "down.id AND id > down.id) FROM down WHERE down.id IS NOT NULL) SELECT max(id) FROM down");
      leaf.bind(1, *change.head);
      leaf.bind(2, id);
      if (!leaf.executeStep() || leaf.getColumn(0).isNull()) return no_message(*change.head);
      session->head = leaf.getColumn(0).getInt64();
    }
    const std::string settings = dump_json(session->settings), metadata = dump_json(session->metadata);
    SQLite::Statement update(*db_,
                             "UPDATE sessions SET title = ?, settings = ?, metadata = ?, head = ?, "
                             "bytes = bytes + ?, updated_at = ?, listed = max(listed, ?) WHERE id = ?");
    update.bind(1, session->title);
    update.bind(2, settings);
    update.bind(3, metadata);
    update.bind(4, session->head);
    update.bind(5, static_cast<int64_t>(settings.size() + metadata.size()) - static_cast<int64_t>(old_bytes));
    update.bind(6, unix_seconds());
    update.bind(7, change.title ? 1 : 0);  // a session that is given a title becomes listed
    update.bind(8, id);
    update.exec();
    return *find_session(*db_, std::nullopt, id);
  });
}

Result<Session> SessionStore::branch(const Owner& owner, const std::string& id, MessageId message,
                                     const std::string& title) {
  TRY(const Session session, find(owner, id));
  TRY(auto messages, path(owner, id, message));
  NewSession copy{session.owner, title.empty() ? session.title : title, session.settings, session.metadata};
  std::vector<MessageId> originals;
  for (SessionMessage& one : messages) {
    originals.push_back(one.id);
    one.about["created_at"] = one.created_at;
    one.about.erase("response_id");  // the response stays with the first session
    copy.messages.push_back({std::move(one.message), std::move(one.about)});
  }
  TRY(Session made, create(copy));
  TRY_VOID(copy_traces(id, originals, made));
  return made;
}

Result<void> SessionStore::put_response(const StoredResponse& response) {
  const std::string text = dump_json(response.response), items = dump_json(response.input_items);
  auto put = run(true, [&]() -> Result<void> {
    if (!find_session(*db_, std::nullopt, response.session)) return no_session(response.session);
    SQLite::Statement put(*db_, "INSERT OR REPLACE INTO responses VALUES (?,?,?,?,?)");
    put.bind(1, response.id);
    put.bind(2, response.session);
    put.bind(3, response.message);
    put.bind(4, text);
    put.bind(5, items);
    put.exec();
    SQLite::Statement note(*db_, "UPDATE sessions SET bytes = bytes + ? WHERE id = ?");
    note.bind(1, static_cast<int64_t>(text.size() + items.size()));
    note.bind(2, response.session);
    note.exec();
    return {};
  });
  if (put) prune_after(text.size() + items.size());
  return put;
}

Result<void> SessionStore::erase_response(const Owner& owner, const std::string& id) {
  TRY(const StoredResponse response, find_response(owner, id));
  return run(true, [&]() -> Result<void> {
    SQLite::Statement note(*db_,
                           "UPDATE sessions SET bytes = bytes - (SELECT length(CAST(response AS BLOB)) + "
                           "length(CAST(input_items AS BLOB)) FROM responses WHERE id = ?2) WHERE id = ?1");
    note.bind(1, response.session);
    note.bind(2, id);
    note.exec();
    SQLite::Statement erase(*db_, "DELETE FROM responses WHERE id = ?");
    erase.bind(1, id);
    erase.exec();
    scrub_due_ = true;
    SQLite::Statement left(*db_,
                           "SELECT 1 FROM sessions WHERE id = ?1 AND (listed = 1 OR EXISTS (SELECT 1 FROM "
                           "responses WHERE session = ?1))");
    left.bind(1, response.session);
    if (!left.executeStep()) remove(response.session);
    return {};
  });
}

}  // namespace anabranch
