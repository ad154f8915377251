// The session that a chat is kept in, if its user wants one.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/conversation.h"
#include "sessions/session_store.h"

namespace anabranch::cli {

// The directory that --sessions means; without it the usual one. Error: not_found (the user has no home).
Result<std::string> session_directory(const std::string& wanted);
// The session that a user means: an id, its beginning, or a part of a title; empty: the last one.
// Errors: not_found, invalid (several have it).
Result<Session> find_session(SessionStore& store, const std::string& wanted);

class ChatSession {
 public:
  // Errors: those of SessionStore::open and find_session.
  static Result<std::unique_ptr<ChatSession>> open(const SessionFlags& flags);

  // The session that goes on; none: it begins with the first message.
  const std::optional<Session>& session() const { return session_; }
  // The messages so far. Errors: io.
  Result<Json> messages();
  // Stores what of the chat's messages is new. answer: of the last one, if it is the model's. model: its
  // name. What cannot be stored is told on stderr, and tried again with the next message.
  void keep(const Json& messages, const Answer* answer, const std::string& model);
  // Takes back what was stored of the chat's messages from this one on: it never happened.
  void take_back(size_t first);
  // The next message begins another session.
  void begin_anew();
  Result<void> rename(const std::string& title);

 private:
  Result<void> store_new(const Json& messages, const Answer* answer, const std::string& model);

  std::unique_ptr<SessionStore> store_;
  std::optional<Session> session_;
  std::vector<MessageId> kept_;  // of the chat's messages, in their order
};

}  // namespace anabranch::cli
