// Finds a text that repeats itself without end.
//
// Exact repetition: a piece of p tokens (its period) stands at the end in at least `copies` copies, one
// directly after the other, over at least `min_tokens` tokens. Rows that advance (a number, a key or a name
// changes) are no copies of each other.
//
// Recurrence: at least `recurring` of the last 128 tokens end a 6-gram that stands at least the third time
// within the last 1,024 tokens. It finds copies with other text between them, sentences in changing order,
// and copies that differ in a word now and then. Measured on documentation, source code, prose, poems with
// refrains, and on tables, JSON and lists that advance: at most 108 of 128 tokens recur, in loops 122 or
// more. Rows of about 100 tokens or more of which one token changes count as loops, too.
//
// The policies differ because a mistake costs differently:
//  - In thoughts a mistake only ends the thought early: three copies over 18 tokens (a piece of six tokens
//  fires with
//    its third copy, a shorter one at 18 tokens, since a few equal tokens are an ellipsis or a line of
//    dashes), or recurrence.
//  - In answers a mistake cuts what was asked for, and exact repetition has two honest sources: refrains
//  ("write it
//    fifty times"), and rows of a table, array or drawing whose cells happen to be equal ("| 0 | 0 |", "[0,
//    0, ...]",
//    "-----", "},", a placeholder's markup). So it takes a fourth copy, and `min_tokens` of a piece that is
//    prose, `min_row_tokens` of one that is not. Prose is a piece of which at least three tokens and two
//    thirds are words. 200 equal rows of up to ten tokens, 37 of 54 and 256 bytes of a hex dump pass.
//    Recurrence does not count.
// Without traits (see below) nothing is known to be prose, so an answer fires late rather than wrongly.
//
// Cost of exact repetition: one comparison for each period and token, so max_period comparisons of
// neighbouring ints, which compilers turn into vector code (0.2 to 0.3 microseconds for 1,024 with SSE2), and
// a move of max_period ints once in 3 * max_period tokens. Recurrence: one look-up in a map of at most 1,024
// 6-grams. Both compare tokens, not hashes. Memory: 10 ints a period (41 KB), twice that when near-repeats
// are watched, and about 100 KB for recurrence. A copy of a detector goes on independently.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace anabranch {

// What the text of a token is, as far as repetition is concerned.
enum TokenTrait : uint8_t {
  kWordToken = 1,    // has a letter
  kNumberToken = 2,  // digits, with or without white space and separators around them
};
uint8_t token_traits(std::string_view text);

struct LoopPolicy {
  int copies = 3;           // at least 2
  int min_tokens = 18;      // of all copies together
  int min_row_tokens = 18;  // the same for what is not prose
  int near_tokens = 0;  // length from which copies that differ in numbers only are reported; 0: not watched
  int recurring = 0;    // how many of the last 128 tokens must recur; 0: not watched
  int max_period = 1024;
};
inline constexpr LoopPolicy kThinkingLoops{.recurring = 120};
inline constexpr LoopPolicy kThinkingNearLoops{.near_tokens = 256, .recurring = 120};
inline constexpr LoopPolicy kAnswerLoops{.copies = 4, .min_tokens = 256, .min_row_tokens = 2048};

// What is to be broken: nothing, repetition (exact, and in thoughts recurrence), or in thoughts also that of
// all but the numbers.
enum class LoopRule { none, exact, near };

struct Repetition {
  enum class Kind {
    none,
    near,  // advancing structure: equal but for numbers, of any length. A hint, not a loop
    recurring,
    exact
  };
  Kind kind = Kind::none;
  // Tokens of the piece, the smallest that fits; a number counts as one in a near-repeat. 0: recurrence has
  // none.
  int period = 0;
  int tokens = 0;  // how far back it reaches, the first copy included
};

class LoopDetector {
 public:
  // traits: [token], TokenTraits or-ed; outlives the detector. Tokens beyond it have none.
  explicit LoopDetector(const LoopPolicy& policy, std::span<const uint8_t> traits = {});

  // One more token of the text; what its end is now. Again at each token for as long as it goes on.
  Repetition push(int token);
  // The next token starts a new text.
  void reset();

 private:
  // The newest symbols, and for each period how many of the last ones equal the one a period before.
  class Runs {
   public:
    Runs(int max_period, int copies, int min_symbols);
    // Whether a period may have reached copies and symbols enough; then next() tells which.
    bool push(int symbol, int words);
    // The smallest period above `after` that has, or 0.
    int next(int after) const;
    int length(int period) const { return run_[period - 1] + period; }
    int words(int period) const;  // of the last `period` symbols
    void reset();

   private:
    int max_period_, head_ = 0, seen_ = 0;
    std::vector<int> recent_;      // newest first, from head_ on
    std::vector<int> words_;       // beside recent_: words up to there
    std::vector<int> run_, need_;  // [period - 1]
  };

  // Counts the 6-grams of the last tokens.
  class Recurrence {
   public:
    int push(int token);  // how many of the last kSpan tokens end a 6-gram that recurs
    void reset() { *this = {}; }

    static constexpr int kSpan = 128;

   private:
    static constexpr size_t kGram = 6, kWindow = 1024;
    static constexpr int kTimes = 3;
    using Gram = std::array<int, kGram>;
    Gram gram(size_t first) const;

    std::deque<int> tokens_;  // the last kWindow
    std::map<Gram, int> counts_;
    std::deque<bool> recurs_;  // for each of the last kSpan tokens
    int recurring_ = 0;
  };

  uint8_t traits(int token) const;
  bool is_prose(int period) const;
  Repetition exact(int token);
  Repetition near(int token);

  LoopPolicy policy_;
  std::span<const uint8_t> traits_;
  Runs exact_, near_;
  Recurrence recurrence_;
  bool after_number_ = false;
  Repetition near_now_;
};

}  // namespace anabranch
