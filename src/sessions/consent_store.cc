#include "sessions/consent_store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <openssl/sha.h>

#include <array>
#include <mutex>

#include "base/clock.h"
#include "base/log.h"
#include "base/private_file.h"

namespace anabranch {
namespace {

constexpr int kBusyMs = 1000;
constexpr int kFormat = 1;
constexpr int kMostQuestions = 10'000, kMostTools = 10'000;  // of one owner

// SHA-256 of parts whose ends are told apart.
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
      : db_(path.empty() ? ":memory:" : path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE, kBusyMs) {
    db_.exec("PRAGMA trusted_schema = OFF");
    db_.exec("PRAGMA journal_mode = WAL");
    const int format = db_.execAndGet("PRAGMA user_version").getInt();
    if (format != 0 && format != kFormat) throw SQLite::Exception("it is of another version");
    db_.exec(
        "CREATE TABLE IF NOT EXISTS questions (owner TEXT, call TEXT, digest BLOB, shown BLOB, at INTEGER, "
        "PRIMARY KEY (owner, call))");
    db_.exec(
        "CREATE TABLE IF NOT EXISTS tools (owner TEXT, server TEXT, tool TEXT, shown BLOB, at INTEGER, "
        "PRIMARY KEY (owner, server, tool))");
    db_.exec("PRAGMA user_version = " + std::to_string(kFormat));
  }

  void ask(const ConsentQuestion& q) {
    const std::lock_guard lock(mutex_);
    SQLite::Statement insert(db_, "INSERT OR REPLACE INTO questions VALUES (?, ?, ?, ?, ?)");
    bind_all(insert, q.owner, q.call, digest_of({q.server, q.tool, q.arguments}), digest_of({q.shown}),
             unix_nanoseconds());
    insert.exec();
    trim("questions", q.owner, kMostQuestions);
  }

  Verdict approve(const ConsentQuestion& q) {
    const std::lock_guard lock(mutex_);
    SQLite::Transaction transaction(db_, SQLite::TransactionBehavior::IMMEDIATE);
    SQLite::Statement find(db_, "SELECT digest, shown FROM questions WHERE owner = ? AND call = ?");
    bind_all(find, q.owner, q.call);
    if (!find.executeStep()) return Verdict::not_asked;
    if (find.getColumn(0).getString() != digest_of({q.server, q.tool, q.arguments}))
      return Verdict::other_call;
    if (find.getColumn(1).getString() != digest_of({q.shown})) return Verdict::changed_tool;
    find.reset();
    SQLite::Statement remove(db_, "DELETE FROM questions WHERE owner = ? AND call = ?");
    bind_all(remove, q.owner, q.call);
    remove.exec();
    remember(q.owner, q.server, q.tool, q.shown, "REPLACE");
    transaction.commit();
    return Verdict::granted;
  }

  bool has_changed(const std::string& owner, const std::string& server, const std::string& tool,
                   const std::string& shown) {
    const std::lock_guard lock(mutex_);
    SQLite::Statement find(db_, "SELECT shown FROM tools WHERE owner = ? AND server = ? AND tool = ?");
    bind_all(find, owner, server, tool);
    if (find.executeStep()) return find.getColumn(0).getString() != digest_of({shown});
    remember(owner, server, tool, shown, "IGNORE");
    return false;
  }

 private:
  void remember(const std::string& owner, const std::string& server, const std::string& tool,
                const std::string& shown, const char* otherwise) {
    SQLite::Statement insert(db_, fmt::format("INSERT OR {} INTO tools VALUES (?, ?, ?, ?, ?)", otherwise));
    bind_all(insert, owner, server, tool, digest_of({shown}), unix_nanoseconds());
    insert.exec();
    trim("tools", owner, kMostTools);
  }

  void trim(const char* table, const std::string& owner, int most) {
    if (++writes_ % 100 != 0) return;
    SQLite::Statement remove(
        db_, fmt::format("DELETE FROM {0} WHERE owner = ?1 AND rowid NOT IN (SELECT rowid FROM "
                         "{0} WHERE owner = ?1 ORDER BY at DESC LIMIT {1})",
                         table, most));
    remove.bind(1, owner);
    remove.exec();
  }

  std::mutex mutex_;
  SQLite::Database db_;
  uint64_t writes_ = 0;
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

ConsentStore::Verdict ConsentStore::approve(const ConsentQuestion& question) {
  try {
    return database_->approve(question);
  } catch (const SQLite::Exception& e) {
    log_warning("an approval cannot be looked up, so it does not count: {}", e.what());
    return Verdict::not_asked;
  }
}

// Without the database nothing is known to be unchanged.
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
