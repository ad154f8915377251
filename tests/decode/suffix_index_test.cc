#include "decode/suffix_index.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "ops/testing.h"

namespace anabranch {
namespace {

using ops::Random;
using Tokens = std::vector<int>;
using Proposal = SuffixIndex::Proposal;

Proposal find_own(const Tokens& tokens, int count) {
  SuffixIndex index;
  index.append(tokens);
  return index.find_own(count);
}
Tokens follow(const Tokens& tokens, int count) {
  return find_own(tokens, count).tokens;
}

TEST(SuffixIndex, WhatCameAfterTheLongestMatch) {
  EXPECT_EQ(find_own({}, 4).match, 0);
  EXPECT_EQ(find_own({1}, 4).match, 0);
  EXPECT_EQ(find_own({1, 2, 3}, 4).match, 0);
  EXPECT_EQ(find_own({1, 2, 3, 2}, 4).match, 0) << "one token alone says little";
  // (1 2 3) and later (9 2 3): the first is longer.
  const Tokens longest = {1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3};
  EXPECT_EQ(find_own(longest, 3).match, 3);
  EXPECT_EQ(find_own(longest, 3).matches, 1);
  EXPECT_EQ(follow(longest, 3), Tokens({4, 9, 2}));
  EXPECT_EQ(follow(longest, 0), Tokens());
}

TEST(SuffixIndex, TheMostFrequentOfEqualMatchesThenTheLatest) {
  const Tokens tie = {1, 2, 7, 1, 2, 8, 1, 2};
  EXPECT_EQ(follow(tie, 2), Tokens({8, 1}));
  EXPECT_EQ(find_own(tie, 2).matches, 2);
  EXPECT_EQ(find_own(tie, 2).agree, 1);
  const Tokens often = {1, 2, 7, 5, 1, 2, 7, 5, 3, 1, 2, 8, 1, 2};
  EXPECT_EQ(follow(often, 2), Tokens({7, 5}));
  EXPECT_EQ(find_own(often, 2).matches, 3);
  EXPECT_EQ(find_own(often, 2).agree, 2);
  // Both say 7, and then part.
  EXPECT_EQ(follow({1, 2, 7, 5, 1, 2, 7, 6, 1, 2}, 9), Tokens({7}));
}

TEST(SuffixIndex, AMatchThatReachesTheEndGoesOnFromItsCopy) {
  EXPECT_EQ(follow({5, 1, 2, 1, 2}, 7), Tokens({1, 2, 1, 2, 1, 2, 1}));
  EXPECT_EQ(follow({3, 3, 3}, 4), Tokens({3, 3, 3, 3}));
  EXPECT_EQ(follow({1, 2, 3, 9, 1, 2, 3}, 9), Tokens({9, 1, 2, 3, 9, 1, 2, 3, 9}));
}

TEST(SuffixIndex, ProposalsForOtherTextsStopAtTheEndOfAText) {
  SuffixIndex index;
  index.append(Tokens{1, 2, 3, 4, SuffixIndex::kEnd, 9, 1, 2, SuffixIndex::kEnd});
  EXPECT_EQ(index.find(Tokens{7, 2, 3}, 5).tokens, Tokens({4}));
  EXPECT_EQ(index.find(Tokens{3, 4}, 5).match, 0) << "nothing follows";
  EXPECT_EQ(index.find(Tokens{4, 9, 1}, 5).match, 2) << "a match does not reach into another text";
  EXPECT_EQ(index.find(Tokens{2}, 5).match, 0);
  EXPECT_EQ(SuffixIndex().find(Tokens{1, 2, 3}, 5).match, 0);
}

// As the header describes it: the latest 64 matches that share the last 8, else 4, else 2 tokens; those of
// them with the longest match; the most frequent next token at each step, for as long as most agree.
Proposal brute_force(const Tokens& text, const Tokens& context, int count, bool own) {
  Proposal out;
  std::vector<size_t> alive;
  for (const int order : {8, 4, 2}) {
    int matches = 0;
    for (size_t next = text.size() - 1; next > 0 && matches < 64 && text.size() > 1; next--) {
      int match = 0;
      while (match < 64 && match < static_cast<int>(std::min(next, context.size())) &&
             text[next - 1 - match] == context[context.size() - 1 - match])
        match++;
      if (match < order) continue;
      matches++;
      if (match > out.match) alive.clear();
      if (match >= out.match) alive.push_back(next);
      out.match = std::max(out.match, match);
    }
    if (!alive.empty()) break;
  }
  out.matches = static_cast<int>(alive.size());
  Tokens extended = text;
  for (int i = 0; i < count && !alive.empty(); i++) {
    std::map<int, int> votes;
    int best = SuffixIndex::kEnd;
    const auto token_of = [&](size_t next) {
      return next + i < extended.size() && (own || next + i < text.size()) ? extended[next + i]
                                                                           : SuffixIndex::kEnd;
    };
    for (const size_t next : alive) votes[token_of(next)]++;
    votes[SuffixIndex::kEnd] = 0;
    for (const size_t next : alive)
      if (votes[token_of(next)] > votes[best]) best = token_of(next);
    if (votes[best] == 0 || (i > 0 && votes[best] < 0.8 * static_cast<double>(alive.size()))) break;
    if (i == 0) out.agree = votes[best];
    std::erase_if(alive, [&](size_t next) { return token_of(next) != best; });
    out.tokens.push_back(best);
    extended.push_back(best);
  }
  return out.tokens.empty() ? Proposal() : out;
}

void expect_equal(const Proposal& got, const Proposal& want, const std::string& where) {
  ASSERT_EQ(got.match, want.match) << where;
  ASSERT_EQ(got.matches, want.matches) << where;
  ASSERT_EQ(got.agree, want.agree) << where;
  ASSERT_EQ(got.tokens, want.tokens) << where;
}

// Appends a token, or a copy of an earlier stretch.
void grow(Tokens& tokens, int vocab, Random& random) {
  const int size = static_cast<int>(tokens.size());
  if (size > 20 && random.below(6) == 0) {
    const int from = random.below(size - 10), count = 1 + random.below(90);
    for (int j = 0; j < count; j++) tokens.push_back(tokens[from + j]);
  } else {
    tokens.push_back(random.below(vocab));
  }
}

TEST(SuffixIndex, EqualsASearchOfTheWholeText) {
  Random random(3);
  for (const int vocab : {2, 3, 8, 40, 50000}) {
    SuffixIndex index;  // goes on from call to call
    Tokens tokens;
    for (int i = 0; i < 400; i++) {
      grow(tokens, vocab, random);
      if (random.below(3) == 0) continue;  // several at once
      index.append(std::span(tokens).subspan(index.size()));
      expect_equal(index.find_own(15), brute_force(tokens, tokens, 15, true),
                   fmt::format("{} of {} tokens", tokens.size(), vocab));
    }
  }
}

TEST(SuffixIndex, FindsOtherTextsUntilTheyAreDropped) {
  Random random(4);
  for (const int vocab : {2, 5, 60}) {
    SuffixIndex index;
    Tokens held;                // all that is not dropped
    std::vector<size_t> texts;  // their lengths
    for (int i = 0; i < 120; i++) {
      Tokens text;
      for (int n = 5 + random.below(60); n > 0; n--) grow(text, vocab, random);
      text.push_back(SuffixIndex::kEnd);
      index.append(text);
      held.insert(held.end(), text.begin(), text.end());
      texts.push_back(text.size());
      while (texts.size() > 12 || (texts.size() > 1 && random.below(8) == 0)) {
        index.drop_front(texts.front());
        held.erase(held.begin(), held.begin() + static_cast<std::ptrdiff_t>(texts.front()));
        texts.erase(texts.begin());
      }
      ASSERT_EQ(index.size(), held.size());
      for (int j = 0; j < 8; j++) {
        const int from = random.below(static_cast<int>(held.size()));
        Tokens context(held.begin() + from, held.begin() + std::min<int>(from + 1 + random.below(80),
                                                                         static_cast<int>(held.size())));
        std::erase(context, SuffixIndex::kEnd);
        if (context.empty()) continue;
        if (random.below(3) == 0) context.front() = random.below(vocab);
        expect_equal(index.find(context, 15), brute_force(held, context, 15, false),
                     fmt::format("text {} of {}", i, vocab));
      }
    }
    index.drop_front(index.size());
    EXPECT_EQ(index.size(), 0u);
    EXPECT_EQ(index.find(held, 15).match, 0);
  }
}

// One token over and over is the worst that can be searched.
TEST(SuffixIndex, RepetitionIsNotSlow) {
  SuffixIndex index;
  const Tokens tokens(20000, 7);
  for (size_t n = 1; n <= tokens.size(); n++) {
    index.append(std::span(tokens).subspan(n - 1, 1));
    const auto found = index.find_own(15);
    ASSERT_EQ(found.match, n < 3 ? 0 : std::min<int>(64, static_cast<int>(n) - 1));
  }
}

TEST(SuffixIndex, TellsTheMemoryOfAnAppendBefore) {
  Random random(8);
  SuffixIndex index;
  for (int i = 0; i < 3000; i++) {
    const Tokens tokens(static_cast<size_t>(random.below(i % 50 == 0 ? 2000 : 40)), i);
    const size_t told = index.bytes_with(tokens.size());
    index.append(tokens);
    ASSERT_EQ(index.bytes(), told) << i;
    if (index.size() > 5000) index.drop_front(static_cast<size_t>(random.below(3000)));
  }
}

TEST(SuffixIndex, TakesLinearMemory) {
  Random random(5);
  SuffixIndex index;
  for (int i = 0; i < 40000; i++) {
    const int token = random.below(50000);
    index.append({&token, 1});
    ASSERT_LE(index.bytes(), 1024 + 84 * index.size()) << i;
  }
}

}  // namespace
}  // namespace anabranch
