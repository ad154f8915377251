#include "output/reasoning.h"

namespace anabranch {

std::optional<ReasoningTags> find_reasoning_tags(const Tokenizer& tokenizer) {
  for (const ReasoningTags& tags : {ReasoningTags{"<think>", "</think>", ""},
                                    {"[THINK]", "[/THINK]", ""},
                                    {"<seed:think>", "</seed:think>", ""},           // Seed-OSS
                                    {"<|START_THINKING|>", "<|END_THINKING|>", ""},  // Command R7B
                                    {"<|channel>thought", "<channel|>", "<|channel>"}})
    if (tokenizer.find(tags.open_token.empty() ? tags.open : tags.open_token) && tokenizer.find(tags.close))
      return tags;
  return std::nullopt;
}

bool ThoughtTracker::accept(int token, bool blank) {
  if (token == open_) inside_ = true;
  if (!blank) blanks_left_ = 0;
  const bool thought = !answering();
  if (blanks_left_ > 0) blanks_left_--;
  if (token == close_ && inside_) {
    inside_ = false;
    blanks_left_ = kMostBlanks;
  }
  return thought;
}

std::vector<int> closing_tokens(const Tokenizer& tokenizer, const std::string& sentence, int close) {
  constexpr const char* kSentence = "\n\nThat is enough thought. I will give the answer now.\n";
  std::vector<int> tokens = tokenizer.encode(sentence.empty() ? kSentence : sentence, false);
  tokens.push_back(close);
  for (const int token : tokenizer.encode("\n\n", false)) tokens.push_back(token);
  return tokens;
}

bool ends_inside_reasoning(std::string_view rendered, const ReasoningTags& tags) {
  const auto open = rendered.rfind(tags.open), close = rendered.rfind(tags.close);
  return open != std::string_view::npos && (close == std::string_view::npos || close < open);
}

bool opens_reasoning(const std::vector<PromptPiece>& pieces, const ReasoningTags& tags) {
  std::string own;
  for (const PromptPiece& piece : pieces)
    if (piece.trusted) own += piece.text;
  return ends_inside_reasoning(own, tags);
}

}  // namespace anabranch
