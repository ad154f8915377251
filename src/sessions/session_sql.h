// Helpers of the store's files: convert rows to values, and SQLite's exceptions to errors. For sessions/
// only.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <optional>

#include "sessions/session_store.h"

namespace anabranch {

// The columns that read_session() expects.
inline constexpr const char* kSessionColumns =
    "id, owner, title, model, settings, metadata, created_at, updated_at, head, messages, bytes";
Session read_session(SQLite::Statement& row);

inline constexpr const char* kTextRest = "content_rest";

// Parses JSON; an empty object if it is damaged.
Json stored_json(const std::string& text);

inline constexpr int kBusyMs = 5000, kLogWaitMs = 200;  // how long to wait for other processes and readers

inline Error sql_error(const SQLite::Exception& e) {
  const int code = e.getErrorCode();
  if (code == SQLITE_FULL)
    return {ErrorKind::exhausted,
            "the disk of the sessions is full, so nothing was changed: make room and try again"};
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

// The session, if it belongs to the owner.
std::optional<Session> find_session(SQLite::Database& db, const Owner& owner, const std::string& id);

// Runs `work`, which returns a Result and uses db_, with the lock held. For writing, it runs in a
// transaction, which is rolled back if `work` returns an error.
template <class Work>
auto SessionStore::run(bool write, Work work) -> decltype(work()) {
  std::lock_guard lock(mutex_);
  try {
    if (!write) return work();
    leaving_.clear();
    SQLite::Transaction transaction(*db_, SQLite::TransactionBehavior::IMMEDIATE);
    auto result = work();
    if (!result.ok()) return result;
    transaction.commit();
    released_.insert(released_.end(), leaving_.begin(), leaving_.end());
    return result;
  } catch (const SQLite::Exception& e) {
    return sql_error(e);
  }
}

// Runs `work` with a database connection for reading, in parallel to other readers and the writer. All its
// queries see the same state.
template <class Work>
auto SessionStore::read(Work work) -> decltype(work(std::declval<SQLite::Database&>())) {
  const bool in_memory = !readers_[0];
  std::unique_lock lock(in_memory ? mutex_ : readers_mutex_);
  SQLite::Database* db = db_.get();
  if (!in_memory) {
    const uint64_t place = last_place_++;
    reader_came_.wait(lock, [&] { return place == first_place_ && !free_readers_.empty(); });
    ++first_place_;
    db = free_readers_.back();
    free_readers_.pop_back();
    reader_came_.notify_all();  // another reader may be free for the next in turn
    lock.unlock();
  }
  const auto give_back = [&](SQLite::Database* reader) {
    if (in_memory) return;
    const std::lock_guard back(readers_mutex_);
    free_readers_.push_back(reader);
    reader_came_.notify_all();
  };
  const std::unique_ptr<SQLite::Database, decltype(give_back)> lent(db, give_back);
  try {
    std::optional<SQLite::Transaction> snapshot;
    if (!in_memory) snapshot.emplace(*db);
    return work(*db);
  } catch (const SQLite::Exception& e) {
    return sql_error(e);
  }
}

}  // namespace anabranch
