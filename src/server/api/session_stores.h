// The stores of conversations that a server has: one in memory, for responses that clients may refer to, and
// one on disk, for what its users want to keep.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sessions/session_store.h"

namespace anabranch::server {

struct SessionOptions {
  std::string directory;  // of the store on disk; empty: there is none
  // Stored responses and OpenAI's conversations are kept on disk, too. Else only conversations for which a
  // client asks it (POST /v1/sessions).
  bool keep_responses = false;
  Retention retention;
};

// Thread-safe. The members may wait for the disk.
class SessionStores {
 public:
  // Opens the store on disk if responses are kept there. If there is a file that cannot be used, that is
  // logged, the file stays, and responses are kept in memory. Errors: io (the directory cannot be used).
  static Result<std::unique_ptr<SessionStores>> open(const SessionOptions& options);

  // The store on disk, which is made if it is missing. Errors: not_found (it was turned off), io.
  Result<SessionStore*> kept();
  // For what clients store without asking that it be kept.
  SessionStore& usual() { return usual_on_disk_ ? *disk_ : *memory_; }
  // The traces (session_store.h) that removed sessions had and no other has, since the last call. Errors:
  // those of SessionStore::drop_used(); the next call has them again.
  Result<std::vector<std::string>> take_released();
  // Whether there are some, which others may have all the same.
  bool has_released();
  // See SessionStore.
  void put_back(std::span<const std::string> traces) { memory_->put_back(traces); }
  // See SessionStore, in both. Failures are logged.
  void upkeep();
  // `due` is called, with a lock held, when there is something for upkeep() to do; empty: nobody is told
  // until the next call.
  void tell_upkeep(std::function<void()> due);
  // The store that has this session, or this response. Errors: not_found, io.
  Result<SessionStore*> of_session(const Owner& owner, const std::string& id);
  Result<SessionStore*> of_response(const Owner& owner, const std::string& id);

 private:
  explicit SessionStores(const SessionOptions& options) : options_(options) {}
  Result<std::unique_ptr<SessionStore>> open_store(const std::string& directory, const Retention& retention);
  std::vector<SessionStore*> all();
  // Null: nothing was ever kept there.
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
