#include "server/api/conversation_keeper.h"

#include "base/log.h"

namespace anabranch::server {

Result<void> ConversationKeeper::begin(const std::vector<NewMessage>& request) {
  if (session_.empty()) {
    NewSession session;
    session.owner = owner_;
    session.listed = false;
    TRY(const Session made, store_.create(session));
    session_ = made.id;
    is_new_ = true;
  }
  return append(request);
}

Result<void> ConversationKeeper::add(const std::vector<NewMessage>& answer) {
  answered_ = true;
  return append(answer);
}

Result<void> ConversationKeeper::append(const std::vector<NewMessage>& messages) {
  if (messages.empty()) return {};
  TRY(const auto ids, store_.append(owner_, session_, last_, messages));
  messages_.insert(messages_.end(), ids.begin(), ids.end());
  last_ = ids.back();
  return {};
}

Result<void> ConversationKeeper::put_response(const std::string& id, const Json& response,
                                              const Json& input_items) {
  return store_.put_response({id, session_, last_, response, input_items});
}

void ConversationKeeper::take_back() {
  if (answered_) return;
  const auto undone = is_new_ ? store_.erase(owner_, session_) : store_.take_back(session_, messages_);
  if (!undone)
    log_warning("a request that was not answered stays in its session: {}", undone.error().message);
}

}  // namespace anabranch::server
