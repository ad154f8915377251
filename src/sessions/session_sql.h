// What the store's files share: rows to values, and SQLite's exceptions to errors. For sessions/ only.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <optional>

#include "sessions/session_store.h"

namespace anabranch {

// The columns that read_session() takes.
inline constexpr const char* kSessionColumns =
    "id, owner, title, model, settings, metadata, created_at, updated_at, head, messages, bytes";
Session read_session(SQLite::Statement& row);

// As JSON, or an empty object if it is damaged.
Json stored_json(const std::string& text);

inline Error sql_error(const SQLite::Exception& e) {
  const int code = e.getErrorCode();
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
    return {ErrorKind::busy, "another process holds the sessions' database; try again"};
  return make_error(ErrorKind::io, "the sessions' database: {}", e.what());
}

inline Error no_session(const std::string& id) {
  return make_error(ErrorKind::not_found, "There is no session '{}' here", id);
}
inline Error no_message(MessageId id) {
  return make_error(ErrorKind::not_found, "The session has no message 'msg_{}'", id);
}

// The session, if it is the owner's.
std::optional<Session> find_session(SQLite::Database& db, const Owner& owner, const std::string& id);

// Runs `work`, which returns a Result, with the lock held; for writing in a transaction, which is rolled back
// if it returns an error.
template <class Work>
auto SessionStore::run(bool write, Work work) -> decltype(work()) {
  std::lock_guard lock(mutex_);
  try {
    if (!write) return work();
    SQLite::Transaction transaction(*db_, SQLite::TransactionBehavior::IMMEDIATE);
    auto result = work();
    if (result.ok()) transaction.commit();
    return result;
  } catch (const SQLite::Exception& e) {
    return sql_error(e);
  }
}

}  // namespace anabranch
