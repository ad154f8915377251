#include "server/api/read_ahead.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "chat/engine_request.h"
#include "server/api/answer_parts.h"

namespace anabranch::server {
namespace {

constexpr size_t kMostWaiting = 4, kMostDone = 8;
constexpr double kPauseSeconds = 0.05;  // agents send the next request at once
constexpr auto kStopTime = std::chrono::seconds(5);
constexpr size_t kLeastRead = 32;     // fewer tokens are read as fast as a cached state is loaded
constexpr size_t kLargeGap = 1024;    // tokens that were known and are not cached any more
constexpr size_t kBytesPerToken = 4;  // of text

bool begins_with(const Json& messages, const Json& earlier) {
  return earlier.size() <= messages.size() && std::equal(earlier.begin(), earlier.end(), messages.begin());
}

bool begins_with(std::span<const int> prompt, const std::vector<int>& beginning) {
  return beginning.size() <= prompt.size() && std::equal(beginning.begin(), beginning.end(), prompt.begin());
}

}  // namespace

ReadAhead::ReadAhead(ModelPool& models, WorkerPool& workers, Post post, After after, Metrics& metrics,
                     std::function<bool()> busy,
                     std::function<void(const EndedTurn&, const std::vector<std::string>&)> note)
    : models_(models),
      workers_(workers),
      post_(std::move(post)),
      after_(std::move(after)),
      metrics_(metrics),
      busy_(std::move(busy)),
      note_(std::move(note)) {}

void ReadAhead::add(EndedTurn turn) {
  wait_again(std::make_shared<Reading>(std::move(turn)));
}

void ReadAhead::wait_again(const std::shared_ptr<Reading>& reading) {
  waiting_.push_front(reading);
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
    const auto next = waiting_.front();
    const ModelLease model = models_.borrow(next->turn.model);
    const EngineStats stats = model ? model->engine->stats() : EngineStats();
    if (stats.running + stats.queued > 0) return look();  // such as a request whose client has just left
    waiting_.pop_front();
    if (!model) continue;  // it was unloaded
    current_ = next;
    if (next->prepared)
      submit(model);
    else
      prepare(model);
  }
}

void ReadAhead::prepare(ModelLease model) {
  const JobOwner owner{current_->turn.sender, current_->turn.tokens.size() * kBytesPerToken};
  workers_.submit(owner, [this, alive = std::weak_ptr(alive_), reading = current_, model = std::move(model),
                          post = post_] {
    auto made = std::make_shared<Result<Prepared>>(safely([&] {
      return model->preparer.next_turn(*reading->turn.request, reading->turn.answer,
                                       [&] { return reading->dropped.load(); });
    }));
    post([this, alive, reading, made, model] {
      if (alive.expired()) return;
      if (!*made) log_debug("not read ahead: {}", made->error().message);
      if (*made) reading->prepared = std::move(**made);
      const bool wanted = *made && !reading->dropped && is_worth_reading(*reading);
      if (wanted && !busy_()) return submit(model);
      current_.reset();
      if (wanted) wait_again(reading);
      look();
    });
  });
}

// Not if the cached state of the answer's end is as good.
bool ReadAhead::is_worth_reading(Reading& reading) {
  const auto& prompt = reading.prepared->prompts[0];
  const auto& sampled = reading.turn.tokens;
  const size_t most = std::min(prompt.size(), sampled.size());
  const auto end = prompt.begin() + static_cast<std::ptrdiff_t>(most);
  reading.known =
      static_cast<size_t>(std::mismatch(prompt.begin(), end, sampled.begin()).first - prompt.begin());
  return reading.known + 1 < sampled.size() || prompt.size() - reading.known >= kLeastRead;
}

void ReadAhead::submit(const ModelLease& model) {
  Request request = engine_request(*current_->prepared, 0, 0);
  for (const auto& [adapter, scale] : current_->turn.adapters) {
    request.adapters.push_back({adapter.lock(), scale});
    if (!request.adapters.back().adapter) return current_.reset();  // it was unloaded
  }
  request.name_states = current_->turn.keeper != nullptr;
  current_->engine = model->engine;
  current_->ended = false;
  const auto accepted = model->engine->submit(
      std::move(request),
      [this, post = post_, alive = std::weak_ptr(alive_), reading = current_](const Event& event) {
        if (event.finish != FinishReason::none) {
          std::lock_guard lock(reading->mutex);
          reading->states = event.states;
          reading->ended = true;
          reading->changed.notify_all();
        }
        post([this, alive, reading, event] {
          if (!alive.expired()) receive(reading, event);
        });
      });
  if (!accepted) return current_.reset();
  current_->request = *accepted;
}

void ReadAhead::receive(const std::shared_ptr<Reading>& reading, const Event& event) {
  if (event.started && static_cast<size_t>(event.usage.cached_tokens) + kLargeGap < reading->known) {
    // The cache does not hold such states, so reading would be in vain.
    reading->dropped = true;
    return cancel();
  }
  if (event.finish == FinishReason::none) return;
  if (reading->turn.keeper && !event.states.empty()) note_(reading->turn, event.states);
  reading->request = 0;
  if (event.finish == FinishReason::length) {
    const int read = event.usage.prompt_tokens - event.usage.cached_tokens;
    metrics_.read_ahead(read);
    done_.push_front({reading->turn.model, std::move(reading->prepared->prompts[0]), read});
    if (done_.size() > kMostDone) done_.pop_back();
  } else if (event.finish == FinishReason::cancelled && !reading->dropped) {
    wait_again(reading);
  }
  if (current_ == reading) current_.reset();
  look();
}

void ReadAhead::cancel() {
  if (!current_ || current_->request == 0) return;
  if (const auto engine = current_->engine.lock()) engine->cancel(current_->request);
}

ReadAhead::Found ReadAhead::give_way(const std::string& model, std::span<const int> prompt,
                                     const ChatRequest* asked) {
  const auto goes_on = [&](const Reading& reading) {
    const ChatRequest& earlier = *reading.turn.request;
    return asked && reading.turn.model == model && asked->options.cache_salt == earlier.options.cache_salt &&
           begins_with(asked->messages, earlier.messages);
  };
  std::erase_if(waiting_, [&](const auto& reading) { return goes_on(*reading); });
  if (current_ && goes_on(*current_)) current_->dropped = true;
  cancel();
  const auto done = std::ranges::find_if(
      done_, [&](const Done& one) { return one.model == model && begins_with(prompt, one.prompt); });
  if (done == done_.end()) return {};
  const Found found{static_cast<int>(done->prompt.size()), done->read};
  done_.erase(done);
  return found;
}

void ReadAhead::stop() {
  waiting_.clear();
  if (!current_) return;
  current_->dropped = true;
  cancel();
  if (current_->request == 0) return;
  std::unique_lock lock(current_->mutex);
  current_->changed.wait_for(lock, kStopTime, [&] { return current_->ended; });
  // The pool that notes states is about to close.
  if (current_->turn.keeper && !current_->states.empty()) current_->turn.keeper->note(current_->states);
}

}  // namespace anabranch::server
