// Ends the tokenising of a text early: when it has too many tokens, or when nobody waits for it.
#pragma once

#include <cstddef>
#include <functional>

namespace anabranch {

// For one text, perhaps in several parts; used by one thread at a time.
class EncodeLimit {
 public:
  // cancelled: called now and then; may be empty.
  EncodeLimit(size_t most_tokens, std::function<bool()> cancelled)
      : most_tokens_(most_tokens), cancelled_(std::move(cancelled)) {}

  // If one of these is set after tokenising, the tokens are incomplete.
  bool too_long() const { return too_long_; }
  bool cancelled() const { return was_cancelled_; }
  bool stopped() const { return too_long_ || was_cancelled_; }
  size_t most_tokens() const { return most_tokens_; }
  // The next part follows after `tokens` tokens of the text.
  void go_on_after(size_t tokens) { before_ = tokens; }

  // Thrown by check(); the tokenizer catches it.
  struct Stopped {};
  // Reports that the part has at least `tokens` tokens. Throws Stopped if the text has too many tokens or
  // nobody waits for it.
  void check(size_t tokens) {
    too_long_ = too_long_ || before_ + tokens > most_tokens_;
    if (++checks_ % kChecksPerQuestion == 0) ask();
    if (stopped()) throw Stopped{};
  }
  // Calls `cancelled` at once.
  void ask() { was_cancelled_ = was_cancelled_ || (cancelled_ && cancelled_()); }

 private:
  static constexpr size_t kChecksPerQuestion = 256;

  const size_t most_tokens_;
  const std::function<bool()> cancelled_;
  size_t before_ = 0, checks_ = 0;
  bool too_long_ = false, was_cancelled_ = false;
};

}  // namespace anabranch
