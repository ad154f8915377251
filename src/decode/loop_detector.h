// Detects text that repeats itself without end.
//
// Exact repetition: the text ends with at least `copies` consecutive copies of a unit of p tokens (its
// period), over at least `min_tokens` tokens. Rows in which a number, a key or a name changes are not copies.
//
// Recurrence: at least `recurring` of the last 128 tokens complete a 6-gram that has then occurred three
// times within the last 1,024 tokens. This finds copies with other text between them, sentences in changing
// order, and copies that differ in a word now and then. In documentation, source code, prose, poems with
// refrains, tables, JSON and lists, at most 108 of 128 tokens were measured to recur; in loops 122 or more.
// Rows of about 100 tokens or more of which one token changes count as loops, too.
//
// Thoughts and answers have different policies, because mistakes have different costs:
//  - In a thought, a mistake only ends the thought early. A loop is three copies over 18 tokens, or
//    recurrence. The limit of 18 tokens lets short repeats pass, such as an ellipsis or a line of dashes.
//  - In an answer, a mistake cuts wanted text, and exact repetition can be wanted: refrains ("write it fifty
//    times"), and rows of a table, array or drawing with equal cells ("| 0 | 0 |", "[0, 0, ...]", "-----").
//    So a loop is four copies, over `min_tokens` if the unit is prose and `min_row_tokens` otherwise. A unit
//    is prose if at least three of its tokens and two thirds of them are words. So 200 equal rows of up to
//    ten tokens, 37 rows of 54 tokens, and 256 bytes of a hex dump are not loops. Recurrence does not count.
// Without traits (see below) nothing counts as prose, so loops in answers are detected later.
//
// Cost of exact repetition: one comparison per period for each token, so max_period comparisons of
// neighbouring ints, which compilers vectorise (0.2 to 0.3 microseconds for 1,024 with SSE2), and a move of
// max_period ints once in 3 * max_period tokens. Recurrence: one look-up in a map of at most 1,024 6-grams.
// Both compare tokens, not hashes. Memory: 10 ints per period (41 KB), twice that when copies that
// differ only in numbers are looked for (near_tokens), and about 100 KB for recurrence. Copies of a detector
// are independent.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string_view>
#include <vector>

namespace anabranch {

// Properties of a token's text that matter for repetition.
enum TokenTrait : uint8_t {
  kWordToken = 1,    // has a letter
  kNumberToken = 2,  // digits, with or without white space and separators around them
};
uint8_t token_traits(std::string_view text);

struct LoopPolicy {
  int copies = 3;           // at least 2
  int min_tokens = 18;      // of all copies together
  int min_row_tokens = 18;  // the same for units that are not prose
  int near_tokens = 0;      // the least length of copies that differ only in numbers; 0: not watched
  int recurring = 0;        // how many of the last 128 tokens must recur; 0: not watched
  int max_period = 1024;
};
inline constexpr LoopPolicy kThinkingLoops{.recurring = 120};
inline constexpr LoopPolicy kThinkingNearLoops{.near_tokens = 256, .recurring = 120};
inline constexpr LoopPolicy kAnswerLoops{.copies = 4, .min_tokens = 256, .min_row_tokens = 2048};

// Which loops are ended. exact: exact repetition, and recurrence in thoughts. near: in thoughts also copies
// that differ only in numbers.
enum class LoopRule { none, exact, near };

struct Repetition {
  enum class Kind {
    none,
    near,  // copies that differ only in numbers, of any length; a hint, not a loop
    recurring,
    exact
  };
  Kind kind = Kind::none;
  // Tokens of the smallest repeated unit; in a near-repeat a number counts as one token. 0: for recurrence.
  int period = 0;
  int tokens = 0;  // length of the repetition, including the first copy
};

class LoopDetector {
 public:
  // traits: [token], TokenTraits or-ed; outlives the detector. Tokens beyond it have none.
  explicit LoopDetector(const LoopPolicy& policy, std::span<const uint8_t> traits = {});

  // Adds a token and reports whether the text now ends in a repetition; again at each token while it lasts.
  Repetition push(int token);
  // The next token starts a new text.
  void reset();

 private:
  // The newest symbols, and for each period how many of the last symbols equal the symbol one period before.
  class Runs {
   public:
    Runs(int max_period, int copies, int min_symbols);
    // Returns whether some period may have enough copies and symbols; next() finds it.
    bool push(int symbol, int words);
    // The smallest such period above `after`, or 0.
    int next(int after) const;
    int length(int period) const { return run_[period - 1] + period; }
    int words(int period) const;  // of the last `period` symbols
    void reset();

   private:
    int max_period_, head_ = 0, seen_ = 0;
    std::vector<int> recent_;      // newest first, from head_ on
    std::vector<int> words_;       // parallel to recent_: number of words up to there
    std::vector<int> run_, need_;  // [period - 1]
  };

  // Counts the 6-grams of the last tokens.
  class Recurrence {
   public:
    int push(int token);  // returns how many of the last kSpan tokens end a 6-gram that recurs
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
