#include "chat/turn_memory.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "base/clock.h"
#include "base/log.h"
#include "base/private_file.h"
#include "base/write_ahead_log.h"

namespace anabranch {
namespace {

constexpr int kBusyMs = 200;
constexpr int kMostTurns = 20'000, kTrimEvery = 100;
constexpr int64_t kMostBytes = 64 << 20;  // of all turns
constexpr int64_t kPauseSeconds = 10;     // after a failure to read the database
constexpr int kFormat = 1;
constexpr const char* kTrim = R"(DELETE FROM turns WHERE key NOT IN (
  SELECT key FROM (SELECT key, row_number() OVER newest AS place, sum(length(tokens)) OVER newest AS bytes
                   FROM turns WINDOW newest AS (ORDER BY at DESC, key))
  WHERE place <= ? AND bytes <= ?))";

using Tokens = std::vector<int>;

// Whether the first of two turns with the same key is the one to keep.
bool goes_first(const Tokens& one, const Tokens& other) {
  return one.size() != other.size() ? one.size() < other.size() : one < other;
}

// Removes the turns with these keys, and returns how many.
int64_t remove_keys(SQLite::Database& db, std::span<const uint64_t> keys) {
  int64_t removed = 0;
  SQLite::Statement remove(db, "DELETE FROM turns WHERE key = ?");
  for (const uint64_t key : keys) {
    remove.bind(1, static_cast<int64_t>(key));
    removed += remove.exec();
    remove.reset();
  }
  return removed;
}

void throw_if(const Result<void>& result) {
  if (!result) throw SQLite::Exception(result.error().message);
}

}  // namespace

class TurnMemory::Database {
 public:
  explicit Database(const std::string& path)
      : db_(path.empty() ? ":memory:" : path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, kBusyMs) {
    db_.exec("PRAGMA trusted_schema = OFF");
    use_write_ahead_log(db_, kBusyMs);
    db_.exec("PRAGMA synchronous = NORMAL");
    db_.exec("PRAGMA secure_delete = ON");
    const int format = db_.execAndGet("PRAGMA user_version").getInt();
    if (format != 0 && format != kFormat) throw SQLite::Exception("it is of another version");
    db_.exec(
        "CREATE TABLE IF NOT EXISTS turns (key INTEGER PRIMARY KEY, tokens BLOB NOT NULL, "
        "at INTEGER NOT NULL)");
    db_.exec("CREATE INDEX IF NOT EXISTS turns_by_age ON turns (at)");
    db_.exec("PRAGMA user_version = " + std::to_string(kFormat));
  }

  std::optional<Tokens> find(uint64_t key) {
    std::lock_guard lock(mutex_);
    return find_locked(key);
  }

  void put(uint64_t key, const Tokens& tokens) {
    std::lock_guard lock(mutex_);
    const auto kept = find_locked(key);
    const Tokens& stays = kept && goes_first(*kept, tokens) ? *kept : tokens;
    SQLite::Statement insert(db_, "INSERT OR REPLACE INTO turns VALUES (?, ?, ?)");
    insert.bind(1, static_cast<int64_t>(key));
    insert.bind(2, stays.data(), static_cast<int>(stays.size() * sizeof(int)));
    insert.bind(3, unix_seconds());
    insert.exec();
    if (puts_++ % kTrimEvery != 0) return;
    SQLite::Statement trim(db_, kTrim);
    trim.bind(1, kMostTurns);
    trim.bind(2, kMostBytes);
    trim.exec();
  }

  void remove(std::span<const uint64_t> keys) {
    std::lock_guard lock(mutex_);
    remove_keys(db_, keys);
  }

 private:
  std::optional<Tokens> find_locked(uint64_t key) {
    SQLite::Statement query(db_, "SELECT tokens FROM turns WHERE key = ?");
    query.bind(1, static_cast<int64_t>(key));
    if (!query.executeStep()) return std::nullopt;
    const auto column = query.getColumn(0);
    const auto bytes = static_cast<size_t>(column.getBytes());
    if (bytes % sizeof(int32_t) != 0 || bytes == 0 || bytes > kMostTurnTokens * sizeof(int32_t))
      return std::nullopt;
    Tokens tokens(bytes / sizeof(int32_t));
    std::memcpy(tokens.data(), column.getBlob(), bytes);
    return tokens;
  }

  std::mutex mutex_;
  SQLite::Database db_;
  int puts_ = 0;
};

TurnMemory::TurnMemory(const std::string& path) {
  try {
    // SQLite gives its own files the mode of the first. Another user's file is refused: it could be any
    // database.
    if (!path.empty()) throw_if(make_private_file(path));
    database_ = std::make_unique<Database>(path);
  } catch (const SQLite::Exception& e) {
    log_warning("sampled turns are kept in memory only: {}: {}", path, e.what());
    database_ = std::make_unique<Database>("");
  }
}

TurnMemory::~TurnMemory() {
  write();
}

std::optional<std::vector<int>> TurnMemory::find(uint64_t key) {
  std::optional<Tokens> waiting;
  {
    std::lock_guard lock(mutex_);
    if (const auto it = to_write_.find(key); it != to_write_.end()) waiting = it->second;
  }
  if (unix_seconds() < pause_until_) return waiting;
  try {
    auto written = database_->find(key);
    return written && (!waiting || goes_first(*written, *waiting)) ? written : waiting;
  } catch (const SQLite::Exception& e) {
    // Without a pause each of the request's turns would wait, and log the failure.
    pause_until_ = unix_seconds() + kPauseSeconds;
    log_warning("sampled turns cannot be read, and are not looked for in the next {} s: {}", kPauseSeconds,
                e.what());
    return waiting;
  }
}

void TurnMemory::put(uint64_t key, std::span<const int> tokens) {
  if (tokens.empty() || tokens.size() > kMostTurnTokens) return;
  Tokens turn(tokens.begin(), tokens.end());
  std::lock_guard lock(mutex_);
  Tokens& waiting = to_write_[key];
  if (waiting.empty() || goes_first(turn, waiting)) waiting = std::move(turn);
}

void TurnMemory::forget(std::span<const uint64_t> keys) {
  std::lock_guard writing(writing_);
  {
    std::lock_guard lock(mutex_);
    for (const uint64_t key : keys) to_write_.erase(key);
  }
  try {
    database_->remove(keys);
  } catch (const SQLite::Exception& e) {
    log_warning("sampled turns cannot be removed: {}", e.what());
  }
}

void TurnMemory::write() {
  for (;;) {
    std::lock_guard writing(writing_);
    std::pair<uint64_t, std::vector<int>> turn;
    {
      std::lock_guard lock(mutex_);
      if (to_write_.empty()) return;
      turn = *to_write_.begin();
    }
    try {
      database_->put(turn.first, turn.second);
    } catch (const SQLite::Exception& e) {
      log_warning("a sampled turn could not be kept: {}", e.what());
    }
    std::lock_guard lock(mutex_);
    const auto it = to_write_.find(turn.first);
    if (it != to_write_.end() && it->second == turn.second) to_write_.erase(it);
  }
}

namespace {

// Runs `remove`, which returns the number of turns that it removed.
Result<int64_t> remove_turns(const std::string& path,
                             const std::function<int64_t(SQLite::Database&)>& remove) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0 && errno == ENOENT) return 0;
  try {
    throw_if(make_private_file(path));
    SQLite::Database db(path, SQLite::OPEN_READWRITE, 10 * kBusyMs);
    if (!db.tableExists("turns")) return 0;
    db.exec("PRAGMA secure_delete = ON");
    const int64_t removed = remove(db);
    db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    return removed;
  } catch (const SQLite::Exception& e) {
    return make_error(ErrorKind::io,
                      "cannot remove the sampled turns from {}: {}. The file itself may be removed", path,
                      e.what());
  }
}

}  // namespace

Result<int64_t> forget_turns(const std::string& path, int64_t before_unix_s) {
  return remove_turns(path, [&](SQLite::Database& db) -> int64_t {
    SQLite::Statement remove(db, "DELETE FROM turns WHERE at < ?");
    remove.bind(1, before_unix_s);
    return remove.exec();
  });
}

Result<int64_t> forget_turns(const std::string& path, std::span<const uint64_t> keys) {
  if (keys.empty()) return 0;
  return remove_turns(path, [&](SQLite::Database& db) { return remove_keys(db, keys); });
}

}  // namespace anabranch
