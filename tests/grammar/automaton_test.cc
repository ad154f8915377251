#include "grammar/automaton.h"

#include <gtest/gtest.h>

#include <random>
#include <regex>

#include "base/clock.h"
#include "grammar/automaton_accepts.h"
#include "slow.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

std::vector<std::string> texts(size_t longest, const std::string& letters) {
  std::vector<std::string> out = {""};
  for (size_t i = 0; i < out.size(); i++)
    if (out[i].size() < longest)
      for (const char c : letters) out.push_back(out[i] + c);
  return out;
}

std::string random_regex(std::mt19937& random, int depth) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const int kind = depth == 0 ? 0 : pick(8);
  if (kind <= 1) {
    const char* atoms[] = {"a", "b", "[ab]", "[^a]", "."};
    return atoms[pick(5)];
  }
  if (kind <= 3) return random_regex(random, depth - 1) + random_regex(random, depth - 1);
  if (kind == 4) return "(" + random_regex(random, depth - 1) + "|" + random_regex(random, depth - 1) + ")";
  if (kind == 5) return "(?:" + random_regex(random, depth - 1) + ")?";
  const char* counts[] = {"*", "+", "{2}", "{1,2}", "{0,3}", "{2,}"};
  return "(" + random_regex(random, depth - 1) + ")" + counts[pick(6)];
}

TEST(Automaton, AcceptsWhatStdRegexDoes) {
  std::mt19937 random(3);
  const auto all = texts(4, "abc");
  for (int i = 0; i < 100; i++) {
    const std::string pattern = random_regex(random, 3);
    const auto whole = compiled("^" + pattern + "$"), part = compiled(pattern);
    ASSERT_TRUE(whole.ok() && part.ok()) << pattern;
    const std::regex expected(pattern, std::regex::ECMAScript);
    for (const auto& text : all) {
      ASSERT_EQ(accepts(*whole, text), std::regex_match(text, expected)) << pattern << " " << text;
      ASSERT_EQ(accepts(*part, text), std::regex_search(text, expected)) << pattern << " " << text;
    }
  }
}

TEST(Automaton, CountsCodePointsAndLeavesTextsOut) {
  const auto all = texts(6, "ab<");
  WorkBudget work;
  const auto counted = with_length(*compiled("^(ab)*a?$"), 2, 5, work);
  ASSERT_TRUE(counted.ok());
  const Automaton except = *text_except({"ab", "a", "bab"}, work), without = *text_without("<a<b", work),
                  ends = *text_without("^a|b+<|<<", work);
  for (const auto& text : all) {
    const bool pattern = std::regex_match(text, std::regex("(ab)*a?"));
    EXPECT_EQ(accepts(*counted, text), pattern && text.size() >= 2 && text.size() <= 5) << text;
    EXPECT_EQ(accepts(except, text), text != "ab" && text != "a" && text != "bab") << text;
    EXPECT_EQ(accepts(without, text), text.find("<a<b") == std::string::npos) << text;
    EXPECT_EQ(accepts(ends, text), !std::regex_search(text, std::regex("^a|b+<|<<"))) << text;
  }
}

TEST(Automaton, PropertiesOfCharacters) {
  const struct {
    const char *pattern, *text;
    bool accepted;
  } cases[] = {
      {"^\\p{L}+$", "Åéжx", true},   {"^\\p{L}+$", "a1", false},   {"^\\p{Lu}\\p{Ll}$", "Åé", true},
      {"^\\p{Lu}$", "é", false},     {"^\\P{L}$", "1", true},      {"^\\P{L}$", "é", false},
      {"^[^\\p{L}]$", "é", false},   {"^[^\\p{L}]$", "!", true},   {"^[\\P{L}é]$", "é", true},
      {"^\\p{Nd}$", "7", true},      {"^\\p{P}$", "!", true},      {"^\\p{S}$", "!", false},
      {"^(?!\\p{L}).$", "é", false}, {"^(?!\\p{L}).$", "1", true}, {"^\\p{Emoji_Component}$", "a", false},
      {"^\\p{ExtPict}$", "😀", true}};
  for (const auto& c : cases)
    EXPECT_EQ(accepts_text(*compiled(c.pattern), c.text), c.accepted) << c.pattern << " " << c.text;
}

// The table has some of all letters: what forbids letters lets no character through that may be one.
TEST(Automaton, LettersThatTheTableLacksAreNeitherAllowedNorLetThrough) {
  for (const char* pattern : {"^\\p{L}$", "^\\P{L}$", "^[\\p{L}]$", "^[^\\p{L}]$", "^(?!\\p{L}).$"})
    for (const char* text : {"ก", "😀"})
      EXPECT_FALSE(accepts_text(*compiled(pattern), text)) << pattern << text;
  for (const char* pattern : {"^\\P{L}$", "^[^\\p{L}]$", "^(?!\\p{L}).$"})
    EXPECT_TRUE(accepts_text(*compiled(pattern), "\x7f")) << pattern;
}

TEST(Automaton, PatternsWithinAnother) {
  WorkBudget work;
  const Automaton within = *compile_regex("^[a-z]{1,8}(-[a-z]{1,8}){0,2}$", work);
  const auto both =
      compile_regex("^(?=.{1,253}$)[a-z]([a-z-]{0,61}[a-z])?(-[a-z-]{0,61}[a-z])*$", work, false, &within);
  ASSERT_TRUE(both.ok()) << both.error().message;
  for (const auto& text : texts(5, "a-")) {
    const bool expected = std::regex_match(text, std::regex("[a-z]{1,8}(-[a-z]{1,8}){0,2}"));
    EXPECT_EQ(accepts_text(*both, text), expected) << text;
  }
  EXPECT_FALSE(accepts_text(*compile_regex("^a", work, false, &within), "b"));
  const Automaton other = *compile_regex("^b$", work);
  EXPECT_TRUE(compile_regex("a", work, false, &other)->states.empty());
}

// Whatever a reader takes \s and the like for, what is written is right.
TEST(Automaton, ClassesMeanWhatAllReadersTakeThemFor) {
  const struct {
    const char *pattern, *in, *out;
  } cases[] = {{"[^\\S]", " \t\n", "a\b\x01\x1c\x7f"},
               {"[^\\s]", "a!", " \t\x1c"},
               {"[^\\D]", "059", "a "},
               {"[^\\d]", "a \b", "5\x7f"},
               {"[^\\Wa]", "b_0", "a !"},
               {"[\\S]", "a!", " \b\x01"}};
  for (const auto& c : cases) {
    const Automaton automaton = *compiled(c.pattern, true);
    for (const char in : std::string_view(c.in))
      EXPECT_TRUE(accepts(automaton, {&in, 1})) << c.pattern << +in;
    for (const char out : std::string_view(c.out))
      EXPECT_FALSE(accepts(automaton, {&out, 1})) << c.pattern << +out;
  }
}

TEST(Automaton, RefusesWhatItDoesNotKnow) {
  for (const char* pattern :
       {"a(?<=b)", "a(?<!b)", "(?<n>a)", "(a)\\1", "\\bword", "\\p{Greek}", "\\pL",
        "\\p{L",   "(?i)a",   "a$b",     "b^a",    "a**",     "a{3,2}",     "[b-a]",
        "(a",      "a)",      "[a",      "\\",     "*a",      "a{1,5000}",  "((a{900}){900}){9}",
        "\\ud800"})
    EXPECT_FALSE(compiled(pattern).ok()) << pattern;
}

// Characters from `first` on, every other one, in UTF-8.
std::string every_other(int first, int count) {
  std::string out;
  for (int c = first; count-- > 0; c += 2) append_utf8(out, static_cast<char32_t>(c));
  return out;
}

// Each costs most in another step of the work; it compiles or is refused within a moment.
TEST(Automaton, PatternsTakeLittleTime) {
  const std::string many = "[" + every_other(0x100, 900) + "]";
  std::string optional;
  for (int c = 0x100; c < 0x100 + 300; c++) append_utf8(optional, static_cast<char32_t>(c)), optional += "?";
  const std::string patterns[] = {"^" + many + "{1000}$",          many + "{1000}",
                                  "^(" + many + "{0,20}){0,20}$",  "^(" + optional + "){3}$",
                                  "((a?b?c?d?e?f?g?h?){30}x){30}", "(a|b)*a(a|b){10}"};
  for (const std::string& pattern : patterns) {
    ASSERT_LE(pattern.size(), 4096u);
    const double start = now_seconds();
    const auto automaton = compiled(pattern);
    EXPECT_LT(now_seconds() - start, 10 * kSlowdown) << pattern.substr(0, 60) << pattern.size();
    if (!automaton.ok()) {
      EXPECT_EQ(automaton.error().kind, ErrorKind::exhausted) << automaton.error().message;
    }
  }
}

TEST(Automaton, PatternsShareABudget) {
  WorkBudget work(1'000'000);
  EXPECT_TRUE(compile_regex("^[a-z]{1,100}$", work).ok());
  int count = 1;
  while (count < 1000 && compile_regex("^[a-z]{1,100}$", work).ok()) count++;
  EXPECT_LT(count, 1000);
  EXPECT_TRUE(work.used_up());
  EXPECT_FALSE(compile_regex("a", work).ok());
}

}  // namespace
}  // namespace anabranch
