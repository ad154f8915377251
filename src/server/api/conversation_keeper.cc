#include "server/api/conversation_keeper.h"

#include "base/log.h"

namespace anabranch::server {

Result<void> ConversationKeeper::begin(const std::vector<NewMessage>& request) {
  std::lock_guard lock(mutex_);
  if (session_.empty()) {
    NewSession session;
    session.owner = owner_;
    session.listed = false;
    TRY(const Session made, store_.create(session));
    session_ = made.id;
    is_new_ = true;
  } else {
    TRY(const Session session, store_.find(owner_, session_));
    head_ = session.head;
  }
  return append(request);
}

Result<void> ConversationKeeper::add(const std::vector<NewMessage>& answer) {
  std::lock_guard lock(mutex_);
  answered_ = true;
  return append(answer);
}

Result<void> ConversationKeeper::append(const std::vector<NewMessage>& messages) {
  constexpr int kTries = 3;  // an answer is worth a few retries
  if (messages.empty()) return {};
  auto added = store_.append(owner_, session_, last_, messages);
  for (int i = 1; i < kTries && !added && added.error().kind == ErrorKind::busy; ++i)
    added = store_.append(owner_, session_, last_, messages);
  if (!added) return added.error();
  const auto& ids = *added;
  messages_.insert(messages_.end(), ids.begin(), ids.end());
  last_ = ids.back();
  return {};
}

Result<void> ConversationKeeper::put_response(const std::string& id, const Json& response,
                                              const Json& input_items) {
  std::lock_guard lock(mutex_);
  return store_.put_response({id, session_, last_, response, input_items});
}

void ConversationKeeper::note(const std::vector<std::string>& traces) {
  std::lock_guard lock(mutex_);
  if (const auto noted = store_.add_traces(session_, traces); !noted)
    log_warning("cache entries of a conversation will not be removed with it: {}", noted.error().message);
}

void ConversationKeeper::take_back() {
  std::lock_guard lock(mutex_);
  if (answered_ || session_.empty()) return;
  const auto undone = is_new_ ? store_.erase(owner_, session_) : store_.take_back(session_, messages_, head_);
  if (!undone)
    log_warning("a request that was not answered stays in its session: {}", undone.error().message);
}

}  // namespace anabranch::server
