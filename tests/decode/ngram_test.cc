#include "decode/ngram.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/testing.h"

namespace anabranch {
namespace {

using ops::Random;
using Tokens = std::vector<int>;

NgramIndex::Match match(const Tokens& tokens) {
  return NgramIndex().match(tokens);
}
Tokens follow(const Tokens& tokens, int count) {
  return NgramIndex::follow(tokens, match(tokens), count);
}

TEST(Ngram, WhatCameAfterTheLongestMatch) {
  EXPECT_EQ(match({}).length, 0);
  EXPECT_EQ(match({1}).length, 0);
  EXPECT_EQ(match({1, 2, 3}).length, 0);
  EXPECT_EQ(match({1, 2, 3, 2}).length, 0) << "one token alone says little";
  EXPECT_EQ(follow({1, 2, 3}, 4), Tokens());
  // (1 2 3) and later (9 2 3): the first is longer.
  const Tokens longest = {1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3};
  EXPECT_EQ(match(longest).end, 2);
  EXPECT_EQ(match(longest).length, 3);
  EXPECT_EQ(follow(longest, 3), Tokens({4, 9, 2}));
  EXPECT_EQ(follow(longest, 0), Tokens());
}

TEST(Ngram, TheLatestOfEquals) {
  const Tokens tokens = {1, 2, 7, 1, 2, 8, 1, 2};
  EXPECT_EQ(match(tokens).end, 4);
  EXPECT_EQ(follow(tokens, 2), Tokens({8, 1}));
}

TEST(Ngram, AMatchThatReachesTheEndGoesOnFromItsCopy) {
  EXPECT_EQ(follow({5, 1, 2, 1, 2}, 7), Tokens({1, 2, 1, 2, 1, 2, 1}));
  EXPECT_EQ(follow({3, 3, 3}, 4), Tokens({3, 3, 3, 3}));
  EXPECT_EQ(follow({1, 2, 3, 9, 1, 2, 3}, 9), Tokens({9, 1, 2, 3, 9, 1, 2, 3, 9}));
}

// What the index should find: of the latest 64 places where the last two tokens were before, the one with the
// longest match (of at most 64 tokens), the latest of equals.
NgramIndex::Match brute_force(const Tokens& tokens) {
  NgramIndex::Match best;
  const int n = static_cast<int>(tokens.size());
  int places = 0;
  for (int end = n - 2; end >= 1 && places < 64; end--) {
    int length = 0;
    while (length <= end && length < 64 && tokens[end - length] == tokens[n - 1 - length]) length++;
    if (length < 2) continue;
    places++;
    if (length > best.length) best = {end, length};
  }
  return best;
}

TEST(Ngram, EqualsASearchOfEverything) {
  Random random(3);
  for (const int vocab : {2, 3, 8, 40}) {
    NgramIndex grown;  // goes on from call to call
    Tokens tokens;
    for (int i = 0; i < 700; i++) {
      if (i > 20 && random.below(6) == 0) {  // copies some of itself
        const int from = random.below(i - 10), count = 1 + random.below(90);
        for (int j = 0; j < count; j++) tokens.push_back(tokens[from + j]);
      } else {
        tokens.push_back(random.below(vocab));
      }
      if (random.below(3) == 0) continue;  // several at once
      const auto got = grown.match(tokens), want = brute_force(tokens);
      ASSERT_EQ(got.length, want.length) << tokens.size() << " of " << vocab << " tokens";
      if (want.length > 0) {
        ASSERT_EQ(got.end, want.end) << tokens.size() << " of " << vocab << " tokens";
      }
      if (i % 50 != 0) continue;
      const auto fresh = match(tokens);
      EXPECT_EQ(fresh.end, want.end);
      EXPECT_EQ(fresh.length, want.length);
      // Followers: as if each were appended in turn.
      Tokens extended = tokens;
      for (int j = 0; want.length > 0 && j < 15; j++) extended.push_back(extended[want.end + 1 + j]);
      EXPECT_EQ(NgramIndex::follow(tokens, got, 15),
                Tokens(extended.begin() + tokens.size(), extended.end()));
    }
  }
}

// One token over and over: the worst that can be searched.
TEST(Ngram, RepetitionIsNotSlow) {
  NgramIndex index;
  const Tokens tokens(20000, 7);
  for (size_t n = 1; n <= tokens.size(); n += 1) {
    const auto found = index.match(std::span(tokens).first(n));
    ASSERT_EQ(found.length, n < 3 ? 0 : std::min<int>(64, static_cast<int>(n) - 1));
  }
}

}  // namespace
}  // namespace anabranch
