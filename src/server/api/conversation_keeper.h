// Stores the conversation of one response: first the messages of its request, then those of its answer, and
// at the end the response itself. Thread-safe; the calls wait for the disk, and for other processes that hold
// the database.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "sessions/session_store.h"

namespace anabranch::server {

class ConversationKeeper {
 public:
  // session: the session to continue, below the message `parent`; empty: a new session that is not listed.
  ConversationKeeper(SessionStore& store, std::string owner, std::string session, MessageId parent)
      : store_(store), owner_(std::move(owner)), session_(std::move(session)), last_(parent) {}

  // begin() stores the messages of the request, add() those of the answer. Errors: see SessionStore::append.
  Result<void> begin(const std::vector<NewMessage>& request);
  Result<void> add(const std::vector<NewMessage>& answer);
  // Stores the response itself. Errors: see SessionStore::put_response.
  Result<void> put_response(const std::string& id, const Json& response, const Json& input_items);
  // Adds names of cache entries (traces) to the session, which are removed with it.
  void note(const std::vector<std::string>& traces);
  // Undoes begin(), if nothing was added since: the request could not be answered.
  void take_back();

  // The ids of the stored messages, in order.
  std::vector<MessageId> messages() const {
    std::lock_guard lock(mutex_);
    return messages_;
  }

 private:
  SessionStore& store_;
  const std::string owner_;
  mutable std::mutex mutex_;  // guards what follows
  std::string session_;
  MessageId last_;
  bool is_new_ = false;    // begin() made the session
  bool answered_ = false;  // add() was called
  Result<void> append(const std::vector<NewMessage>& messages);
  MessageId head_ = kNoMessage;  // head of the session before begin()
  std::vector<MessageId> messages_;
};

}  // namespace anabranch::server
