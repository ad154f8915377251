// Stores conversations in an SQLite database that several processes may use at the same time.
// Every change is one transaction: after a crash a message is stored completely or not at all. When a call
// has returned, its changes survive a crash of the process and of the machine.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
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

// The path of a store's file in this directory.
std::string session_file(const std::string& directory);
// anabranch/sessions in the user's data directory; empty: the user has none.
std::string default_session_directory();

// Thread-safe. Every call may wait for the disk, and up to five seconds for other processes.
// Errors of all calls: io (the database cannot be read or written), exhausted (the disk is full), busy
// (another process locks it for too long). Sessions of another owner count as not_found.
class SessionStore {
 public:
  static constexpr size_t kMaxTitle = 200;                // bytes
  static constexpr size_t kMaxSettings = 64 << 10;        // bytes of JSON; also for metadata
  static constexpr int64_t kMaxMessages = 65536;          // per session
  static constexpr size_t kMaxMessageBytes = 32 << 20;    // of text and JSON
  static constexpr int64_t kMaxSessionBytes = 128 << 20;  // per session, in all branches
  static constexpr size_t kPageBytes = 8 << 20;           // per page; a larger message is a page of its own
  static constexpr int kMaxListed = 1000;                 // sessions per answer
  static constexpr int kMaxTraces = 1 << 16;              // per session
  static constexpr int kMaxUnlisted = 4096;  // unlisted sessions per owner; older ones are removed

  // directory: if missing, created with access for its owner only; empty: the store is in memory.
  // due: called from any thread when upkeep() has something to do; must return at once. Without it, the call
  // that made upkeep() due runs it.
  // Errors: io, unsupported (a newer version of the program wrote the file).
  static Result<std::unique_ptr<SessionStore>> open(const std::string& directory, Retention retention,
                                                    std::function<void()> due = {});
  ~SessionStore();

  // Errors: invalid (a title, settings, metadata or message that is too large or not an object).
  Result<Session> create(const NewSession& session);
  // Errors: not_found.
  Result<Session> find(const Owner& owner, const std::string& id);
  // Errors: not_found (`after`), invalid (no word in the text).
  Result<SessionList> list(const SessionQuery& query);
  // The messages from the root down to `head` (unset: the session's head). Errors: not_found.
  Result<std::vector<SessionMessage>> path(const Owner& owner, const std::string& id,
                                           std::optional<MessageId> head = {});
  // The last messages of that path, at most `limit` and about kPageBytes; before: only those above this
  // message. Errors: not_found.
  Result<SessionPage> page(const Owner& owner, const std::string& id, std::optional<MessageId> head,
                           MessageId before, int limit);
  // Adds messages, each one below the previous, the first below `parent` (kNoMessage: at the root; unset:
  // below the head). The last one becomes the head. Returns their ids. Errors: not_found, invalid.
  Result<std::vector<MessageId>> append(const Owner& owner, const std::string& id,
                                        std::optional<MessageId> parent,
                                        std::span<const NewMessage> messages);
  // Creates several sessions: all or none.
  Result<std::vector<Session>> create_all(std::span<const NewSession> sessions);
  // Undoes the last append: removes these messages if nothing is below them. head: the previous head.
  Result<void> take_back(const std::string& id, std::span<const MessageId> messages, MessageId head);
  // Errors: not_found, invalid.
  Result<Session> change(const Owner& owner, const std::string& id, const SessionChange& change);
  // Creates a session with a copy of the messages down to `message`, and with the traces that were added
  // before any newer message existed. title: empty: the first session's title.
  // Errors: not_found.
  Result<Session> branch(const Owner& owner, const std::string& id, MessageId message,
                         const std::string& title);
  // Removes a session, its messages and its responses, and overwrites them in the file. A large session is
  // removed in steps; after a crash the rest of it remains. Until scrub(), its words stay in the full-text
  // index, and recent writes in SQLite's log. Errors: not_found.
  Result<void> erase(const Owner& owner, const std::string& id);
  // Overwrites what is left of removed sessions. Takes seconds for large stores, in short steps between which
  // others can work.
  Result<void> scrub();
  // Removes sessions that Retention does not allow, and unlisted sessions beyond kMaxUnlisted. Returns how
  // many sessions were removed. Runs automatically when the store is opened, and is due now and then after
  // changes.
  Result<int> prune();
  // Runs prune() and scrub() if they are due: prune() after many changes, scrub() after sessions or responses
  // were removed.
  Result<void> upkeep();

  // Adds traces: names of data about the session that is stored elsewhere (engine/engine.h: Event::states).
  // If the session no longer exists, they are released at once. A session has at most kMaxTraces.
  Result<void> add_traces(const std::string& session, std::span<const std::string> traces);
  // Traces that belonged only to sessions removed since the last call.
  std::vector<std::string> take_released();
  bool has_released();
  // Returns traces to the next take_released(), because they could not be handled.
  void put_back(std::span<const std::string> traces);
  // Removes traces that a session of this store still has from the list.
  Result<void> drop_used(std::vector<std::string>& traces);

  // Errors: not_found (its session).
  Result<void> put_response(const StoredResponse& response);
  // Errors: not_found.
  Result<StoredResponse> find_response(const Owner& owner, const std::string& id);
  // The items with these ids in stored responses and their inputs, the newest of each id. Ids without an item
  // are left out. Reads all responses of the owner.
  Result<std::map<std::string, Json>> find_items(const Owner& owner, std::span<const std::string> ids);
  // Its messages stay in the session. An unlisted session is removed with its last response. Errors:
  // not_found.
  Result<void> erase_response(const Owner& owner, const std::string& id);

 private:
  SessionStore(std::unique_ptr<SQLite::Database> db, Retention retention, std::function<void()> due);
  template <class Work>
  auto run(bool write, Work work) -> decltype(work());
  template <class Work>
  auto read(Work work) -> decltype(work(std::declval<SQLite::Database&>()));
  // Empties SQLite's log. False: a reader still needs a part of it.
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

  std::mutex mutex_;                      // guards the next three members
  std::unique_ptr<SQLite::Database> db_;  // writes
  std::vector<std::string> leaving_;      // traces of sessions that the current transaction removes
  std::vector<std::string> released_;     // see take_released()
  std::array<std::unique_ptr<SQLite::Database>, 3> readers_;  // null: the store is in memory
  std::mutex readers_mutex_;                                  // guards the next three members
  std::condition_variable reader_came_;
  std::vector<SQLite::Database*> free_readers_;
  uint64_t first_place_ = 0, last_place_ = 0;  // queue of those who wait for a reader
  const Retention retention_;
  const std::function<void()> due_;
  std::atomic<bool> prune_due_{false}, scrub_due_{false};
  std::atomic<uint64_t> written_{0};   // bytes since the last prune()
  std::atomic<int> changes_{0};        // since the last prune()
  std::atomic<int64_t> pruned_at_{0};  // Unix seconds
};

}  // namespace anabranch
