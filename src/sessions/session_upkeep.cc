// Removal from the store: of sessions, by their users or by Retention, and of what they left behind.
#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "sessions/session_sql.h"

namespace anabranch {
namespace {

constexpr int64_t kStepBytes = 8 << 20;  // removed per transaction, approximately

}  // namespace

// Removes the messages that meet the condition. The full-text index is updated first, because it needs their
// text. Call within a transaction.
void SessionStore::remove_messages(const char* condition, const MessageKey& value) {
  for (const char* command :
       {"INSERT INTO words (words, rowid, text) SELECT 'delete', id, text FROM messages WHERE ",
        "DELETE FROM messages WHERE "}) {
    SQLite::Statement remove(*db_, std::string(command) + condition);
    std::visit([&](const auto& key) { remove.bind(1, key); }, value);
    remove.exec();
  }
}

// Removes a session with its messages, responses and traces. Call within a transaction.
void SessionStore::remove(const std::string& id) {
  SQLite::Statement traces(*db_, "SELECT trace FROM traces WHERE session = ?");
  traces.bind(1, id);
  while (traces.executeStep()) leaving_.push_back(traces.getColumn(0).getString());
  traces.reset();
  remove_messages("session = ?", id);
  for (const char* table : {"responses WHERE session", "traces WHERE session", "sessions WHERE id"}) {
    SQLite::Statement remove(*db_, fmt::format("DELETE FROM {} = ?", table));
    remove.bind(1, id);
    remove.exec();
  }
}

// Call within a transaction. Removes the newest messages, about kStepBytes. False: there were none.
bool SessionStore::remove_newest(const std::string& id) {
  std::vector<MessageId> messages;
  SQLite::Statement query(*db_, "SELECT id FROM messages WHERE session = ? ORDER BY id DESC");
  query.bind(1, id);
  while (query.executeStep()) messages.push_back(query.getColumn(0).getInt64());
  query.reset();
  SQLite::Statement size(*db_,
                         "SELECT length(CAST(text AS BLOB)) + length(CAST(json AS BLOB)) + "
                         "length(CAST(about AS BLOB)) FROM messages WHERE id = ?");
  int64_t bytes = 0, count = 0;
  for (const MessageId message : messages) {
    if (bytes >= kStepBytes) break;
    size.bind(1, message);
    if (size.executeStep()) bytes += size.getColumn(0).getInt64();
    size.reset();
    remove_messages("id = ?", message);
    ++count;
  }
  SQLite::Statement note(
      *db_, "UPDATE sessions SET messages = messages - ?, bytes = bytes - ?, head = 0 WHERE id = ?");
  note.bind(1, count);
  note.bind(2, bytes);
  note.bind(3, id);
  note.exec();
  return count > 0;
}

// Removes a large session in steps, so that others can write in between.
Result<void> SessionStore::erase_in_steps(const Owner& owner, const std::string& id) {
  for (bool more = true; more;) {
    TRY(more, run(true, [&]() -> Result<bool> {
          const auto session = find_session(*db_, owner, id);
          if (!session) return no_session(id);
          if (session->bytes > kStepBytes && remove_newest(id)) return true;
          remove(id);
          scrub_due_ = true;
          return false;
        }));
    if (more) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

Result<void> SessionStore::erase(const Owner& owner, const std::string& id) {
  auto erased = erase_in_steps(owner, id);
  if (erased || erased.error().kind != ErrorKind::exhausted) return erased;
  // SQLite writes a change to its log first, which needs space. Emptying the log may free enough.
  if (const auto emptied = empty_log(); !emptied || !*emptied) return erased;
  return erase_in_steps(owner, id);
}

Result<bool> SessionStore::empty_log() {
  return run(false, [&]() -> Result<bool> {
    // Wait only briefly if a reader needs a part of the log, so that others do not wait for long.
    db_->setBusyTimeout(kLogWaitMs);
    SQLite::Statement empty(*db_, "PRAGMA wal_checkpoint(TRUNCATE)");
    const int row = empty.tryExecuteStep();
    db_->setBusyTimeout(kBusyMs);
    if (row != SQLITE_ROW) throw SQLite::Exception(db_->getHandle(), row);
    return empty.getColumn(0).getInt() == 0;
  });
}

Result<void> SessionStore::scrub() {
  // Joins all parts of the index, like "optimize", but some pages at a time (FTS5's "merge" command: it is
  // done when it changes fewer than two rows).
  constexpr int kPages = 200;
  for (bool first = true, more = true; more; first = false) {
    TRY(more, run(true, [&]() -> Result<bool> {
          const int before = db_->getTotalChanges();
          db_->exec(
              fmt::format("INSERT INTO words (words, rank) VALUES ('merge', {})", first ? -kPages : kPages));
          return first || db_->getTotalChanges() - before >= 2;
        }));
  }
  constexpr int kTries = 25;
  for (int i = 0; i < kTries; ++i) {
    TRY(const bool emptied, empty_log());
    if (emptied) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(kLogWaitMs));
  }
  return {};
}

Result<int> SessionStore::prune() {
  written_ = 0;
  changes_ = 0;
  pruned_at_ = unix_seconds();
  int removed = 0;
  // First the old sessions, so that they do not count for the limits.
  for (const auto& find : {&SessionStore::find_old, &SessionStore::find_excess}) {
    TRY(const auto ids, run(false, [&]() -> Result<std::vector<std::string>> { return (this->*find)(); }));
    for (const std::string& id : ids) {
      const auto erased = erase({}, id);
      if (!erased && erased.error().kind != ErrorKind::not_found) return erased.error();
      removed += erased.ok();
    }
  }
  return removed;
}

Result<void> SessionStore::upkeep() {
  if (prune_due_.exchange(false)) TRY_VOID(prune());
  if (!scrub_due_.exchange(false)) return {};
  auto scrubbed = scrub();
  if (!scrubbed) scrub_due_ = true;
  return scrubbed;
}

std::vector<std::string> SessionStore::find_old() {
  std::vector<std::string> ids;
  if (retention_.days <= 0) return ids;
  SQLite::Statement query(*db_, "SELECT id FROM sessions WHERE updated_at < ?");
  query.bind(1, unix_seconds() - static_cast<int64_t>(retention_.days * 86400));
  while (query.executeStep()) ids.push_back(query.getColumn(0).getString());
  return ids;
}

// Counts each owner's sessions separately.
std::vector<std::string> SessionStore::find_excess() {
  std::vector<std::string> ids;
  SQLite::Statement unlisted(*db_,
                             "SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY owner ORDER BY "
                             "changed DESC) AS place FROM sessions WHERE listed = 0) WHERE place > ?");
  unlisted.bind(1, kMaxUnlisted);
  while (unlisted.executeStep()) ids.push_back(unlisted.getColumn(0).getString());
  if (retention_.bytes == 0) return ids;
  // The session changed last always stays, however large it is, and does not count.
  SQLite::Statement query(*db_,
                          "SELECT id FROM (SELECT id, sum(bytes) OVER newest AS newer, first_value(bytes) "
                          "OVER newest AS last FROM sessions WINDOW newest AS (PARTITION BY owner ORDER BY "
                          "changed DESC ROWS UNBOUNDED PRECEDING)) WHERE newer - last > ?");
  query.bind(1, static_cast<int64_t>(retention_.bytes));
  while (query.executeStep()) ids.push_back(query.getColumn(0).getString());
  return ids;
}

void SessionStore::prune_after(size_t bytes) {
  constexpr uint64_t kPart = 16;  // the limit of bytes is exceeded by at most 1/kPart of it
  constexpr int kChanges = 1024;
  constexpr int64_t kSeconds = 3600;
  written_ += bytes;
  const bool large = retention_.bytes > 0 && written_ > retention_.bytes / kPart;
  if (!large && ++changes_ < kChanges && unix_seconds() - pruned_at_ < kSeconds) return;
  const bool noted = prune_due_.exchange(true);
  if (due_) {
    if (!noted) due_();
  } else if (const auto done = upkeep(); !done) {
    log_warning("old conversations could not be removed: {}", done.error().message);
  }
}

// --- Traces

Result<void> SessionStore::add_traces(const std::string& session, std::span<const std::string> traces) {
  return run(true, [&]() -> Result<void> {
    if (!find_session(*db_, std::nullopt, session)) {
      leaving_.insert(leaving_.end(), traces.begin(), traces.end());
      return {};
    }
    SQLite::Statement count(*db_, "SELECT count(*) FROM traces WHERE session = ?");
    count.bind(1, session);
    count.executeStep();
    auto room = static_cast<size_t>(std::max(0, kMaxTraces - count.getColumn(0).getInt()));
    SQLite::Statement newest(*db_, "SELECT coalesce(max(id), 0) FROM messages WHERE session = ?");
    newest.bind(1, session);
    newest.executeStep();
    SQLite::Statement add(*db_, "INSERT OR IGNORE INTO traces VALUES (?, ?, ?)");
    add.bind(3, newest.getColumn(0).getInt64());
    for (const std::string& trace : traces.first(std::min(traces.size(), room))) {
      add.bind(1, session);
      add.bind(2, trace);
      add.exec();
      add.reset();
    }
    return {};
  });
}

// originals: the messages that were copied, ascending. Only traces added before any newer message are copied.
Result<void> SessionStore::copy_traces(const std::string& from, std::span<const MessageId> originals,
                                       const Session& copy) {
  return run(true, [&]() -> Result<void> {
    SQLite::Statement find(*db_, "SELECT trace, message FROM traces WHERE session = ? AND message <= ?");
    find.bind(1, from);
    find.bind(2, originals.empty() ? kNoMessage : originals.back());
    std::vector<std::pair<std::string, MessageId>> traces;
    while (find.executeStep())
      traces.emplace_back(find.getColumn(0).getString(), find.getColumn(1).getInt64());
    SQLite::Statement add(*db_, "INSERT OR IGNORE INTO traces VALUES (?, ?, ?)");
    add.bind(1, copy.id);
    for (const auto& [trace, message] : traces) {
      // The copies were made in one transaction, so their ids are consecutive up to the head.
      const auto newer = originals.end() - std::ranges::upper_bound(originals, message);
      add.bind(2, trace);
      add.bind(3, newer == std::ssize(originals) ? kNoMessage : copy.head - newer);
      add.exec();
      add.reset();
    }
    return {};
  });
}

std::vector<std::string> SessionStore::take_released() {
  const std::lock_guard lock(mutex_);
  return std::exchange(released_, {});
}

bool SessionStore::has_released() {
  const std::lock_guard lock(mutex_);
  return !released_.empty();
}

void SessionStore::put_back(std::span<const std::string> traces) {
  const std::lock_guard lock(mutex_);
  released_.insert(released_.end(), traces.begin(), traces.end());
}

Result<void> SessionStore::drop_used(std::vector<std::string>& traces) {
  return read([&](SQLite::Database& db) -> Result<void> {
    SQLite::Statement find(db, "SELECT 1 FROM traces WHERE trace = ? LIMIT 1");
    std::erase_if(traces, [&](const std::string& trace) {
      find.reset();
      find.bind(1, trace);
      return find.executeStep();
    });
    return {};
  });
}

}  // namespace anabranch
