#include "server/api/read_ahead.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "chat/engine_request.h"
#include "server/api/answer_parts.h"

namespace anabranch::server {
namespace {

constexpr size_t kMostWaiting = 4, kMostDone = 8;
constexpr double kPauseSeconds = 0.05;  // agents send the next request at once
constexpr size_t kLeastRead = 32;       // fewer tokens are read as fast as a cached state is loaded

bool begins_with(const Json& messages, const Json& earlier) {
  return earlier.size() <= messages.size() && std::equal(earlier.begin(), earlier.end(), messages.begin());
}

bool begins_with(std::span<const int> prompt, const std::vector<int>& beginning) {
  return beginning.size() <= prompt.size() && std::equal(beginning.begin(), beginning.end(), prompt.begin());
}

}  // namespace

ReadAhead::ReadAhead(ModelPool& models, WorkerPool& workers, Post post, After after, Metrics& metrics,
                     std::function<bool()> busy)
    : models_(models),
      workers_(workers),
      post_(std::move(post)),
      after_(std::move(after)),
      metrics_(metrics),
      busy_(std::move(busy)) {}

void ReadAhead::add(EndedTurn turn) {
  waiting_.push_front(std::make_shared<Reading>(Reading{std::move(turn), {}, {}}));
  if (waiting_.size() > kMostWaiting) waiting_.pop_back();
}

void ReadAhead::look() {
  if (looks_ || waiting_.empty()) return;
  looks_ = true;
  after_(kPauseSeconds, [this, alive = std::weak_ptr(alive_)] {
    if (alive.expired()) return;
    looks_ = false;
    start();
  });
}

void ReadAhead::start() {
  while (!current_ && !waiting_.empty() && !busy_()) {
    const auto next = std::exchange(waiting_.front(), nullptr);
    waiting_.pop_front();
    const ModelLease model = models_.borrow(next->turn.model);
    if (!model) continue;  // it was unloaded
    const EngineStats stats = model->engine->stats();
    if (!stats.cache || stats.running + stats.queued > 0) continue;
    current_ = next;
    if (next->prepared)
      submit(model);
    else
      prepare(model);
  }
}

void ReadAhead::prepare(ModelLease model) {
  const JobOwner owner{current_->turn.sender};
  workers_.submit(owner, [this, alive = std::weak_ptr(alive_), reading = current_, model = std::move(model),
                          post = post_] {
    auto made = std::make_shared<Result<Prepared>>(safely([&] {
      ChatRequest conversation = *reading->turn.request;
      conversation.messages.push_back(reading->turn.answer);
      return model->preparer.next_turn(std::move(conversation), [&] { return alive.expired(); });
    }));
    post([this, alive, reading, made, model] {
      if (alive.expired()) return;
      if (!*made) log_debug("not read ahead: {}", made->error().message);
      if (*made) reading->prepared = std::move(**made);
      const bool wanted = *made && !reading->went_on && worth_reading(*reading);
      if (wanted && !busy_()) return submit(model);
      current_.reset();
      if (wanted) waiting_.push_front(reading);
      look();
    });
  });
}

// Not if the cached state of the answer's end is as good.
bool ReadAhead::worth_reading(const Reading& reading) const {
  const auto& prompt = reading.prepared->prompts[0];
  const auto& known = reading.turn.tokens;
  const size_t most = std::min(prompt.size(), known.size());
  const auto end = prompt.begin() + static_cast<std::ptrdiff_t>(most);
  const auto same =
      static_cast<size_t>(std::mismatch(prompt.begin(), end, known.begin()).first - prompt.begin());
  return same + 1 < known.size() || prompt.size() - same >= kLeastRead;
}

void ReadAhead::submit(const ModelLease& model) {
  current_->engine = model->engine;
  Request request = engine_request(*current_->prepared, 0, 0);
  request.name_states = current_->turn.note_states != nullptr;
  const auto accepted = model->engine->submit(
      std::move(request),
      [this, post = post_, alive = std::weak_ptr(alive_), reading = current_](const Event& event) {
        post([this, alive, reading, event] {
          if (!alive.expired()) receive(reading, event);
        });
      });
  if (!accepted) return current_.reset();
  current_->request = *accepted;
}

void ReadAhead::receive(const std::shared_ptr<Reading>& reading, const Event& event) {
  if (event.finish == FinishReason::none) return;
  if (!event.states.empty()) reading->turn.note_states(event.states);
  if (event.finish == FinishReason::length) {
    const int read = event.usage.prompt_tokens - event.usage.cached_tokens;
    metrics_.read_ahead(read);
    done_.push_front({std::move(reading->prepared->prompts[0]), read});
    if (done_.size() > kMostDone) done_.pop_back();
  } else if (event.finish == FinishReason::cancelled && !reading->went_on) {
    reading->request = 0;
    waiting_.push_front(reading);
    if (waiting_.size() > kMostWaiting) waiting_.pop_back();
  }
  if (current_ == reading) current_.reset();
  look();
}

ReadAhead::Found ReadAhead::give_way(std::span<const int> prompt, const ChatRequest* asked) {
  const auto goes_on = [&](const Reading& reading) {
    return asked && begins_with(asked->messages, reading.turn.request->messages);
  };
  std::erase_if(waiting_, [&](const auto& reading) { return goes_on(*reading); });
  if (current_) {
    current_->went_on = current_->went_on || goes_on(*current_);
    if (const auto engine = current_->engine.lock(); engine && current_->request > 0)
      engine->cancel(current_->request);
  }
  const auto done =
      std::ranges::find_if(done_, [&](const Done& one) { return begins_with(prompt, one.prompt); });
  if (done == done_.end()) return {};
  const Found found{static_cast<int>(done->prompt.size()), done->read};
  done_.erase(done);
  return found;
}

}  // namespace anabranch::server
