#include "cli/chat_session.h"

#include <algorithm>

#include "cli/image_files.h"
#include "cli/print.h"
#include "cli/settings.h"

namespace anabranch::cli {
namespace {

// Metadata of an answer beside its message.
Json about(const Answer& answer, const std::string& model) {
  const Usage& usage = answer.usage;
  const bool whole = answer.finish == FinishReason::stop;
  return {{"model", model},
          {"status", whole ? "completed" : "incomplete"},
          {"seconds", usage.ttft_s + usage.decode_s},
          {"usage",
           {{"input_tokens", usage.prompt_tokens},
            {"cached_tokens", usage.cached_tokens},
            {"output_tokens", usage.completion_tokens},
            {"reasoning_tokens", usage.thinking_tokens}}},
          {"cache_point", {{"tokens", usage.prompt_tokens + usage.completion_tokens}}}};
}

}  // namespace

Result<std::string> session_directory(const std::string& wanted) {
  if (!wanted.empty() && !as_switch(wanted)) return wanted;
  std::string usual = default_session_directory();
  if (usual.empty())
    return make_error(ErrorKind::not_found,
                      "there is no home directory for sessions: name one with --sessions DIR");
  return usual;
}

Result<Session> find_session(SessionStore& store, const std::string& wanted) {
  if (auto exact = store.find({}, wanted)) return exact;
  TRY(const SessionList all, store.list({.limit = SessionStore::kMaxListed}));
  if (wanted.empty() && !all.sessions.empty()) return all.sessions.front();
  std::vector<Session> meant;
  for (const Session& session : all.sessions)
    if (session.id.starts_with(wanted) || session.title.find(wanted) != std::string::npos)
      meant.push_back(session);
  if (meant.empty())
    return make_error(ErrorKind::not_found, "there is no session {}`anabranch sessions ls` lists them",
                      wanted.empty() ? "yet: " : "'" + wanted + "': ");
  if (meant.size() > 1)
    return make_error(ErrorKind::invalid, "{} sessions have '{}': give the id, such as {}", meant.size(),
                      wanted, meant.front().id);
  return meant.front();
}

Result<std::unique_ptr<ChatSession>> ChatSession::open(const SessionFlags& flags) {
  auto chat = std::make_unique<ChatSession>();
  TRY(const std::string directory, session_directory(flags.directory));
  TRY(chat->store_, SessionStore::open(directory, {}));
  if (flags.resume) {
    TRY(chat->session_, find_session(*chat->store_, *flags.resume));
  }
  return chat;
}

Result<Json> ChatSession::messages() {
  Json messages = Json::array();
  kept_.clear();
  if (!session_) return messages;
  TRY(const auto path, store_->path({}, session_->id));
  for (const SessionMessage& one : path) {
    messages.push_back(chat_message(one.message));
    kept_.push_back(one.id);
  }
  return messages;
}

void ChatSession::keep(const Json& messages, const Answer* answer, const std::string& model) {
  if (const auto kept = store_new(messages, answer, model); !kept)
    say(stderr, "not kept: {}\n", kept.error().message);
}

Result<void> ChatSession::store_new(const Json& messages, const Answer* answer, const std::string& model) {
  if (!session_) {
    TRY(session_, store_->create({}));
  }
  std::vector<NewMessage> added;
  for (size_t i = kept_.size(); i < messages.size(); ++i) added.push_back({kept_message(messages[i])});
  if (added.empty()) return {};
  if (answer) added.back().about = about(*answer, model);
  TRY(const auto ids, store_->append({}, session_->id, kept_.empty() ? kNoMessage : kept_.back(), added));
  kept_.insert(kept_.end(), ids.begin(), ids.end());
  if (answer) TRY_VOID(store_->add_traces(session_->id, answer->states));
  return {};
}

void ChatSession::note(const std::vector<std::string>& states) {
  if (!session_ || states.empty()) return;
  if (const auto noted = store_->add_traces(session_->id, states); !noted)
    say(stderr, "not noted: {}\n", noted.error().message);
}

void ChatSession::take_back(size_t first) {
  if (first >= kept_.size()) return;
  const std::vector<MessageId> last(kept_.begin() + static_cast<std::ptrdiff_t>(first), kept_.end());
  if (const auto undone = store_->take_back(session_->id, last, first > 0 ? kept_[first - 1] : kNoMessage);
      !undone)
    say(stderr, "it stays in the session: {}\n", undone.error().message);
  kept_.resize(first);
}

void ChatSession::begin_anew() {
  session_.reset();
  kept_.clear();
}

Result<void> ChatSession::rename(const std::string& title) {
  if (!session_) return make_error(ErrorKind::not_found, "the session begins with your first message");
  TRY(session_, store_->change({}, session_->id, {.title = title}));
  return {};
}

}  // namespace anabranch::cli
