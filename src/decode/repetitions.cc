#include "decode/repetitions.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace anabranch {
namespace {

constexpr float kMostPenalty = 1e9f;  // far from overflow, and more than any logit

// The Z-algorithm: for each position of the text, how many tokens from there on are those at its beginning.
std::vector<int> common_beginnings(const std::vector<int>& text) {
  const int n = static_cast<int>(text.size());
  std::vector<int> common(text.size(), 0);
  for (int i = 1, left = 0, right = 0; i < n; i++) {
    int same = i < right ? std::min(right - i, common[static_cast<size_t>(i - left)]) : 0;
    while (i + same < n && text[static_cast<size_t>(same)] == text[static_cast<size_t>(i + same)]) same++;
    common[static_cast<size_t>(i)] = same;
    if (i + same > right) left = i, right = i + same;
  }
  return common;
}

}  // namespace

Repetitions::Repetitions(const DryParams& params, std::span<const int> prompt, const Tokenizer* tokenizer)
    : on_(true), params_(params), tokenizer_(tokenizer) {
  for (const std::string& breaker : params_.breakers) {
    if (!breaker.empty()) last_bytes_.set(static_cast<unsigned char>(breaker.back()));
    longest_ = std::max(longest_, breaker.size());
  }
  // Tokens before the window, and those with which a breaker may begin, are never looked at.
  const size_t most = params_.window < 0 ? prompt.size() : static_cast<size_t>(params_.window) + longest_;
  if (prompt.size() > most) prompt = prompt.last(most);
  for (const int token : prompt) push(token);
}

// Whether the last token is one.
bool Repetitions::is_border() const {
  if (!tokenizer_) return false;
  const auto known = [&](int token) { return token >= 0 && token < tokenizer_->vocab_size(); };
  if (!known(tokens_.back())) return true;
  const std::string_view last = tokenizer_->token_bytes(tokens_.back());
  if (std::none_of(last.begin(), last.end(), [&](unsigned char c) { return last_bytes_[c]; })) return false;
  std::string text(last);
  const size_t first = tokens_.size() - std::min(tokens_.size(), longest_);  // a token has a byte at least
  for (size_t i = tokens_.size() - 1; i > first && text.size() < last.size() + longest_; i--) {
    if (!known(tokens_[i - 1])) break;
    text.insert(0, tokenizer_->token_bytes(tokens_[i - 1]));
  }
  const size_t begin = text.size() - last.size();
  return std::any_of(params_.breakers.begin(), params_.breakers.end(), [&](const std::string& breaker) {
    if (breaker.empty()) return false;
    const size_t before = std::min(begin, breaker.size() - 1);
    return text.find(breaker, begin - before) != std::string::npos;
  });
}

void Repetitions::push(int token) {
  if (!on_) return;
  tokens_.push_back(token);
  borders_.push_back(is_border());
}

void Repetitions::pop() {
  if (!on_) return;
  CHECK(!tokens_.empty());
  tokens_.pop_back();
  borders_.pop_back();
}

std::unordered_map<int, int> Repetitions::next() const {
  std::unordered_map<int, int> longest;
  size_t count = tokens_.size();
  if (params_.window >= 0) count = std::min(count, static_cast<size_t>(params_.window));
  // From the last token backwards.
  const std::vector<int> text(tokens_.rbegin(), tokens_.rbegin() + static_cast<std::ptrdiff_t>(count));
  const auto end = borders_.rbegin() + static_cast<std::ptrdiff_t>(count);
  const int most = static_cast<int>(std::find(borders_.rbegin(), end, true) - borders_.rbegin());
  if (most < params_.allowed_length) return longest;
  const std::vector<int> common = common_beginnings(text);
  for (size_t i = 1; i < text.size(); i++) {
    const int length = std::min(common[i], most);
    if (length < params_.allowed_length) continue;
    int& known = longest[text[i - 1]];
    known = std::max(known, length);
  }
  return longest;
}

float Repetitions::penalty(int length) const {
  const double power = std::pow(static_cast<double>(params_.base), length - params_.allowed_length);
  return static_cast<float>(std::min<double>(kMostPenalty, params_.multiplier * power));
}

}  // namespace anabranch
