#include "output/reasoning.h"

#include <utility>

#include "output/message_reader.h"

namespace anabranch {

std::optional<ReasoningTags> find_reasoning_tags(const Tokenizer& tokenizer) {
  for (const ReasoningTags& tags : {ReasoningTags{"<think>", "</think>", ""},
                                    {"[THINK]", "[/THINK]", ""},
                                    {"<seed:think>", "</seed:think>", ""},              // Seed-OSS
                                    {"<think:opensource>", "</think:opensource>", ""},  // Hy3
                                    {"<|inner_prefix|>", "<|inner_suffix|>", ""},       // Apertus
                                    {"<|START_THINKING|>", "<|END_THINKING|>", ""},     // Command R7B
                                    {"<|channel>thought", "<channel|>", "<|channel>"},
                                    {std::string(kThoughtOpen), std::string(kThoughtClose), "<|channel|>",
                                     "<|start|>assistant", "<|channel|>final<|message|>"}})
    if (tokenizer.find(tags.open_token.empty() ? tags.open : tags.open_token) && tokenizer.find(tags.close))
      return tags;
  return std::nullopt;
}

std::optional<MessageTokens> message_tokens(const ReasoningTags& tags, const Tokenizer& tokenizer) {
  const auto start = tokenizer.find("<|start|>"), channel = tokenizer.find("<|channel|>"),
             message = tokenizer.find("<|message|>");
  if (!tags.are_messages() || !start || !channel || !message) return std::nullopt;
  return MessageTokens{*start,
                       *channel,
                       *message,
                       tokenizer.encode(kThoughtChannel, false),
                       tokenizer.encode(tags.turn, true),
                       tokenizer.encode(tags.answer, true)};
}

bool ThoughtTracker::opens(int token) const {
  if (!messages_) return token == open_;
  return header_ && channel_read_ == 0u && token == messages_->thought.front();
}

bool ThoughtTracker::accept_of_messages(int token, bool blank) {
  const MessageTokens& m = *messages_;
  if (token == close_ || token == m.start || (token == m.channel && !header_)) {
    const bool thought = inside_ || (header_ && !bare_ && (!headers_answer_ || turn_left_ > 0));
    const bool starts = token == m.start;
    if (inside_)
      turn_left_ = m.turn.size() - (starts ? 1 : 0);
    else if (turn_left_ > 0)
      turn_left_--;
    role_left_ = starts ? m.turn.size() - 1 : 0;
    inside_ = bare_ = false;
    header_ = true;
    channel_read_.reset();
    names_thought_ = false;
    header_tokens_ = 0;
    channel_seen_ = token == m.channel;
    if (channel_seen_) channel_read_ = 0;
    return thought;
  }
  if (inside_ || !header_) return inside_;
  if (turn_left_ == m.turn.size()) turn_left_ = 0;  // <|start|> does not follow
  const bool of_turn = turn_left_ > 0, of_role = role_left_ > 0;
  if (of_turn) turn_left_--;
  if (of_role) role_left_--;
  bool text = false;
  if (token == m.channel) {
    channel_read_ = 0;
    text = std::exchange(bare_, false);  // a reader takes the text as content now
    channel_seen_ = true;
  } else if (token == m.message) {
    inside_ = channel_read_ == m.thought.size();
    header_ = bare_ = false;
  } else if (!channel_seen_ && !of_turn && !of_role && (bare_ || !blank)) {
    text = bare_ = true;
  } else if (channel_read_ && *channel_read_ < m.thought.size() && token == m.thought[*channel_read_]) {
    ++*channel_read_;
    names_thought_ = channel_read_ == m.thought.size();
  } else {
    channel_read_.reset();
  }
  if (header_ && channel_seen_ && ++header_tokens_ > kMostOfHeader) {  // the mark of the text is missing
    header_ = false;
    inside_ = names_thought_;
    text = !inside_;
  }
  return of_turn || inside_ || !(headers_answer_ || text);
}

bool ThoughtTracker::accept(int token, bool blank) {
  if (messages_) return accept_of_messages(token, blank);
  if (token == open_) inside_ = true;
  if (!blank) blanks_left_ = 0;
  const bool thought = !answering();
  before_ = before_ && blank && blanks_left_ > 0;
  if (blanks_left_ > 0) blanks_left_--;
  if (token == close_ && inside_) {
    inside_ = false;
    blanks_left_ = kMostBlanks;
  }
  return thought;
}

std::vector<int> closing_tokens(const Tokenizer& tokenizer, const std::string& sentence,
                                const ReasoningTags& tags, bool answers) {
  constexpr const char* kSentence = "\n\nThat is enough thought. I will give the answer now.\n";
  std::vector<int> tokens = tokenizer.encode(sentence.empty() ? kSentence : sentence, false);
  tokens.push_back(*tokenizer.find(tags.close));
  const std::string next = tags.are_messages() ? tags.turn + (answers ? tags.answer : "") : "\n\n";
  for (const int token : tokenizer.encode(next, tags.are_messages())) tokens.push_back(token);
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
