#include "text/automaton.h"

#include <gtest/gtest.h>

#include <random>
#include <regex>

#include "text/automaton_accepts.h"

namespace anabranch::text {
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
    const auto whole = compile_regex("^" + pattern + "$"), part = compile_regex(pattern);
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
  const auto counted = with_length(*compile_regex("^(ab)*a?$"), 2, 5);
  ASSERT_TRUE(counted.ok());
  const Automaton except = text_except({"ab", "a", "bab"}), without = text_without("<a<b");
  for (const auto& text : all) {
    const bool pattern = std::regex_match(text, std::regex("(ab)*a?"));
    EXPECT_EQ(accepts(*counted, text), pattern && text.size() >= 2 && text.size() <= 5) << text;
    EXPECT_EQ(accepts(except, text), text != "ab" && text != "a" && text != "bab") << text;
    EXPECT_EQ(accepts(without, text), text.find("<a<b") == std::string::npos) << text;
  }
}

TEST(Automaton, RefusesWhatItDoesNotKnow) {
  for (const char* pattern :
       {"a(?=b)", "(?<n>a)", "(a)\\1", "\\bword", "\\p{L}", "(?i)a", "a$b", "b^a", "a**", "a{3,2}", "[b-a]",
        "(a", "a)", "[a", "\\", "*a", "a{1,5000}", "((a{900}){900}){9}", "\\ud800"})
    EXPECT_FALSE(compile_regex(pattern).ok()) << pattern;
}

}  // namespace
}  // namespace anabranch::text
