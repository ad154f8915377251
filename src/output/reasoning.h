// The markers around a model's reasoning.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer.h"

namespace anabranch {

struct ReasoningTags {
  std::string open = "<think>";
  std::string close = "</think>";
  std::string open_token;  // the token that `open` begins with, if `open` is more than one token
  // Where thoughts and answers are messages with headers (output/message_reader.h): what stands between the
  // closing tag and the next message's channel, and what opens an answer behind it. Both empty: white space.
  std::string turn = {}, answer = {};
  bool blanks_before = false;  // the template writes white space before `open`, and so does the model

  bool are_messages() const { return !turn.empty(); }
};

// The tokens of messages with headers.
struct MessageTokens {
  int start = 0, channel = 0, message = 0;
  std::vector<int> thought;       // the name of the channel of thoughts
  std::vector<int> turn, answer;  // of ReasoningTags
};
// Nothing if the tags have no messages, or the vocabulary lacks their marks.
std::optional<MessageTokens> message_tokens(const ReasoningTags& tags, const Tokenizer& tokenizer);

// Tracks whether a stream of tokens is in a thought, in the white space around one, or in the answer.
class ThoughtTracker {
 public:
  enum class Begin { turn, thought, answer };
  // open, close: the tags' tokens; without them everything is answer. begin: where the stream begins; it
  // differs between turn and answer only with messages or blanks_before (see ReasoningTags).
  ThoughtTracker(std::optional<int> open, std::optional<int> close, Begin begin, bool blanks_before = false)
      : open_(open),
        close_(close),
        inside_(begin == Begin::thought && close),
        before_(begin == Begin::turn && blanks_before),
        blanks_left_(before_ ? kMostBlanks : 0) {}
  // With messages, the headers count as thought, but text before the mark of the channel is answer.
  // headers_answer: headers count as answer, too, but for the turn that follows a thought.
  ThoughtTracker(MessageTokens messages, int close, Begin begin, bool headers_answer)
      : close_(close),
        inside_(begin == Begin::thought),
        messages_(std::move(messages)),
        header_(begin == Begin::turn),
        headers_answer_(headers_answer) {}
  // Takes the next token; blank: it is white space. Returns whether it is part of a thought. The tags and up
  // to kMostBlanks tokens of white space around them belong to the thought.
  bool accept(int token, bool blank);
  bool inside() const { return inside_; }
  // Whether nothing came but white space before a thought or the answer.
  bool before() const { return before_; }
  bool answering() const {
    return !inside_ && blanks_left_ == 0 && (!header_ || bare_ || (headers_answer_ && turn_left_ == 0));
  }
  // Whether the token begins another thought.
  bool opens(int token) const;

 private:
  static constexpr int kMostBlanks = 8;
  static constexpr int kMostOfHeader = 256;  // tokens from the mark of a channel on; what follows is text
  bool accept_of_messages(int token, bool blank);

  std::optional<int> open_, close_;
  bool inside_, before_ = false;
  int blanks_left_ = 0;
  std::optional<MessageTokens> messages_ = {};
  bool header_ = false, headers_answer_ = false;
  bool channel_seen_ = false;                // the mark of the channel stands in the header
  bool bare_ = false;                        // text stands in the header, and not that mark
  size_t turn_left_ = 0;                     // tokens of `turn` that are to come behind a thought
  size_t role_left_ = 0;                     // tokens of the role that are to come behind <|start|>
  std::optional<size_t> channel_read_ = {};  // tokens of the thoughts' channel that were read, and no others
  bool names_thought_ = false;               // the header's first words are that channel
  int header_tokens_ = 0;                    // from the mark of the channel on
};

// The tags of a known family (Qwen and most others, Mistral, Gemma 4) whose tokens the vocabulary has.
std::optional<ReasoningTags> find_reasoning_tags(const Tokenizer& tokenizer);

// Of a bound on all tokens, those that thoughts leave to the answer: a quarter, rounded up.
constexpr int answer_share(int bound) {
  return bound / 4 + (bound % 4 > 0);
}

// The tokens that close a thought which is cut: a sentence (empty: a default one), the closing tag, and white
// space or the next message's turn. answers: then an answer's header, if there are messages.
std::vector<int> closing_tokens(const Tokenizer& tokenizer, const std::string& sentence,
                                const ReasoningTags& tags, bool answers);

// Whether a rendered prompt ends inside a block: its last open tag comes after its last close tag.
bool ends_inside_reasoning(std::string_view rendered, const ReasoningTags& tags);

// Whether the template itself left a block open. Tags that a message brings do not count.
bool opens_reasoning(const std::vector<PromptPiece>& pieces, const ReasoningTags& tags);

}  // namespace anabranch
