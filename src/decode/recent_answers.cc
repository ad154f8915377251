#include "decode/recent_answers.h"

namespace anabranch {

// The approximate memory that a salt takes besides its answers.
size_t RecentAnswers::bytes_of(std::string_view salt) {
  return sizeof(Texts::value_type) + salt.size() + 4 * sizeof(void*);
}

// The memory that one more answer of `tokens` tokens adds.
size_t RecentAnswers::bytes_more(std::string_view salt, size_t tokens) const {
  const auto text = texts_.find(salt);
  if (text == texts_.end()) return bytes_of(salt) + SuffixIndex().bytes_with(tokens) + sizeof(Answer);
  return text->second.bytes_with(tokens) - text->second.bytes() + sizeof(Answer);
}

void RecentAnswers::add(std::string_view salt, std::span<const int> answer) {
  const size_t tokens = answer.size() + 1;
  const bool fits = RecentAnswers().bytes_more(salt, tokens) <= most_bytes_;
  if (answer.empty() || !fits) return;
  while (bytes_ + bytes_more(salt, tokens) > most_bytes_) drop_oldest();  // make room first
  bytes_ += bytes_more(salt, tokens);
  auto text = texts_.find(salt);
  if (text == texts_.end()) text = texts_.emplace(std::string(salt), SuffixIndex()).first;
  text->second.append(answer);
  static constexpr int kEnds[] = {SuffixIndex::kEnd};
  text->second.append(kEnds);
  answers_.push_back({text, tokens});
}

void RecentAnswers::drop_oldest() {
  const Answer oldest = answers_.front();
  answers_.pop_front();
  SuffixIndex& text = oldest.text->second;
  bytes_ -= text.bytes() + sizeof(Answer);
  text.drop_front(oldest.tokens);
  if (text.size() > 0) {
    bytes_ += text.bytes();
    return;
  }
  bytes_ -= bytes_of(oldest.text->first);
  texts_.erase(oldest.text);
}

SuffixIndex::Proposal RecentAnswers::find(std::string_view salt, std::span<const int> context,
                                          int count) const {
  const auto text = texts_.find(salt);
  return text == texts_.end() ? SuffixIndex::Proposal() : text->second.find(context, count);
}

}  // namespace anabranch
