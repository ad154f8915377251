// Finds a text that repeats itself without end: the last tokens are three or more copies of one piece.
//
// What fires. A piece of p tokens (its period) that stands at the end in at least `copies` copies, one
// directly after the other, over at least `min_tokens` tokens. Rows that advance (a number, a key or a name
// changes) are no copies of each other and never fire, however many there are.
//
// Two policies, because a mistake costs differently:
//  - In thinking the floor holds: three copies and 18 tokens, a 6-gram three times. A piece of six tokens or
//  more
//    fires with the last token of its third copy, a shorter one at 18 tokens (a single token: 18 in a row,
//    since a few equal tokens are an ellipsis or a line of dashes). A mistake only ends the thought early.
//  - In answers a mistake cuts what was asked for. There exact repetition has two honest sources:
//    refrains ("write it fifty times"), and rows of a table, array or drawing whose cells happen to be equal
//    ("| 0 | 0 |", "[0, 0, ...]", "-----", "},", a placeholder's markup). So more is asked: a fourth copy,
//    and `min_tokens` of a piece that is prose, `min_row_tokens` of one that is not. Prose is a piece of
//    which at least three tokens and two thirds are words. 200 equal rows of up to ten tokens, 37 of 54 and
//    256 bytes of a hex dump pass; a piece of 64 tokens or more of prose fires with its fourth copy, and
//    everything else at 256 (prose) or 2,048 tokens, or four copies if longer.
// Without traits (see below) nothing is known to be prose, so an answer fires late rather than wrongly.
//
// Cost: one comparison a period for each token, whatever the text is, so O(1) in the length of the text in
// the best and the worst case: max_period comparisons of neighbouring ints, which compilers turn into vector
// code (0.2 to 0.3 microseconds for 1,024 with SSE2), and once in 3 * max_period tokens a move of max_period
// ints. Exact: no hashing, no sampling of positions. Memory: 10 ints a period (41 KB), twice that when
// near-repeats are watched; a copy of a detector copies that much and goes on independently.
#pragma once

#include <cstdint>
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
  int max_period = 1024;
};
inline constexpr LoopPolicy kThinkingLoops{};
inline constexpr LoopPolicy kThinkingNearLoops{.near_tokens = 256};
inline constexpr LoopPolicy kAnswerLoops{.copies = 4, .min_tokens = 256, .min_row_tokens = 2048};

// What is to be broken: nothing, exact repetition, or, in thoughts, that of all but the numbers, too.
enum class LoopRule { none, exact, near };

struct Repetition {
  enum class Kind {
    none,
    near,  // advancing structure: equal but for numbers, of any length. A hint, not a loop
    exact
  };
  Kind kind = Kind::none;
  int period = 0;  // tokens of the piece, the smallest that fits; a number counts as one in a near-repeat
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

  uint8_t traits(int token) const;
  bool is_prose(int period) const;
  Repetition exact(int token);
  Repetition near(int token);

  LoopPolicy policy_;
  std::span<const uint8_t> traits_;
  Runs exact_, near_;
  bool after_number_ = false;
  Repetition near_now_;
};

}  // namespace anabranch
