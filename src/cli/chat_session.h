// The session in which a chat is stored, if its user wants that.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/conversation.h"
#include "sessions/session_store.h"

namespace anabranch::cli {

// The directory that --sessions means; without it the usual one. Error: not_found (the user has no home).
Result<std::string> session_directory(const std::string& wanted);
// The session that a user means. wanted: an id, the beginning of one, or a part of a title; empty: the last
// one. Errors: not_found, invalid (several sessions match).
Result<Session> find_session(SessionStore& store, const std::string& wanted);

class ChatSession {
 public:
  // Errors: those of SessionStore::open and find_session.
  static Result<std::unique_ptr<ChatSession>> open(const SessionFlags& flags);

  // The session that the chat continues; none: the session begins with the first message.
  const std::optional<Session>& session() const { return session_; }
  // The messages so far. Errors: io.
  Result<Json> messages();
  // Stores those of the chat's messages that are not stored yet. answer: the model's answer from which the
  // last message was made; null: the last message is not the model's. model: its name. If storing fails, this
  // is reported on stderr and tried again with the next message.
  void keep(const Json& messages, const Answer* answer, const std::string& model);
  // Notes cached states of the chat (Answer::states), which are removed with the session.
  void note(const std::vector<std::string>& states);
  // Removes the stored messages of the chat from this one on, as if they had never been sent.
  void take_back(size_t first);
  // The next message begins another session.
  void begin_anew();
  Result<void> rename(const std::string& title);

 private:
  Result<void> store_new(const Json& messages, const Answer* answer, const std::string& model);

  std::unique_ptr<SessionStore> store_;
  std::optional<Session> session_;
  std::vector<MessageId> kept_;  // ids of the chat's stored messages, in order
};

}  // namespace anabranch::cli
