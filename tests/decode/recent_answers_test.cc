#include "decode/recent_answers.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ops/testing.h"

namespace anabranch {
namespace {

using ops::Random;
using Tokens = std::vector<int>;

Tokens answer_of(int number, int length) {
  Tokens out;
  for (int i = 0; i < length; i++) out.push_back(1000 * number + i);
  return out;
}
bool knows(const RecentAnswers& answers, const std::string& salt, int number) {
  return answers.find(salt, std::vector<int>{1000 * number, 1000 * number + 1}, 4).match > 0;
}

TEST(RecentAnswers, AreFoundUnderTheirOwnSaltOnly) {
  RecentAnswers answers;
  answers.add("", answer_of(1, 9));
  answers.add("a", answer_of(2, 9));
  answers.add("b", answer_of(3, 9));
  answers.add("a", answer_of(4, 9));
  answers.add("a", {});
  const std::map<std::string, std::vector<int>> wanted = {{"", {1}}, {"a", {2, 4}}, {"b", {3}}, {"c", {}}};
  for (const auto& [salt, numbers] : wanted)
    for (int number = 1; number <= 4; number++)
      EXPECT_EQ(knows(answers, salt, number), std::count(numbers.begin(), numbers.end(), number) == 1)
          << salt << " " << number;
  EXPECT_EQ(answers.find("a", Tokens{5, 2003, 2004}, 3).tokens, Tokens({2005, 2006, 2007}));
  EXPECT_EQ(answers.find("a", Tokens{2006, 2007}, 3).tokens, Tokens({2008})) << "not the next answer's";
}

TEST(RecentAnswers, ForgetTheOldestOfAllSaltsFirst) {
  constexpr size_t kBytes = 60000;
  RecentAnswers answers(kBytes);
  for (int number = 1; number <= 60; number++) {
    answers.add(number % 3 == 0 ? "rare" : "often", answer_of(number, 100));
    ASSERT_LE(answers.bytes(), kBytes);
    EXPECT_TRUE(knows(answers, number % 3 == 0 ? "rare" : "often", number));
  }
  // A last part is known, and nothing before it.
  int first = 1;
  while (!knows(answers, first % 3 == 0 ? "rare" : "often", first)) first++;
  EXPECT_GT(first, 40);
  EXPECT_LT(first, 58);
  for (int number = first; number <= 60; number++)
    EXPECT_TRUE(knows(answers, number % 3 == 0 ? "rare" : "often", number)) << number;
}

TEST(RecentAnswers, NeverTakeMoreThanTheirMemory) {
  Random random(6);
  for (const size_t most : {size_t{0}, size_t{3000}, size_t{100000}}) {
    RecentAnswers answers(most);
    for (int i = 0; i < 2000; i++) {
      const int tenant = random.below(i % 500 < 250 ? 3 : 300);
      answers.add(fmt::format("tenant {}", tenant), answer_of(i, 1 + random.below(i % 100 == 0 ? 5000 : 60)));
      ASSERT_LE(answers.bytes(), most);
    }
  }
}

TEST(RecentAnswers, AnAnswerThatNeverFitsForgetsNoOther) {
  RecentAnswers answers(100000);
  answers.add("a", answer_of(1, 9));
  const size_t bytes = answers.bytes();
  answers.add("a", answer_of(2, 4000));
  EXPECT_EQ(answers.bytes(), bytes);
  EXPECT_TRUE(knows(answers, "a", 1));
  EXPECT_FALSE(knows(answers, "a", 2));
}

TEST(RecentAnswers, OneSaltFillsItsMemoryAndGoesOn) {
  RecentAnswers answers;
  int last = 0;
  for (size_t tokens = 0; tokens < 1'000'000; tokens += 20'000) {
    answers.add("", answer_of(++last, 20'000));
    ASSERT_LE(answers.bytes(), RecentAnswers::kMostBytes);
  }
  EXPECT_TRUE(knows(answers, "", last));
  EXPECT_GT(answers.bytes(), RecentAnswers::kMostBytes / 2);
}

TEST(RecentAnswers, NothingIsLeftOfSaltsWhoseAnswersAreForgotten) {
  RecentAnswers answers(20000);
  for (int i = 0; i < 3000; i++) answers.add(fmt::format("a salt that is not short {}", i), answer_of(i, 8));
  int known = 0;
  for (int i = 0; i < 3000; i++) known += knows(answers, fmt::format("a salt that is not short {}", i), i);
  EXPECT_GT(known, 5);
  EXPECT_LT(known, 40);
}

}  // namespace
}  // namespace anabranch
