// Merging words of any length against the rule itself: the best pair first, of equal ones the leftmost.
#include "tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tokenizer/tokenizer.h"

namespace anabranch {
namespace {

// A vocabulary over a, b and c with random merges.
struct RandomMerges {
  Vocab vocab;
  std::map<std::pair<std::string, std::string>, uint32_t> ranks;

  explicit RandomMerges(std::mt19937& random) {
    std::vector<std::string> tokens = {"a", "b", "c"};
    for (int id = 0; id < 3; id++) vocab.add(tokens[static_cast<size_t>(id)], id);
    for (int i = 0; i < 40; i++) {
      const std::string left = tokens[random() % tokens.size()], right = tokens[random() % tokens.size()];
      if (left.size() + right.size() > 12) continue;
      if (!vocab.find(left + right)) {
        vocab.add(left + right, static_cast<int>(tokens.size()));
        tokens.push_back(left + right);
      }
      ranks.emplace(std::pair(left, right), static_cast<uint32_t>(ranks.size()));
    }
  }
  std::vector<int> slowly(const std::string& word) const {
    std::vector<std::string> parts;
    for (const char c : word) parts.emplace_back(1, c);
    for (;;) {
      size_t best = parts.size();
      uint32_t rank = UINT32_MAX;
      for (size_t i = 0; i + 1 < parts.size(); i++)
        if (const auto it = ranks.find({parts[i], parts[i + 1]}); it != ranks.end() && it->second < rank)
          rank = it->second, best = i;
      if (best == parts.size()) break;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + static_cast<long>(best) + 1);
    }
    std::vector<int> ids;
    for (const auto& part : parts) ids.push_back(vocab.lookup(part));
    return ids;
  }
};

TEST(Bpe, WordsOfAnyLengthMergeInTheSameOrder) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; round++) {
    const RandomMerges merges(random);
    Bpe bpe(&merges.vocab, {});
    bpe.reserve_merges(merges.ranks.size());
    for (const auto& [pair, rank] : merges.ranks)
      ASSERT_TRUE(bpe.add_merge(pair.first, pair.second, rank).ok());
    for (const size_t length : {1u, 5u, 47u, 48u, 49u, 50u, 200u}) {
      std::string word;
      while (word.size() < length) word += static_cast<char>('a' + random() % 3);
      std::vector<int> ids;
      bpe.encode(word, ids);
      ASSERT_EQ(ids, merges.slowly(word)) << word << " in round " << round;
    }
  }
}

// By score: of equal scores the leftmost pair goes first, also in long words.
TEST(Bpe, EqualScoresMergeFromTheLeftInLongWords) {
  Vocab vocab;
  int id = 0;
  for (const char* token : {"a", "b", "aa", "aaa", "ab"}) vocab.add(token, id++);
  for (const bool tied : {true, false}) {
    Bpe bpe(&vocab, {});
    bpe.merge_by_score({0, 0, 1, tied ? 1.0f : 0.5f, 1}, Bpe::Ties::leftmost);
    for (const size_t length : {7u, 47u, 49u, 121u}) {
      std::vector<int> ids, want;
      bpe.encode(std::string(length, 'a') + "b", ids);
      if (tied) {  // (aa)a, then again
        for (size_t at = 0; at < length; at += 3) {
          const size_t left = length - at;
          if (left >= 3) want.push_back(3);
          if (left == 2) want.insert(want.end(), {2, 1});
          if (left == 1) want.push_back(4);
        }
        if (length % 3 == 0) want.push_back(1);
      } else {  // all pairs first
        want.assign(length / 2, 2);
        want.push_back(4);
      }
      EXPECT_EQ(ids, want) << length << " " << tied;
    }
  }
}

TEST(Bpe, UnknownNeighboursAreOneTokenOnlyWhereTheModelSaysSo) {
  Vocab vocab;
  vocab.add("<unk>", 0);
  vocab.add("a", 1);
  for (const bool fuse : {true, false}) {
    const Bpe bpe(&vocab, {.unk = 0, .fuse_unk = fuse});
    std::vector<int> ids;
    bpe.encode("xéaxyz", ids);
    EXPECT_EQ(ids, (fuse ? std::vector<int>{0, 1, 0} : std::vector<int>{0, 0, 1, 0, 0, 0}));
    EXPECT_EQ(bpe.keeps('x', false), !fuse) << "a text of one unknown token may have any length";
  }
}

TEST(LeadingBos, IsThereOnce) {
  GgufVocab vocab;
  vocab.model = "llama";
  vocab.tokens = {"<unk>", "<s>", "</s>", "a"};
  vocab.types = {2, 3, 3, 1};
  vocab.scores.assign(4, 0);
  vocab.unk = 0;
  vocab.bos = 1;
  vocab.add_bos = true;
  const auto made = Tokenizer::from_gguf(vocab);
  ASSERT_TRUE(made.ok()) << made.error().message;
  ASSERT_TRUE(leading_bos(**made));
  for (const auto& before : {std::vector<int>{}, std::vector<int>{3}, std::vector<int>{1, 3}}) {
    std::vector<int> ids = before;
    add_leading_bos(**made, ids);
    EXPECT_EQ(std::count(ids.begin(), ids.end(), 1), 1);
    EXPECT_EQ(ids.front(), 1);
  }
}

}  // namespace
}  // namespace anabranch
