#include "decode/token_history.h"

#include "base/check.h"

namespace anabranch {

TokenHistory::TokenHistory(const SamplingParams& params, std::span<const int> prompt,
                           const Tokenizer* tokenizer)
    : active_(params.penalises()),
      window_(params.repetition_window),
      frequency_window_(params.frequency_window),
      presence_window_(params.presence_window) {
  if (params.dry.on()) repetitions_ = Repetitions(params.dry, prompt, tokenizer);
  if (params.mirostat > 0) mus_ = {2.0 * params.mirostat_tau};
  // The other penalties do not look at the prompt.
  if (params.repetition_penalty == 1.0f) return;
  tokens_.assign(prompt.begin(), prompt.end());
  prompt_ = tokens_.size();
  if (window_ > 0 && prompt.size() > window_) prompt = prompt.last(window_);
  for (const int token : prompt) count(token).seen++;
}

TokenHistory::Count& TokenHistory::count(int token) {
  const auto [it, added] = index_.try_emplace(token, counts_.size());
  if (added) counts_.push_back({token});
  return counts_[it->second];
}

void TokenHistory::add(int token, int sign) {
  // The window moves: one token leaves it, or enters it again. first: the first position that may be in it.
  const auto change = [&](int Count::*member, size_t window, size_t first) {
    count(token).*member += sign;
    if (window > 0 && tokens_.size() > first + window)
      count(tokens_[tokens_.size() - 1 - window]).*member -= sign;
  };
  change(&Count::seen, window_, 0);
  change(&Count::frequent, frequency_window_, prompt_);
  change(&Count::present, presence_window_, prompt_);
}

void TokenHistory::push(int token, std::optional<double> mu) {
  repetitions_.push(token);
  if (!mus_.empty()) mus_.push_back(mu.value_or(mus_.back()));
  if (!active_) return;
  tokens_.push_back(token);
  add(token, 1);
}

void TokenHistory::pop() {
  repetitions_.pop();
  if (!mus_.empty()) mus_.pop_back();
  if (!active_) return;
  CHECK(!tokens_.empty());
  add(tokens_.back(), -1);
  tokens_.pop_back();
}

}  // namespace anabranch
