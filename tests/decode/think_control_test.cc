// What bounds thoughts, token by token (whole requests: tests/engine/thinking_test.cc).
#include "decode/think_control.h"

#include <gtest/gtest.h>

namespace anabranch {
namespace {

constexpr int kOpen = 1, kClose = 2, kEnd = 3, kBlank = 4, kSo = 5, kStart = 6, kWord = 10;

class Control : public ::testing::Test {
 protected:
  // `rules` with a closing text.
  ThinkControl make(ThinkRules rules) {
    rules.closing = {kSo, kClose, kBlank};
    return ThinkControl(tokens_, std::move(rules));
  }
  // What the sequence takes where the model would say `wanted`.
  static int take(ThinkControl& control, int wanted) {
    const int token = control.decide(wanted);
    control.accept(token);
    return token;
  }
  static std::vector<int> take_forced(ThinkControl& control) {
    std::vector<int> out;
    while (!control.forced().empty()) out.push_back(take(control, kWord));
    return out;
  }

  ThinkTokens tokens_{.open = kOpen, .close = kClose, .ends = {kEnd}, .blanks = {kBlank}, .traits = {}};
};

// Thoughts and answers that are messages (gpt-oss): a thought is <channel> name <message> ... <close>.
TEST_F(Control, MessagesAreKeptApartByTheirHeaders) {
  constexpr int kBegin = 20, kChannel = 21, kMessage = 22, kThought = 23, kRole = 24, kFinal = 25;
  tokens_.open.reset();
  tokens_.messages = MessageTokens{kBegin, kChannel, kMessage, {kThought}, {kBegin, kRole}, {}};
  auto control = make({.budget = 3, .next = {kBegin, kRole}});
  for (const int token : {kChannel, kThought, kMessage, kWord}) EXPECT_EQ(take(control, token), token);
  EXPECT_TRUE(control.thinking());
  EXPECT_EQ(take(control, kClose), kClose);
  EXPECT_EQ(take_forced(control), (std::vector<int>{kBegin, kRole})) << "the next message's beginning";
  EXPECT_FALSE(control.allows(kEnd)) << "no answer yet";
  take(control, kChannel);
  EXPECT_TRUE(control.allows(kThought)) << "the budget has room";
  EXPECT_FALSE(control.answering());
  for (const int token : {kFinal, kMessage}) take(control, token);
  EXPECT_TRUE(control.answering());
  EXPECT_EQ(control.answer_tokens(), 0);
  take(control, kWord);
  EXPECT_EQ(control.answer_tokens(), 1);

  // Text without a header is an answer, which may end: at the beginning, in a completion, and behind a
  // thought. A role is no answer.
  for (const ThinkRules& rules : {ThinkRules{}, ThinkRules{.in_answer = true}}) {
    auto bare = make(rules);
    EXPECT_TRUE(bare.allows(kEnd));
    for (const int token : {kWord, kWord + 1}) {
      take(bare, token);
      EXPECT_TRUE(bare.answering());
      EXPECT_TRUE(bare.allows(kEnd));
    }
    EXPECT_EQ(bare.answer_tokens(), 2);
    EXPECT_EQ(take(bare, kEnd), kEnd);
  }
  auto behind = make({.open = true, .next = {kBegin, kRole}});
  take(behind, kWord);
  take(behind, kClose);
  take_forced(behind);
  EXPECT_FALSE(behind.allows(kEnd));
  take(behind, kWord);
  EXPECT_TRUE(behind.allows(kEnd));
  auto header = make({});
  for (const int token : {kChannel, kFinal}) {
    take(header, token);
    EXPECT_FALSE(header.allows(kEnd)) << "within a header";
  }
  take(header, kMessage);
  EXPECT_FALSE(header.allows(kEnd)) << "an answer without a token";

  auto spent = make({.budget = 0});
  take(spent, kChannel);
  EXPECT_FALSE(spent.allows(kThought));
  EXPECT_TRUE(spent.allows(kFinal));

  auto grammar = make({.open = true, .headers_answer = true, .next = {kBegin, kRole}});
  take(grammar, kWord);
  take(grammar, kBegin);  // without the closing tag
  EXPECT_EQ(take_forced(grammar), std::vector<int>{kRole});
  EXPECT_TRUE(grammar.answering()) << "a grammar writes the header";
}

TEST_F(Control, TheAnswersBeginningIsForcedOnce) {
  auto control = make({.open = true, .budget = 2, .escape = {kStart}});
  take(control, kWord);
  take(control, kWord + 1);
  EXPECT_EQ(take_forced(control), (std::vector<int>{kSo, kClose, kBlank, kStart}));
  EXPECT_EQ(control.answer_tokens(), 1);
  EXPECT_FALSE(control.allows(kOpen)) << "the budget is spent";
  auto second = make({.open = true, .budget = 4, .escape = {kStart}});
  for (const int token : {kWord, kClose, kBlank, kWord + 1, kOpen, kWord + 2}) {
    EXPECT_EQ(take(second, token), token);
  }
  take(second, kWord + 3);
  EXPECT_EQ(take_forced(second), (std::vector<int>{kSo, kClose, kBlank})) << "an answer has begun before";
}

TEST_F(Control, AFenceInAThoughtBeginsTheAnswer) {
  const int kFence = kWord + 7, kJson = kWord + 8, kLine = kWord + 9;
  const ThinkRules rules{.open = true, .fence = {kFence, kJson}, .fence_end = {kLine}};
  auto control = make(rules);
  for (const int token : {kWord, kJson, kFence, kWord, kFence, kFence, kJson}) {
    EXPECT_TRUE(control.forced().empty());
    take(control, token);
  }
  EXPECT_EQ(take_forced(control), (std::vector<int>{kSo, kClose, kBlank, kFence, kJson, kLine}));
  EXPECT_EQ(control.cut(), ThinkCut::answer_fence);
  EXPECT_STREQ(name_of(control.cut()), "answer_in_thought");
  // In an answer, and in a thought behind its beginning, it is text.
  auto answer = make(rules);
  for (const int token : {kClose, kFence, kJson, kWord, kOpen, kFence, kJson})
    EXPECT_EQ(take(answer, token), token);
  EXPECT_TRUE(answer.forced().empty());
  EXPECT_EQ(answer.cut(), ThinkCut::none);
}

TEST_F(Control, NoCallWithoutTools) {
  auto control = make({.open = true, .calls = {kWord}, .may_call = false});
  EXPECT_FALSE(control.allows(kWord)) << "in a thought";
  EXPECT_TRUE(control.allows(kWord + 1));
  take(control, kClose);
  EXPECT_FALSE(control.allows(kWord)) << "in the answer";
  auto text = make({.open = true});
  EXPECT_TRUE(text.allows(kWord));
  auto offered = make({.open = true, .calls = {kWord}});
  EXPECT_TRUE(offered.allows(kWord));
  EXPECT_EQ(take(offered, kWord), kSo) << "it ends the thought";
}

TEST_F(Control, TheEndOfATurnInALaterThoughtIsTheEnd) {
  auto control = make({.open = true});
  for (const int token : {kWord, kClose, kWord + 1, kOpen, kWord + 2}) take(control, token);
  EXPECT_EQ(take(control, kEnd), kEnd);
  EXPECT_EQ(control.cut(), ThinkCut::none);
}

TEST_F(Control, NoTurnEndsBetweenAThoughtAndItsAnswer) {
  auto control = make({.open = true});
  EXPECT_TRUE(control.allows(kEnd)) << "in a thought it closes it";
  EXPECT_EQ(take(control, kEnd), kSo);
  take_forced(control);
  EXPECT_EQ(control.cut(), ThinkCut::end_of_turn);
  EXPECT_FALSE(control.allows(kEnd));
  take(control, kBlank);
  EXPECT_FALSE(control.allows(kEnd));
  take(control, kWord);
  EXPECT_TRUE(control.allows(kEnd));
  auto ended = make({.open = true});
  take(ended, kClose);
  EXPECT_FALSE(ended.allows(kEnd)) << "a thought that ended by itself";
  take(ended, kWord);
  EXPECT_TRUE(ended.allows(kEnd));
  auto plain = make({});
  EXPECT_TRUE(plain.allows(kEnd)) << "without a thought the model may say nothing";
  auto counted = make({.open = true, .watch = false});
  take(counted, kClose);
  EXPECT_TRUE(counted.allows(kEnd));
}

TEST_F(Control, ThoughtsThatAreOnlyTagsSpendTheBudget) {
  auto control = make({.budget = 10});
  int opened = 0;
  while (control.allows(kOpen)) {
    ASSERT_LE(++opened, 10);
    take(control, kOpen);
    if (control.forced().empty()) take(control, kClose);
    take_forced(control);
  }
  EXPECT_EQ(opened, 10);
}

// Under a bound on all tokens the tags are the answer's loss, whoever wrote them.
TEST_F(Control, ClosingsSpendTheBudgetWhereTheyCount) {
  auto tags = make({.budget = 10, .count_closings = true});
  for (int i = 0; i < 5; i++) {
    EXPECT_TRUE(tags.allows(kOpen)) << i;
    take(tags, kOpen);
    take(tags, kClose);
  }
  EXPECT_FALSE(tags.allows(kOpen));
  auto last = make({.budget = 3, .count_closings = true});
  take(last, kOpen);
  take(last, kClose);
  EXPECT_FALSE(last.allows(kOpen)) << "a tag would fit, and nothing behind it";
  auto second = make({.open = true, .budget = 6, .count_closings = true});
  for (const int token : {kWord, kClose, kBlank, kWord, kOpen, kWord + 1}) {
    EXPECT_TRUE(second.forced().empty());
    take(second, token);
  }
  EXPECT_TRUE(second.forced().empty()) << "five tokens: two, white space, and two";
  take(second, kWord + 2);
  EXPECT_EQ(take_forced(second), (std::vector<int>{kSo, kClose, kBlank}));
}

TEST_F(Control, WhiteSpaceDoesNotTakeTheAnswersShare) {
  auto control = make({.open = true, .budget = 2, .most = 6});
  take(control, kWord);
  take(control, kWord + 1);
  take_forced(control);
  EXPECT_TRUE(control.allows(kBlank)) << "five tokens so far";
  take(control, kBlank);
  EXPECT_FALSE(control.allows(kBlank));
  EXPECT_TRUE(control.allows(kWord));
  take(control, kWord);
  EXPECT_TRUE(control.allows(kBlank)) << "in the answer";
  EXPECT_EQ(control.thinking_tokens(), 6);
}

// It belongs to a thought if one follows, and to nothing otherwise.
TEST_F(Control, WhiteSpaceBeforeAThought) {
  auto thought = make({.blanks_before = true});
  for (const int token : {kBlank, kBlank}) EXPECT_EQ(take(thought, token), token);
  EXPECT_FALSE(thought.answering());
  EXPECT_TRUE(thought.allows(kEnd)) << "the model may say nothing";
  EXPECT_EQ(thought.thinking_tokens() + thought.answer_tokens(), 0);
  take(thought, kOpen);
  EXPECT_TRUE(thought.thinking());
  EXPECT_EQ(thought.thinking_tokens(), 3);
  for (const int token : {kWord, kClose, kBlank, kWord}) take(thought, token);
  EXPECT_EQ(thought.thinking_tokens(), 6);
  EXPECT_EQ(thought.answer_tokens(), 1);
  auto answer = make({.blanks_before = true});
  for (const int token : {kBlank, kWord, kBlank}) take(answer, token);
  EXPECT_EQ(answer.thinking_tokens(), 0);
  EXPECT_EQ(answer.answer_tokens(), 2);
  auto endless = make({.blanks_before = true});
  for (int i = 0; i < 8; i++) take(endless, kBlank);
  EXPECT_FALSE(endless.answer_begun());
  take(endless, kBlank);
  EXPECT_EQ(endless.answer_tokens(), 1);
  // In other formats, and where the prompt has begun the answer, it is the answer's.
  for (const ThinkRules& rules : {ThinkRules{}, ThinkRules{.answer_begun = true, .blanks_before = true}}) {
    auto other = make(rules);
    take(other, kBlank);
    EXPECT_EQ(other.answer_tokens(), 1);
  }
}

TEST_F(Control, EndlessWhiteSpaceBehindAThoughtIsAnswer) {
  auto control = make({.open = true});
  take(control, kClose);
  for (int i = 0; i < 8; i++) take(control, kBlank);
  EXPECT_EQ(control.answer_tokens(), 0);
  for (int i = 0; i < 5; i++) take(control, kBlank);
  EXPECT_EQ(control.answer_tokens(), 5);
  EXPECT_EQ(control.thinking_tokens(), 9);
}

TEST_F(Control, AFenceIsItsTokensInARow) {
  constexpr int kFence = 30, kJson = 31;
  auto control = make({.open = true, .fence = {kFence, kJson}});
  for (const int token : {kFence, kWord, kJson, kJson, kFence, kFence}) {
    take(control, token);
    EXPECT_EQ(control.cut(), ThinkCut::none);
  }
  take(control, kJson);
  EXPECT_EQ(control.cut(), ThinkCut::answer_fence);
}

// The answer's beginning is not forced in front of it.
TEST_F(Control, ACallInAThoughtComesBehindTheClosingText) {
  constexpr int kCall = 30;
  auto control = make({.open = true, .calls = {kCall}, .escape = {kStart}});
  take(control, kWord);
  EXPECT_EQ(take(control, kCall), kSo);
  EXPECT_EQ(take_forced(control), (std::vector<int>{kClose, kBlank, kCall}));
  EXPECT_EQ(control.cut(), ThinkCut::tool_call);
}

TEST_F(Control, ASecondThoughtHasLoopsOfItsOwn) {
  auto control = make({.open = true});
  const auto piece = [&] {
    for (int token = kWord; token < kWord + 20; token++) EXPECT_EQ(take(control, token), token);
  };
  piece();
  piece();
  for (const int token : {kClose, kWord, kOpen}) EXPECT_EQ(take(control, token), token);
  piece();
  EXPECT_TRUE(control.thinking());
  EXPECT_EQ(control.cut(), ThinkCut::none);
  piece();
  for (int token = kWord; control.cut() == ThinkCut::none && token < kWord + 20; token++)
    take(control, token);
  EXPECT_EQ(control.cut(), ThinkCut::loop) << "the third copy";
}

}  // namespace
}  // namespace anabranch
