#include "sessions/consent_store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <openssl/sha.h>

#include <array>
#include <map>
#include <mutex>

#include "base/clock.h"
#include "base/log.h"
#include "base/private_file.h"
#include "base/write_ahead_log.h"

namespace anabranch {
namespace {

constexpr int kConsentBusyMs = 1000;
constexpr int kFormat = 1;
constexpr int kMostQuestions = 10'000;  // per owner
constexpr int kMostTools = 1'000;       // per owner and server
constexpr int64_t kQuestionNs =
    int64_t{7} * 24 * 3600 * 1'000'000'000;  // how long a question may be answered

// SHA-256 of the parts and their lengths, so that their borders count.
std::string digest_of(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) text += fmt::format("{}:{}", part.size(), part);
  std::array<unsigned char, SHA256_DIGEST_LENGTH> out;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data());
  return {out.begin(), out.end()};
}

template <class... Values>
void bind_all(SQLite::Statement& statement, const Values&... values) {
  int at = 0;
  (statement.bind(++at, values), ...);
}

}  // namespace

class ConsentStore::Database {
 public:
  explicit Database(const std::string& path)
      : db_(path.empty() ? ":memory:" : path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, kConsentBusyMs) {
    db_.exec("PRAGMA trusted_schema = OFF");
    use_write_ahead_log(db_, kConsentBusyMs);
    const int format = db_.execAndGet("PRAGMA user_version").getInt();
    if (format != 0 && format != kFormat) throw SQLite::Exception("it is of another version");
    db_.exec(
        "CREATE TABLE IF NOT EXISTS questions (owner TEXT, call TEXT, digest BLOB, shown BLOB, at INTEGER, "
        "PRIMARY KEY (owner, call))");
    db_.exec(
        "CREATE TABLE IF NOT EXISTS tools (owner TEXT, server TEXT, tool TEXT, shown BLOB, at INTEGER, "
        "PRIMARY KEY (owner, server, tool))");
    db_.exec("CREATE INDEX IF NOT EXISTS questions_by_age ON questions (owner, at)");
    db_.exec("PRAGMA user_version = " + std::to_string(kFormat));
    remove_old_questions();
  }

  void ask(const ConsentQuestion& q) {
    const std::lock_guard lock(mutex_);
    SQLite::Statement insert(db_, "INSERT OR REPLACE INTO questions VALUES (?, ?, ?, ?, ?)");
    bind_all(insert, q.owner, q.call, digest_of({q.server, q.tool, q.arguments}), digest_of({q.shown}),
             unix_nanoseconds());
    insert.exec();
    remove_old_questions();
    trim("questions", "owner = ?", kMostQuestions, q.owner);
  }

  void decline(const std::string& owner, const std::string& call) {
    const std::lock_guard lock(mutex_);
    remove_question(owner, call);
  }

  Verdict approve(const ConsentQuestion& q) {
    const std::lock_guard lock(mutex_);
    SQLite::Transaction transaction(db_, SQLite::TransactionBehavior::IMMEDIATE);
    SQLite::Statement find(db_,
                           "SELECT digest, shown FROM questions WHERE owner = ? AND call = ? AND at > ?");
    bind_all(find, q.owner, q.call, unix_nanoseconds() - kQuestionNs);
    if (!find.executeStep()) return Verdict::not_asked;
    if (find.getColumn(0).getString() != digest_of({q.server, q.tool, q.arguments}))
      return Verdict::other_call;
    if (find.getColumn(1).getString() != digest_of({q.shown})) return Verdict::changed_tool;
    find.reset();
    remove_question(q.owner, q.call);
    remember(q.owner, q.server, q.tool, q.shown, "REPLACE");
    transaction.commit();
    return Verdict::granted;
  }

  bool has_changed(const std::string& owner, const std::string& server, const std::string& tool,
                   const std::string& shown) {
    const std::lock_guard lock(mutex_);
    SQLite::Statement find(db_, "SELECT shown, rowid FROM tools WHERE owner = ? AND server = ? AND tool = ?");
    bind_all(find, owner, server, tool);
    if (find.executeStep()) {
      used_[find.getColumn(1).getInt64()] = unix_nanoseconds();
      return find.getColumn(0).getString() != digest_of({shown});
    }
    remember(owner, server, tool, shown, "IGNORE");
    return false;
  }

 private:
  void remember(const std::string& owner, const std::string& server, const std::string& tool,
                const std::string& shown, const char* otherwise) {
    SQLite::Statement insert(db_, fmt::format("INSERT OR {} INTO tools VALUES (?, ?, ?, ?, ?)", otherwise));
    bind_all(insert, owner, server, tool, digest_of({shown}), unix_nanoseconds());
    insert.exec();
    note_uses();
    trim("tools", "owner = ? AND server = ?", kMostTools, owner, server);
  }

  // Writes the times of use. Only done before a tool is removed, because every request uses all of its tools.
  void note_uses() {
    SQLite::Statement note(db_, "UPDATE tools SET at = max(at, ?) WHERE rowid = ?");
    for (const auto& [row, at] : used_) {
      bind_all(note, at, row);
      note.exec();
      note.reset();
    }
    used_.clear();
  }

  void remove_question(const std::string& owner, const std::string& call) {
    SQLite::Statement remove(db_, "DELETE FROM questions WHERE owner = ? AND call = ?");
    bind_all(remove, owner, call);
    remove.exec();
  }

  void remove_old_questions() {
    SQLite::Statement remove(db_, "DELETE FROM questions WHERE at <= ?");
    remove.bind(1, unix_nanoseconds() - kQuestionNs);
    remove.exec();
  }

  // Keeps the latest rows that the condition selects, and removes the others.
  template <class... Values>
  void trim(const char* table, const char* condition, int most, const Values&... values) {
    SQLite::Statement remove(db_,
                             fmt::format("DELETE FROM {0} WHERE rowid IN (SELECT rowid FROM {0} WHERE {1} "
                                         "ORDER BY at DESC LIMIT -1 OFFSET {2})",
                                         table, condition, most));
    bind_all(remove, values...);
    remove.exec();
  }

  std::mutex mutex_;
  SQLite::Database db_;
  std::map<int64_t, int64_t> used_;  // row of `tools` to its last use, since the last note_uses()
};

ConsentStore::ConsentStore(std::unique_ptr<Database> database) : database_(std::move(database)) {}
ConsentStore::~ConsentStore() = default;

Result<std::unique_ptr<ConsentStore>> ConsentStore::open(const std::string& path) {
  try {
    if (!path.empty()) {
      TRY_VOID(make_private_file(path));
    }
    return std::unique_ptr<ConsentStore>(new ConsentStore(std::make_unique<Database>(path)));
  } catch (const SQLite::Exception& e) {
    return make_error(ErrorKind::io, "{} cannot be used: {}", path, e.what());
  }
}

void ConsentStore::ask(const ConsentQuestion& question) {
  try {
    database_->ask(question);
  } catch (const SQLite::Exception& e) {
    log_warning("a question for consent cannot be remembered, so its approval will not count: {}", e.what());
  }
}

void ConsentStore::decline(const std::string& owner, const std::string& call) {
  try {
    database_->decline(owner, call);
  } catch (const SQLite::Exception& e) {
    log_warning("a question that was declined could still be approved for some days: {}", e.what());
  }
}

ConsentStore::Verdict ConsentStore::approve(const ConsentQuestion& question) {
  try {
    return database_->approve(question);
  } catch (const SQLite::Exception& e) {
    log_warning("an approval cannot be looked up, so it does not count: {}", e.what());
    return Verdict::not_asked;
  }
}

// Returns true if the database fails: then no tool is known to be unchanged.
bool ConsentStore::has_changed(const std::string& owner, const std::string& server, const std::string& tool,
                               const std::string& shown) {
  try {
    return database_->has_changed(owner, server, tool, shown);
  } catch (const SQLite::Exception& e) {
    log_warning("it is not known whether {}.{} has changed: {}", server, tool, e.what());
    return true;
  }
}

}  // namespace anabranch
