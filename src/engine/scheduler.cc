#include "engine/scheduler.h"

#include <algorithm>

#include "base/check.h"

namespace anabranch {

bool Scheduler::add(uint64_t id, int prompt_tokens) {
  CHECK(prompt_tokens > 0);
  if (queued() >= max_queue_) return false;
  queue_.push_back({id, prompt_tokens, 0});
  return true;
}

std::optional<StepPlan> Scheduler::plan() const {
  if (queue_.empty()) return std::nullopt;
  const Entry& e = queue_.front();
  const int remaining = e.known - e.applied;
  CHECK(remaining > 0, "sequence {} has nothing to apply", e.id);
  // Half a chunk to one and a half: a pass over few tokens costs nearly as much as one over many.
  const int half = chunk_ / 2;
  const int line = (e.applied + std::max(half, 1) + chunk_ - 1) / chunk_ * chunk_;
  const int tokens = remaining <= chunk_ + half ? remaining : line - e.applied;
  return StepPlan{e.id, tokens, tokens == remaining};
}

Scheduler::Entry* Scheduler::find(uint64_t id) {
  const auto it = std::find_if(queue_.begin(), queue_.end(), [&](const Entry& e) { return e.id == id; });
  return it == queue_.end() ? nullptr : &*it;
}

void Scheduler::advanced(uint64_t id, int applied, int sampled) {
  Entry* e = find(id);
  CHECK(e);
  e->known += sampled;
  e->applied += applied;
  CHECK(e->applied <= e->known, "{} of {} tokens", e->applied, e->known);
}

void Scheduler::remove(uint64_t id) {
  std::erase_if(queue_, [&](const Entry& e) { return e.id == id; });
}

}  // namespace anabranch
