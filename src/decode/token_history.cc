#include "decode/token_history.h"

#include "base/check.h"

namespace anabranch {

TokenHistory::TokenHistory(const SamplingParams& params, std::span<const int> prompt)
    : active_(params.penalises()), window_(params.repetition_window) {
  // The other penalties do not look at the prompt.
  if (params.repetition_penalty == 1.0f) return;
  tokens_.assign(prompt.begin(), prompt.end());
  if (window_ > 0 && prompt.size() > window_) prompt = prompt.last(window_);
  for (const int token : prompt) count(token).seen++;
}

TokenHistory::Count& TokenHistory::count(int token) {
  const auto [it, added] = index_.try_emplace(token, counts_.size());
  if (added) counts_.push_back({token});
  return counts_[it->second];
}

void TokenHistory::add(int token, int sign) {
  Count& c = count(token);
  c.seen += sign;
  c.generated += sign;
  // The window moves: one token leaves it, or comes back.
  if (window_ > 0 && tokens_.size() > window_) count(tokens_[tokens_.size() - 1 - window_]).seen -= sign;
}

void TokenHistory::push(int token) {
  if (!active_) return;
  tokens_.push_back(token);
  add(token, 1);
}

void TokenHistory::pop() {
  if (!active_) return;
  CHECK(!tokens_.empty());
  add(tokens_.back(), -1);
  tokens_.pop_back();
}

}  // namespace anabranch
