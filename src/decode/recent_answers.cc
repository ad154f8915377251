#include "decode/recent_answers.h"

namespace anabranch {

// With what the containers take, about.
size_t RecentAnswers::bytes_of(const Texts::value_type& text) {
  return sizeof text + text.first.capacity() + text.second.bytes() + 4 * sizeof(void*);
}

void RecentAnswers::add(std::string_view salt, std::span<const int> answer) {
  if (answer.empty()) return;
  auto text = texts_.find(salt);
  if (text == texts_.end()) {
    text = texts_.emplace(std::string(salt), SuffixIndex()).first;
    bytes_ += bytes_of(*text);
  }
  bytes_ -= bytes_of(*text);
  text->second.append(answer);
  static constexpr int kEnds[] = {SuffixIndex::kEnd};
  text->second.append(kEnds);
  bytes_ += bytes_of(*text) + sizeof(Answer);
  answers_.push_back({text, answer.size() + 1});
  while (bytes_ > most_bytes_ && !answers_.empty()) drop_oldest();
}

void RecentAnswers::drop_oldest() {
  const Answer oldest = answers_.front();
  answers_.pop_front();
  bytes_ -= bytes_of(*oldest.text) + sizeof(Answer);
  oldest.text->second.drop_front(oldest.tokens);
  if (oldest.text->second.size() == 0)
    texts_.erase(oldest.text);
  else
    bytes_ += bytes_of(*oldest.text);
}

SuffixIndex::Proposal RecentAnswers::find(std::string_view salt, std::span<const int> context,
                                          int count) const {
  const auto text = texts_.find(salt);
  return text == texts_.end() ? SuffixIndex::Proposal() : text->second.find(context, count);
}

}  // namespace anabranch
