// The memory of known texts: it changes no token, stays within its bounds, and serves several threads.
#include "tokenizer/segment_memo.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "slow.h"
#include "tokenizer/components.h"

namespace anabranch {
namespace {

using namespace testing;

// Texts that push each other out all the time. Each has its own tokens, so a mix-up shows.
TEST(SegmentMemoThreads, EachThreadGetsTheTokensOfItsText) {
  constexpr int kTexts = 7, kRounds = 300'000 / kSlowdown;
  constexpr size_t kRoom = 700;  // for four of them
  SegmentMemo memo(kRoom);
  std::vector<std::string> keys;
  std::vector<std::vector<int>> tokens;
  for (int text = 0; text < kTexts; text++) {
    keys.push_back("text " + std::to_string(text));
    tokens.emplace_back(static_cast<size_t>(20 + text), text);
  }
  std::atomic<int> ready = 0, wrong = 0;
  const auto work = [&](int step) {
    ready++;
    while (ready < 2) std::this_thread::yield();
    std::vector<int> out;
    for (int i = 0; i < kRounds; i++) {
      const auto text = static_cast<size_t>(i * step % kTexts);
      out.clear();
      if (memo.append(keys[text], out))
        wrong += out != tokens[text];
      else
        memo.put(keys[text], tokens[text]);
    }
  };
  std::thread one(work, 1), two(work, 3);
  one.join();
  two.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(memo.bytes(), kRoom);
}

TEST(SegmentMemoBounds, ManySmallTextsStayWithinTheBudget) {
  SegmentMemo memo(10'000);
  std::vector<int> out;
  for (int i = 0; i < 2000; i++) {
    memo.put("text " + std::to_string(i), std::vector<int>{i});
    ASSERT_LE(memo.bytes(), 10'000u);
  }
  EXPECT_FALSE(memo.append("text 0", out));
  EXPECT_TRUE(memo.append("text 1999", out));
  EXPECT_EQ(out, std::vector<int>{1999});
}

// The same text at the beginning and in the middle, trusted and not, with and without a salt, in any order.
TEST(SegmentMemoTokens, AreTheSameAsWithoutIt) {
  std::string words;
  while (words.size() < 400) words += "Some words, 12 of them. ";
  for (const Json& test : components()["cases"]) {
    SCOPED_TRACE(test["name"].get<std::string>());
    const Json json = definition(test);
    const TokenizerPtr tokenizer = parse(json);
    std::vector<std::string> marks = {""};
    for (const Json& token : json["added_tokens"]) marks.push_back(token["content"]);
    SegmentMemo memo(1 << 20);
    for (int round = 0; round < 2; round++)
      for (const std::string& mark : marks) {
        const std::string text = words + mark + words;
        const std::vector<PromptPiece> prompts[] = {
            {{text, true}},
            {{text, false}},
            {{mark, true}, {text, false}},
            {{mark, true}, {text, true}},
            {{words, true}, {mark, false}, {words, true}},
            {{" ", true}, {text, false}, {mark, true}, {words, false}},
        };
        for (const auto& pieces : prompts) {
          const auto want = tokenizer->encode(std::span<const PromptPiece>(pieces));
          ASSERT_EQ(tokenizer->encode(std::span<const PromptPiece>(pieces), &memo), want) << mark;
          ASSERT_EQ(tokenizer->encode(std::span<const PromptPiece>(pieces), &memo, "salt"), want) << mark;
        }
      }
  }
}

// Bytes that are no UTF-8 change nothing about whose words they stand beside.
TEST(SegmentMemoTokens, BadUtf8DoesNotMakeTextTrusted) {
  const Json& test = component("added tokens");
  const Json json = definition(test);
  const TokenizerPtr tokenizer = parse(json);
  for (const Json& token : json["added_tokens"]) {
    if (!token["special"]) continue;
    const std::string mark = token["content"];
    const int id = token["id"];
    for (const std::string bad : {"\xff", "\xed\xa0\x80", "\xe2\x82", "\xc0\x80"})
      for (const auto& pieces : {std::vector<PromptPiece>{{bad + mark, false}},
                                 std::vector<PromptPiece>{{bad, true}, {mark, false}},
                                 std::vector<PromptPiece>{{mark, false}, {bad, true}},
                                 std::vector<PromptPiece>{{bad + mark + bad, false}, {" x ", true}}}) {
        const auto ids = tokenizer->encode(std::span<const PromptPiece>(pieces));
        EXPECT_EQ(std::count(ids.begin(), ids.end(), id), 0) << mark;
      }
  }
}

}  // namespace
}  // namespace anabranch
