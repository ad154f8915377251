// Keeps conversations in an SQLite database that several processes may use at the same time.
//
// Every change is one transaction: after a crash a message is there as a whole or not at all. When a call has
// returned, what it changed survives a crash of the process and of the machine.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "sessions/session.h"

namespace SQLite {
class Database;
}

namespace anabranch {

// The file of a store in this directory.
std::string session_file(const std::string& directory);
// anabranch/sessions in the user's data directory; empty: there is none.
std::string default_session_directory();

// Thread-safe. Every call may wait for the disk, and up to five seconds for other processes.
// Errors of all calls: io (the database cannot be read or written), exhausted (the disk is full), busy
// (another process holds it for too long). Sessions of another owner count as not_found.
class SessionStore {
 public:
  static constexpr size_t kMaxTitle = 200;                // bytes
  static constexpr size_t kMaxSettings = 64 << 10;        // bytes of JSON; of metadata, too
  static constexpr int64_t kMaxMessages = 65536;          // of a session
  static constexpr size_t kMaxMessageBytes = 32 << 20;    // of text and JSON
  static constexpr int64_t kMaxSessionBytes = 128 << 20;  // of all branches
  static constexpr size_t kPageBytes = 8 << 20;           // of one page; a larger message is one alone
  static constexpr int kMaxListed = 1000;                 // sessions in one answer
  static constexpr int kMaxTraces = 1 << 16;              // of a session
  static constexpr int kMaxUnlisted = 4096;  // sessions of an owner that are not listed; older ones go

  // directory: created for its owner only if missing; empty: the store is in memory.
  // due: called when there is something for upkeep() to do, from any thread, and must return at once; without
  // it, the call that brought it about does upkeep() itself.
  // Errors: io, unsupported (a newer version of the program wrote the file).
  static Result<std::unique_ptr<SessionStore>> open(const std::string& directory, Retention retention,
                                                    std::function<void()> due = {});
  ~SessionStore();

  // Errors: invalid (a title, settings, metadata or message that is too large or no object).
  Result<Session> create(const NewSession& session);
  // Errors: not_found.
  Result<Session> find(const Owner& owner, const std::string& id);
  // Errors: not_found (`after`), invalid (no word in the text).
  Result<SessionList> list(const SessionQuery& query);
  // The messages from the root down to `head`; without it, to the session's. Errors: not_found.
  Result<std::vector<SessionMessage>> path(const Owner& owner, const std::string& id,
                                           std::optional<MessageId> head = {});
  // The last messages of that path, at most `limit` and about kPageBytes; before: only those above this one.
  // Errors: not_found.
  Result<SessionPage> page(const Owner& owner, const std::string& id, std::optional<MessageId> head,
                           MessageId before, int limit);
  // Adds messages, one below the other, below `parent` (kNoMessage: at the root; none: below the head). The
  // last becomes the head. Returns their ids. Errors: not_found, invalid.
  Result<std::vector<MessageId>> append(const Owner& owner, const std::string& id,
                                        std::optional<MessageId> parent,
                                        std::span<const NewMessage> messages);
  // The same for several sessions: all are made, or none.
  Result<std::vector<Session>> create_all(std::span<const NewSession> sessions);
  // Takes back the last append: removes these messages if nothing is below them. head: what the head was
  // before.
  Result<void> take_back(const std::string& id, std::span<const MessageId> messages, MessageId head);
  // Errors: not_found, invalid.
  Result<Session> change(const Owner& owner, const std::string& id, const SessionChange& change);
  // A new session with a copy of the messages down to `message`, and with the traces that were noted while
  // nothing was newer than it. title: empty: that of the first.
  // Errors: not_found.
  Result<Session> branch(const Owner& owner, const std::string& id, MessageId message,
                         const std::string& title);
  // Removes a session, its messages and its responses, and overwrites them in the file; a large one in steps,
  // of which a crash leaves the rest. Their words stay in the index of words, and what was written lately in
  // SQLite's log, until scrub(). Errors: not_found.
  Result<void> erase(const Owner& owner, const std::string& id);
  // Overwrites what removed sessions left behind. Takes seconds for large stores, in short steps between
  // which others can work.
  Result<void> scrub();
  // Removes what Retention does not allow, and unlisted sessions beyond kMaxUnlisted. Returns how many
  // sessions that were. Runs by itself when the store is opened; after changes it is due now and then.
  Result<int> prune();
  // Does prune() and scrub() if they are due: prune() after many changes, scrub() after sessions or responses
  // were removed.
  Result<void> upkeep();

  // Notes what is kept of the session elsewhere (engine/engine.h: Event::states). Of a session that is gone
  // it is released at once. At most kMaxTraces are noted of a session.
  Result<void> add_traces(const std::string& session, std::span<const std::string> traces);
  // The traces that removed sessions alone had, since the last call.
  std::vector<std::string> take_released();
  bool has_released();
  // For the next take_released(), because they could not be dealt with.
  void put_back(std::span<const std::string> traces);
  // Leaves those out that a session here still has.
  Result<void> drop_used(std::vector<std::string>& traces);

  // Errors: not_found (its session).
  Result<void> put_response(const StoredResponse& response);
  // Errors: not_found.
  Result<StoredResponse> find_response(const Owner& owner, const std::string& id);
  // Its messages stay in the session. A session that is not listed goes with its last response.
  // Errors: not_found.
  Result<void> erase_response(const Owner& owner, const std::string& id);

 private:
  SessionStore(std::unique_ptr<SQLite::Database> db, Retention retention, std::function<void()> due);
  template <class Work>
  auto run(bool write, Work work) -> decltype(work());
  template <class Work>
  auto read(Work work) -> decltype(work(std::declval<SQLite::Database&>()));
  // False: a reader needs a part of it.
  Result<bool> empty_log();
  Session create_one(const NewSession& session);
  std::vector<MessageId> insert(const std::string& id, MessageId parent,
                                std::span<const NewMessage> messages);
  void remove(const std::string& id);
  bool remove_newest(const std::string& id);
  Result<void> erase_in_steps(const Owner& owner, const std::string& id);
  Result<void> copy_traces(const std::string& from, std::span<const MessageId> originals,
                           const Session& copy);
  void prune_after(size_t bytes);
  std::vector<std::string> find_old();
  std::vector<std::string> find_excess();
  using MessageKey = std::variant<MessageId, std::string>;
  void remove_messages(const char* condition, const MessageKey& value);

  std::mutex mutex_;                      // guards the next three
  std::unique_ptr<SQLite::Database> db_;  // writes
  std::vector<std::string> leaving_;      // traces of sessions that the present transaction removes
  std::vector<std::string> released_;     // as of take_released()
  std::array<std::unique_ptr<SQLite::Database>, 3> readers_;  // null: the store is in memory
  std::mutex readers_mutex_;                                  // guards the next three
  std::condition_variable reader_came_;
  std::vector<SQLite::Database*> free_readers_;
  uint64_t first_place_ = 0, last_place_ = 0;  // of those who wait for one, in turn
  const Retention retention_;
  const std::function<void()> due_;
  std::atomic<bool> prune_due_{false}, scrub_due_{false};
  std::atomic<uint64_t> written_{0};   // bytes since the last prune()
  std::atomic<int> changes_{0};        // since then
  std::atomic<int64_t> pruned_at_{0};  // Unix seconds
};

}  // namespace anabranch
