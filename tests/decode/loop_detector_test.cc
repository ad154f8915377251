#include "decode/loop_detector.h"

#include <gtest/gtest.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <ctime>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <utility>

#include "slow.h"

namespace anabranch {
namespace {

using Kind = Repetition::Kind;
using Tokens = std::vector<int>;

// A tokenizer of sorts: words, single digits and single marks, as most real ones cut; a space belongs to the
// word after it.
struct Vocabulary {
  std::map<std::string, int> ids;
  std::vector<uint8_t> traits;

  int id(const std::string& piece) {
    const auto [it, added] = ids.emplace(piece, static_cast<int>(ids.size()));
    if (added) traits.push_back(token_traits(piece));
    return it->second;
  }
  Tokens encode(const std::string& text) {
    Tokens tokens;
    for (size_t i = 0; i < text.size();) {
      size_t end = i + (text[i] == ' ' && i + 1 < text.size());
      if (isalpha(static_cast<unsigned char>(text[end])))
        while (end < text.size() && isalpha(static_cast<unsigned char>(text[end]))) end++;
      else
        end++;
      tokens.push_back(id(text.substr(i, end - i)));
      i = end;
    }
    return tokens;
  }
};

// The token with which it first fires, counted from 1; 0: never.
int fires_at(const LoopPolicy& policy, const Tokens& tokens, std::span<const uint8_t> traits = {}) {
  LoopDetector detector(policy, traits);
  for (size_t i = 0; i < tokens.size(); i++)
    if (const Kind kind = detector.push(tokens[i]).kind; kind == Kind::exact || kind == Kind::recurring)
      return static_cast<int>(i) + 1;
  return 0;
}

Tokens distinct(int count, int first = 0) {
  Tokens tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}
Tokens repeat(const Tokens& piece, int length) {
  Tokens tokens(length);
  for (int i = 0; i < length; i++) tokens[i] = piece[i % piece.size()];
  return tokens;
}

// Whether a piece is not itself made of copies.
bool is_primitive(std::span<const int> piece) {
  for (size_t root = 1; root < piece.size(); root++)
    if (piece.size() % root == 0 && std::equal(piece.begin() + root, piece.end(), piece.begin()))
      return false;
  return true;
}

// By the definition: the smallest piece in enough copies over enough tokens.
Repetition oracle(const Tokens& tokens, const LoopPolicy& policy, std::span<const uint8_t> traits) {
  const int n = static_cast<int>(tokens.size());
  for (int period = 1; period <= std::min(policy.max_period, n - 1); period++) {
    int length = period;  // of the longest end with this period
    while (length < n && tokens[n - 1 - length] == tokens[n - 1 - length + period]) length++;
    int words = 0;
    for (int i = n - period; i < n; i++)
      words += static_cast<size_t>(tokens[i]) < traits.size() && traits[tokens[i]] == kWordToken;
    if (!is_primitive({tokens.data() + n - period, static_cast<size_t>(period)})) continue;
    const bool prose = words >= 3 && 3 * words >= 2 * period;
    if (length >= policy.copies * period && length >= (prose ? policy.min_tokens : policy.min_row_tokens))
      return {Kind::exact, period, length};
  }
  return {};
}

TEST(LoopDetector, SameVerdictAsTheDefinitionAtEveryToken) {
  std::mt19937 random(7);
  const std::vector<uint8_t> traits = {kWordToken, 0, kWordToken, kNumberToken};
  int fired = 0;
  for (int round = 0; round < 400; round++) {
    LoopPolicy policy;
    policy.copies = 2 + round % 3;
    policy.min_tokens = std::array{1, 6, 18}[random() % 3];
    policy.min_row_tokens = policy.min_tokens + std::array{0, 10, 40}[random() % 3];
    policy.max_period = std::array{1, 7, 20, 64}[random() % 4];
    const int alphabet = 1 + static_cast<int>(random() % 5);
    LoopDetector detector(policy, traits);
    Tokens tokens;
    while (tokens.size() < 300) {
      // Random tokens and, often enough, a copy of what was there before.
      int copied = 0, from = 0;
      if (!tokens.empty() && random() % 4 == 0) {
        from = static_cast<int>(random() % std::min<size_t>(tokens.size(), 40)) + 1;
        copied = static_cast<int>(random() % 90);
      }
      for (int i = 0; i <= copied; i++) {
        tokens.push_back(copied ? tokens[tokens.size() - from] : static_cast<int>(random() % alphabet));
        const Repetition got = detector.push(tokens.back()), expected = oracle(tokens, policy, traits);
        ASSERT_EQ(got.kind, expected.kind) << "round " << round << ", token " << tokens.size();
        ASSERT_EQ(got.period, expected.period) << "round " << round << ", token " << tokens.size();
        ASSERT_EQ(got.tokens, expected.tokens) << "round " << round << ", token " << tokens.size();
        fired += got.kind == Kind::exact;
      }
    }
  }
  EXPECT_GT(fired, 1000) << "the streams must have loops";
}

TEST(LoopDetector, InThinkingEachPeriodFiresWithItsThirdCopy) {
  for (int period = 1; period <= 1024; period += period < 300 ? 1 : period < 600 ? 7 : 53) {
    Tokens tokens = distinct(77, 5000);  // something before, which is no part of it
    const Tokens loop = repeat(distinct(period), 4 * period + 24);
    tokens.insert(tokens.end(), loop.begin(), loop.end());
    const int expected = 77 + std::max(3 * period, 18);
    ASSERT_EQ(fires_at(LoopPolicy{}, tokens), expected) << "period " << period;
  }
  EXPECT_EQ(fires_at(kThinkingLoops, repeat(distinct(1025), 6000)), 0) << "too long a period";
}

TEST(LoopDetector, PiecesThatRepeatWithinThemselves) {
  // Each line twice: the period is that of all lines.
  Tokens piece;
  for (const int line : {0, 0, 1, 2, 1, 2}) {
    const Tokens tokens = distinct(8, 100 * line);
    piece.insert(piece.end(), tokens.begin(), tokens.end());
  }
  EXPECT_EQ(fires_at(kThinkingLoops, repeat(piece, 500)), 3 * 48);
  LoopDetector detector(kThinkingLoops);
  Repetition last;
  for (const int token : repeat(piece, 200)) last = detector.push(token);
  EXPECT_EQ(last.period, 48);
  EXPECT_EQ(last.tokens, 200);
}

TEST(LoopDetector, NearLoopsDoNotFire) {
  // One token of each copy differs.
  for (const int period : {2, 6, 30, 64}) {
    Tokens tokens;
    for (int copy = 0; copy < 20; copy++) {
      Tokens piece = distinct(period);
      piece[copy % period] = 10000 + copy;
      tokens.insert(tokens.end(), piece.begin(), piece.end());
    }
    EXPECT_EQ(fires_at(kThinkingLoops, tokens), 0) << "period " << period;
  }
  // Two copies and all but one token of the third, then something else.
  Tokens tokens = repeat(distinct(30), 89);
  tokens.push_back(99);
  EXPECT_EQ(fires_at(kThinkingLoops, tokens), 0);
  EXPECT_EQ(fires_at(kThinkingLoops, repeat({1}, 17)), 0);
  EXPECT_EQ(fires_at(kThinkingLoops, repeat({1}, 18)), 18);
}

TEST(LoopDetector, AfterAResetWhatWasBeforeIsForgotten) {
  LoopDetector detector(kThinkingLoops);
  for (const int token : repeat({1, 2, 3, 4, 5, 6}, 17)) EXPECT_EQ(detector.push(token).kind, Kind::none);
  const LoopDetector copy = detector;
  EXPECT_EQ(detector.push(6).kind, Kind::exact);
  detector = copy;  // as if the last token had never been
  EXPECT_EQ(detector.push(7).kind, Kind::none);
  detector = copy;
  detector.reset();
  for (const int token : repeat({1, 2, 3, 4, 5, 6}, 17)) EXPECT_EQ(detector.push(token).kind, Kind::none);
  EXPECT_EQ(detector.push(6).kind, Kind::exact);
}

// Copies that differ in numbers, and what recurs, are forgotten, too.
TEST(LoopDetector, AfterAResetItIsAsNew) {
  const std::vector<uint8_t> traits = {kNumberToken, kWordToken, kWordToken};
  const LoopPolicy policy{.min_tokens = 1000, .min_row_tokens = 1000, .near_tokens = 12, .recurring = 100};
  std::mt19937 random(5);
  const auto token_at = [&](int i) {  // numbers of one or two tokens between words, then anything
    if (i >= 160) return static_cast<int>(random() % 3);
    return i % 4 == 0 || i % 8 == 1 ? 0 : 1 + i % 4 / 3;
  };
  std::map<Kind, int> found;
  for (int round = 0; round < 20; round++) {
    LoopDetector used(policy, traits), fresh(policy, traits);
    for (int i = 0; i < 160 + 8 * round; i++) used.push(token_at(i % 160));
    used.push(0);
    used.reset();
    for (int i = 0; i < 300; i++) {
      const int token = token_at(i);
      const Repetition want = fresh.push(token), got = used.push(token);
      ASSERT_EQ(got.kind, want.kind) << round << ", token " << i;
      ASSERT_EQ(got.tokens, want.tokens) << round << ", token " << i;
      found[want.kind]++;
    }
  }
  EXPECT_GT(found[Kind::near], 100);
  EXPECT_GT(found[Kind::recurring], 100);
}

TEST(LoopDetector, LongTextsKeepTheirLoops) {
  // Loops at all places of the buffer that the detector moves now and then.
  LoopPolicy policy;
  policy.max_period = 16;
  LoopDetector detector(policy);
  int token = 100;
  for (int round = 0; round < 300; round++) {
    for (int i = 0; i < round % 67; i++) ASSERT_EQ(detector.push(token++).kind, Kind::none);
    const Tokens loop = repeat(distinct(10), 31);
    for (int i = 0; i < 31; i++)
      ASSERT_EQ(detector.push(loop[i]).kind, i >= 29 ? Kind::exact : Kind::none) << round << " " << i;
  }
}

// ---------------------------------------------------------------- recurrence

// The kind with which a thought first fires, and where; none: it never does.
std::pair<Kind, int> thought_fires(const std::string& text) {
  Vocabulary vocabulary;
  const Tokens tokens = vocabulary.encode(text);
  LoopDetector detector(kThinkingLoops, vocabulary.traits);
  for (size_t i = 0; i < tokens.size(); i++)
    if (const Kind kind = detector.push(tokens[i]).kind; kind != Kind::none)
      return {kind, static_cast<int>(i) + 1};
  return {Kind::none, 0};
}

const std::array<std::string, 3> kSentences = {
    "The total is 42 and the rest is 17, so the answer would be 25. ",
    "If Anna sits left of Ben then Carl must sit in the middle. ",
    "Hmm, but the clue says that the red house is next to the blue one. "};

TEST(Recurrence, CopiesNeedNotBeAdjacent) {
  std::mt19937 random(2);
  std::string shuffled, alternating, changed;
  for (int i = 0; i < 40; i++) shuffled += kSentences[random() % 3];
  for (int i = 0; i < 20; i++) alternating += kSentences[0] + kSentences[1 + std::popcount(unsigned(i)) % 2];
  for (int i = 0; i < 20; i++)
    changed +=
        "So the first number plus the second number gives us the total that we were looking for, and then "
        "we " +
        std::string(std::array{"take", "use", "get", "have"}[random() % 4]) +
        " the difference of both, which was given in the text of the task. ";
  for (const auto& text : {shuffled, alternating, changed}) {
    const auto [kind, at] = thought_fires(text);
    EXPECT_EQ(kind, Kind::recurring) << text;
    EXPECT_LE(at, 600) << text;
  }
}

TEST(Recurrence, HonestTextsPass) {
  std::string table = "| id | name | score |\n|---|---|---|\n", json = "[", code, list, cases, song, primes;
  for (int i = 1; i <= 60; i++) {
    const std::string n = std::to_string(i);
    table += "| " + n + " | item " + n + " | 0 |\n";
    json += "{\"id\": " + n + ", \"name\": \"user\", \"active\": true, \"score\": 0, \"tags\": []},\n";
    code += "    assert add(" + n + ", 0) == " + n + "\n";
    list += n + ". The same sentence with another number before it.\n";
    primes += n + ": is " + n + " divisible by 2, 3, 5 or 7? It is " + (i % 2 ? "odd" : "even") + ".\n";
    cases += "Case " + n + ": if n equals " + n + ", then the left side becomes " +
             std::to_string(i * i + 1) + " and the right side becomes " + std::to_string(3 * i) +
             ", so this value of n is not a solution.\n";
  }
  for (const char* verse :
       {"The lamps are lit in the harbour tonight,", "My father mended the nets by the door,",
        "A letter came with the morning tide,", "The bells rang out from the chapel hill,",
        "There is bread on the table and salt in the air,"})
    song += std::string(verse) +
            "\nWe are coming home, we are coming home to the sea,\nwhere the long white road runs "
            "down to the bay.\n";
  for (const auto& text : {table, json, code, list, primes, cases, song})
    EXPECT_EQ(thought_fires(text).first, Kind::none) << text.substr(0, 100);
}

TEST(Recurrence, AnswersMayRecur) {
  std::string text;
  Vocabulary vocabulary;
  std::mt19937 random(2);
  for (int i = 0; i < 40; i++) text += kSentences[random() % 3];
  EXPECT_EQ(fires_at(kAnswerLoops, vocabulary.encode(text), vocabulary.traits), 0);
}

TEST(Recurrence, WhatIsLongPastDoesNotCount) {
  // Each piece three times, with more than the window between.
  Tokens tokens;
  for (int round = 0; round < 3; round++)
    for (int token = 0; token < 1100; token++) tokens.push_back(token);
  EXPECT_EQ(fires_at(kThinkingLoops, tokens), 0);
}

// ---------------------------------------------------------------- answers
class Answers : public ::testing::Test {
 protected:
  void passes(const std::string& text, const char* what) {
    const Tokens tokens = vocabulary_.encode(text);
    EXPECT_EQ(fires_at(kAnswerLoops, tokens, vocabulary_.traits), 0)
        << what << ", " << tokens.size() << " tokens";
  }
  // Fires within `bound` tokens after the loop's begin.
  void caught(const std::string& piece, int bound, const char* what) {
    const int period = static_cast<int>(vocabulary_.encode(piece).size());
    const Tokens before = vocabulary_.encode("Here is what I found, in a few words: ");
    Tokens tokens = before;
    const Tokens loop = repeat(vocabulary_.encode(piece), std::max(bound, 5 * period));
    tokens.insert(tokens.end(), loop.begin(), loop.end());
    const int at = fires_at(kAnswerLoops, tokens, vocabulary_.traits);
    EXPECT_NE(at, 0) << what;
    EXPECT_LE(at - static_cast<int>(before.size()), bound) << what << ", period " << period;
  }
  static std::string times(int count, const std::string& text) {
    std::string out;
    for (int i = 0; i < count; i++) out += text;
    return out;
  }
  Vocabulary vocabulary_;
};

TEST_F(Answers, TablesAndArraysOf200RowsPass) {
  std::string table = "| id | name | score |\n|---|---|---|\n", json = "[", csv, code, list;
  for (int i = 1; i <= 200; i++) {
    const std::string n = std::to_string(i);
    table += "| " + n + " | item " + n + " | 0 |\n";
    json += "{\"id\": " + n + ", \"name\": \"user\", \"active\": true, \"score\": 0, \"tags\": []},\n";
    csv += n + ",yes,no,0,0,0\n";
    code += "    assert add(" + n + ", 0) == " + n + "\n";
    list += n + ". The same sentence with another number before it.\n";
  }
  passes(table, "table");
  passes(json + "]", "JSON array");
  passes(csv, "CSV");
  passes(code, "code");
  passes(list, "list");
}

TEST_F(Answers, EqualRowsPass) {
  passes("| a | b |\n" + times(200, "| 0 | 0 |\n"), "equal rows of zeros");
  passes("[" + times(200, "0, ") + "0]", "array of zeros");
  passes("[" + times(200, "true, ") + "true]", "array of booleans");
  passes("[" + times(200, "[0, 0], ") + "]", "matrix of zeros");
  passes("[" + times(200, "{\"ok\": true},\n") + "]", "array of equal objects");
  passes(times(256, "0x00, "), "hex dump");
  passes(times(3, times(120, "-") + "\n"), "ruler");
  passes(times(40, times(40, "* ") + "\n").substr(0, 1900), "drawing");
  passes(times(60, "}\n"), "closing brackets");
  passes(times(200, "        "), "indent");
  passes(times(60, "<td>cell</td>"), "cells");
  passes(times(30, "I will not talk in class.\n"), "lines asked for");
  passes(times(3, "Row, row, row your boat, gently down the stream.\n"), "refrain");
  // Placeholders: nothing advances, and much of it is words.
  passes(times(20,
               "{\"id\": null, \"name\": \"John Doe\", \"email\": \"john@example.com\", \"address\": "
               "{\"street\": \"Main\", \"city\": \"Town\"}},\n"),
         "equal records");
  passes(
      times(12,
            "<div class=\"card\">\n  <h2>Title</h2>\n  <p>Some text</p>\n  <a href=\"#\">More</a>\n</div>\n"),
      "equal cards");
  passes(times(3,
               "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut "
               "labore et dolore magna aliqua. Ut enim ad minim veniam, quis nostrud exercitation.\n"),
         "three equal paragraphs");
}

TEST_F(Answers, TrueLoopsAreCaught) {
  caught("A tale of the sea, ", 256, "a line");
  caught("The answer is that it depends on the weather and on the time of the day. ", 256, "a sentence");
  caught(" the", 2048, "a word");
  caught("!", 2048, "a mark");
  caught("\n", 2048, "empty lines");
  caught("| 0 | 0 |\n", 2048, "rows without end");
  std::mt19937 random(3);
  for (const int period : {1, 6, 30, 64, 200, 500}) {
    std::string piece;
    for (int i = 0; i < period; i++) {
      std::string word = " ";
      for (int k = 0; k < 6; k++) word += static_cast<char>('a' + random() % 26);
      piece += word;
    }
    ASSERT_EQ(vocabulary_.encode(piece).size(), static_cast<size_t>(period));
    caught(piece, period == 1 ? 2048 : std::max(4 * period, 256), "words");
    const Tokens unknown = repeat(distinct(period), 2048);
    EXPECT_EQ(fires_at(kAnswerLoops, unknown), 2048) << "nothing known of the tokens";
  }
  caught(
      "def add(a, b):\n    total = a + b\n    print(total)\n    return total\n\n\nresult = add(first, "
      "second)\n",
      2048, "code");
}

TEST_F(Answers, NumbersThatChangeAreReportedWhenWatched) {
  LoopPolicy policy = kThinkingLoops;
  policy.near_tokens = 60;
  std::string text;
  for (int i = 1; i <= 120; i++) text += "Step " + std::to_string(i) + ": we add one more.\n";
  const Tokens tokens = vocabulary_.encode(text);
  LoopDetector watched(policy, vocabulary_.traits), plain(kThinkingLoops, vocabulary_.traits);
  int first = 0;
  for (size_t i = 0; i < tokens.size(); i++) {
    const Repetition got = watched.push(tokens[i]);
    EXPECT_EQ(plain.push(tokens[i]).kind, Kind::none);
    EXPECT_NE(got.kind, Kind::exact);
    if (first) {
      EXPECT_EQ(got.kind, Kind::near) << "token " << i << ": 9 to 10 and 99 to 100 go on";
    }
    if (got.kind == Kind::near && !first) {
      first = static_cast<int>(i) + 1;
      EXPECT_EQ(got.period, 9);
      EXPECT_GE(got.tokens, 60);
    }
  }
  EXPECT_GE(first, 60);
  EXPECT_LE(first, 60 + 9);
  // Names that change are neither.
  text.clear();
  for (int i = 0; i < 50; i++)
    text += "Hello " + std::string(1, static_cast<char>('a' + i % 26)) + std::string(i / 26 + 1, 'x') +
            ", how are you?\n";
  const Tokens greetings = vocabulary_.encode(text);
  LoopDetector names(policy, vocabulary_.traits);
  for (const int token : greetings) EXPECT_EQ(names.push(token).kind, Kind::none);
}

TEST(TokenTraits, LettersNumbersAndTheRest) {
  for (const char* word : {"a", " the", "sea,", "x1", "\xC3\xA9t\xC3\xA9", "\xE4\xBD\xA0", "\xE4"})
    EXPECT_EQ(token_traits(word), kWordToken) << word;
  for (const char* number : {"1", " 42", "3.", "\xD9\xA3"})
    EXPECT_EQ(token_traits(number), kNumberToken) << number;
  for (const char* other : {"", " ", "\n\n", "|", "--", "_", "{\""})
    EXPECT_EQ(token_traits(other), 0) << other;
}

#ifdef __GLIBC__
// 40,000 more tokens that never recur. A table of all their n-grams would have more than 2 MB.
TEST(LoopDetector, ForgetsWhatLiesFarBack) {
  LoopDetector detector({.recurring = 120, .max_period = 4});
  std::mt19937 random(2);
  const auto push = [&](int tokens) {
    for (int i = 0; i < tokens; i++) detector.push(static_cast<int>(random() >> 1));
    return static_cast<double>(mallinfo2().uordblks);  // 0 with sanitizers
  };
  const double before = push(3000);
  EXPECT_LT(push(40000) - before, 1e6);
}
#endif

TEST(LoopDetector, CostsLittle) {
  std::mt19937 random(1);
  LoopPolicy both = kThinkingLoops;
  both.near_tokens = 1 << 20;
  const struct {
    const char* name;
    LoopPolicy policy;
    int alphabet;
  } cases[] = {
      {"text", kAnswerLoops, 50000}, {"one token", kAnswerLoops, 1}, {"text, near too", both, 50000}};
  for (const auto& c : cases) {
    Tokens tokens(20000);
    for (int& token : tokens) token = static_cast<int>(random() % c.alphabet);
    LoopDetector detector(c.policy);
    int fired = 0;
    const std::clock_t start = std::clock();
    for (const int token : tokens) fired += detector.push(token).kind == Kind::exact;
    const double ns = 1e9 / CLOCKS_PER_SEC * static_cast<double>(std::clock() - start) / 20000;
    EXPECT_EQ(fired, c.alphabet == 1 ? 20000 - 2047 : 0);
    std::printf("%s: %.0f ns a token\n", c.name, ns);
    EXPECT_LT(ns, 20000 * kSlowdown);
  }
}

}  // namespace
}  // namespace anabranch
