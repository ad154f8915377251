#include "decode/loop_detector.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "base/check.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

constexpr int kNumberSymbol = -1;  // stands for any number; tokens are not negative

}  // namespace

uint8_t token_traits(std::string_view text) {
  bool letters = false, digits = false;
  for (size_t i = 0; i < text.size();) {
    const auto c = decode_utf8(text, i);
    i += c.length;
    // Invalid UTF-8 counts as letters: a byte token is a part of a character, usually of a word outside
    // ASCII.
    if (is_number(c.value))
      digits = true;
    else if (!c.valid || (is_word(c.value) && c.value != '_'))
      letters = true;
  }
  return letters ? kWordToken : digits ? kNumberToken : 0;
}

LoopDetector::Runs::Runs(int max_period, int copies, int min_symbols) : max_period_(max_period) {
  recent_.resize(4 * static_cast<size_t>(max_period) + 1);
  words_.resize(recent_.size());
  run_.resize(max_period);
  need_.resize(max_period);
  for (int period = 1; period <= max_period; period++)
    need_[period - 1] = std::max(copies * period, min_symbols) - period;
  reset();
}

void LoopDetector::Runs::reset() {
  head_ = static_cast<int>(recent_.size());
  seen_ = 0;
  std::fill(run_.begin(), run_.end(), 0);
}

bool LoopDetector::Runs::push(int symbol, int words) {
  const int total = words + (seen_ ? words_[head_] : 0);
  const int periods = std::min(seen_, max_period_);
  if (head_ == 0) {  // move the symbols that are still needed to the end
    head_ = static_cast<int>(recent_.size()) - periods;
    std::copy_n(recent_.begin(), periods, recent_.begin() + head_);
    std::copy_n(words_.begin(), periods, words_.begin() + head_);
  }
  const int* before = recent_.data() + head_;  // [period - 1]
  const int* need = need_.data();
  int* run = run_.data();
  int reached = 0;
  for (int i = 0; i < periods; i++) {
    run[i] = before[i] == symbol ? run[i] + 1 : 0;
    reached |= run[i] >= need[i];
  }
  head_--;
  recent_[head_] = symbol;
  words_[head_] = total;
  seen_ = std::min(seen_ + 1, max_period_ + 1);
  return reached;
}

int LoopDetector::Runs::next(int after) const {
  for (int period = after + 1; period <= max_period_; period++)
    if (run_[period - 1] >= need_[period - 1]) return period;
  return 0;
}

int LoopDetector::Runs::words(int period) const {
  return words_[head_] - words_[head_ + period];
}

LoopDetector::Recurrence::Gram LoopDetector::Recurrence::gram(size_t first) const {
  Gram gram;
  std::copy_n(tokens_.begin() + static_cast<std::ptrdiff_t>(first), kGram, gram.begin());
  return gram;
}

int LoopDetector::Recurrence::push(int token) {
  tokens_.push_back(token);
  const bool recurs = tokens_.size() >= kGram && ++counts_[gram(tokens_.size() - kGram)] >= kTimes;
  if (tokens_.size() > kWindow) {
    const auto oldest = counts_.find(gram(0));
    if (--oldest->second == 0) counts_.erase(oldest);
    tokens_.pop_front();
  }
  recurs_.push_back(recurs);
  recurring_ += recurs;
  if (recurs_.size() > kSpan) {
    recurring_ -= recurs_.front();
    recurs_.pop_front();
  }
  return recurring_;
}

LoopDetector::LoopDetector(const LoopPolicy& policy, std::span<const uint8_t> traits)
    : policy_(policy),
      traits_(traits),
      exact_(policy.max_period, policy.copies, std::min(policy.min_tokens, policy.min_row_tokens)),
      near_(policy.near_tokens ? policy.max_period : 0, policy.copies, policy.near_tokens) {
  CHECK(policy.copies >= 2 && policy.max_period >= 1);
}

void LoopDetector::reset() {
  exact_.reset();
  near_.reset();
  recurrence_.reset();
  after_number_ = false;
  near_now_ = {};
}

Repetition LoopDetector::push(int token) {
  const Repetition near = policy_.near_tokens ? this->near(token) : Repetition{};
  const Repetition exact = this->exact(token);
  const bool recurs = policy_.recurring > 0 && recurrence_.push(token) >= policy_.recurring;
  if (exact.kind == Repetition::Kind::exact) return exact;
  return recurs ? Repetition{Repetition::Kind::recurring, 0, Recurrence::kSpan} : near;
}

Repetition LoopDetector::exact(int token) {
  if (!exact_.push(token, (traits(token) & kWordToken) ? 1 : 0)) return {};
  // The repetition with a multiple of a period is as long as that of the period itself, and no other is. So
  // periods with a repetition of the same length are skipped.
  int judged = 0;
  for (int period = exact_.next(0); period; period = exact_.next(period)) {
    const int tokens = exact_.length(period);
    if (tokens == std::exchange(judged, tokens)) continue;
    if (tokens >= (is_prose(period) ? policy_.min_tokens : policy_.min_row_tokens))
      return {Repetition::Kind::exact, period, tokens};
  }
  return {};
}

// A number is one symbol, whatever its value and number of tokens, so that 9 and 10 count as equal.
Repetition LoopDetector::near(int token) {
  const bool number = traits(token) & kNumberToken;
  const bool same_number = number && after_number_;
  after_number_ = number;
  if (same_number) return near_now_;
  near_now_ = {};
  if (near_.push(number ? kNumberSymbol : token, 0)) {
    const int period = near_.next(0);
    near_now_ = {Repetition::Kind::near, period, near_.length(period)};
  }
  return near_now_;
}

uint8_t LoopDetector::traits(int token) const {
  return token >= 0 && static_cast<size_t>(token) < traits_.size() ? traits_[token] : 0;
}

bool LoopDetector::is_prose(int period) const {
  const int words = exact_.words(period);
  return words >= 3 && 3 * words >= 2 * period;
}

}  // namespace anabranch
