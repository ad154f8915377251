// The conversation stores of a server: one in memory, for responses that clients may refer to, and one on
// disk, for conversations that users want to keep.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "sessions/session_store.h"

namespace anabranch::server {

struct SessionOptions {
  std::string directory;  // of the store on disk; empty: no such store
  // Whether stored responses and OpenAI's conversations are also kept on disk. Otherwise the disk has only
  // conversations for which a client asks that (POST /v1/sessions).
  bool keep_responses = false;
  Retention retention;
};

// Thread-safe. Calls may wait for the disk.
class SessionStores {
 public:
  // Opens the store on disk if responses are kept there. If its file cannot be used, this is logged, the file
  // stays, and responses are kept in memory. Errors: io (the directory cannot be used).
  static Result<std::unique_ptr<SessionStores>> open(const SessionOptions& options);

  // The store on disk, which is created if it is missing. Errors: not_found (it was turned off), io.
  Result<SessionStore*> kept();
  // The store for conversations that clients store without asking to keep them.
  SessionStore& usual() { return usual_on_disk_ ? *disk_ : *memory_; }
  // The traces (session_store.h) of sessions removed since the last call that no other session has. Errors:
  // those of SessionStore::drop_used(); the next call returns the traces again.
  Result<std::vector<std::string>> take_released();
  // Whether traces of removed sessions wait for take_released(). Other sessions may have the same ones.
  bool has_released();
  // Returns traces to the next take_released(), because they could not be handled.
  void put_back(std::span<const std::string> traces) { memory_->put_back(traces); }
  // Runs SessionStore::upkeep() of both stores. Failures are logged.
  void upkeep();
  // Sets the function that is called, with a lock held, when upkeep() has work; empty: no function.
  void tell_upkeep(std::function<void()> due);
  // The store that has this session, or this response. Errors: not_found, io.
  Result<SessionStore*> of_session(const Owner& owner, const std::string& id);
  Result<SessionStore*> of_response(const Owner& owner, const std::string& id);
  // See SessionStore::find_items(); of both stores.
  Result<std::map<std::string, Json>> find_items(const Owner& owner, std::span<const std::string> ids);

 private:
  explicit SessionStores(const SessionOptions& options) : options_(options) {}
  Result<std::unique_ptr<SessionStore>> open_store(const std::string& directory, const Retention& retention);
  std::vector<SessionStore*> all();
  // The store on disk; null: it was never used.
  Result<SessionStore*> kept_if_there();
  template <class Find>
  Result<SessionStore*> store_where(Find find);

  const SessionOptions options_;
  std::mutex due_mutex_;  // guards the next two
  std::function<void()> due_;
  bool is_due_ = false;
  std::unique_ptr<SessionStore> memory_;
  bool usual_on_disk_ = false;
  std::mutex mutex_;  // guards what follows; disk_ does not change once it is set
  std::unique_ptr<SessionStore> disk_;
};

}  // namespace anabranch::server
