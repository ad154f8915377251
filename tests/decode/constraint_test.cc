// Each constraint alone, and the list that a step walks: order, drafts, and an end in the middle of a draft.
#include "decode/constraint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "decode/answer_grammar.h"
#include "decode/text_constraints.h"
#include "decode/think_control.h"

namespace anabranch {
namespace {

const Tokenizer& tokenizer() {
  static const auto made =
      Tokenizer::from_file(ANABRANCH_SOURCE_DIR "/models/hybrid-146m/tokenizer.json").value();
  return *made;
}

// Says what it is told to, and remembers what it is asked.
class Scripted final : public Constraint {
 public:
  std::vector<int> force, refuse, seen;
  int replace_from = -1, replace_by = -1, mask_token = -1, end_at = -1;
  size_t fits = 100;
  Ending ending = Ending::stop, room = Ending::none;

  std::span<const int> forced() const override { return force; }
  bool masks() const override { return mask_token >= 0; }
  void mask(std::span<float> logits) override { logits[static_cast<size_t>(mask_token)] = -INFINITY; }
  bool allows(int token) const override {
    return std::find(refuse.begin(), refuse.end(), token) == refuse.end();
  }
  int decide(int drawn) override { return drawn == replace_from ? replace_by : drawn; }
  size_t fitting(std::span<const int> draft) override { return std::min(fits, draft.size()); }
  Ending accept(int token, Ending before) override {
    seen.push_back(token);
    return token == end_at ? ending : before;
  }
  Ending out_of_room(Ending before) override { return room == Ending::none ? before : room; }
};

struct Two {
  ConstraintList list;
  Scripted *first, *second;
  Two() {
    auto a = std::make_unique<Scripted>(), b = std::make_unique<Scripted>();
    first = a.get(), second = b.get();
    list.add(std::move(a)), list.add(std::move(b));
  }
};

TEST(ConstraintList, AsksInOrder) {
  Two two;
  EXPECT_TRUE(two.list.forced().empty());
  two.second->force = {7};
  EXPECT_EQ(two.list.forced()[0], 7);
  two.first->force = {3, 4};
  EXPECT_EQ(two.list.forced()[0], 3) << "the first that forces something decides";
  two.first->replace_from = 1, two.first->replace_by = 2;
  two.second->replace_from = 2, two.second->replace_by = 5;
  EXPECT_EQ(two.list.decide(1), 5) << "each sees what the one before decided";
  two.first->refuse = {8}, two.second->refuse = {9};
  EXPECT_FALSE(two.list.allows(8));
  EXPECT_FALSE(two.list.allows(9));
  EXPECT_TRUE(two.list.allows(10));
}

TEST(ConstraintList, OnlyThoseThatMaskAreAskedTo) {
  Two two;
  EXPECT_FALSE(two.list.masks());
  two.second->mask_token = 1;
  EXPECT_TRUE(two.list.masks());
  std::vector<float> logits(3, 0.0f);
  two.list.mask(logits);
  EXPECT_EQ(logits, (std::vector<float>{0, -INFINITY, 0}));
}

TEST(ConstraintList, ADraftIsAsLongAsAllFind) {
  Two two;
  const std::vector<int> draft = {1, 2, 3, 4, 5};
  EXPECT_EQ(two.list.fitting(draft), 5u);
  two.first->fits = 4, two.second->fits = 2;
  EXPECT_EQ(two.list.fitting(draft), 2u);
  EXPECT_TRUE(two.first->seen.empty() && two.second->seen.empty()) << "nothing was accepted";
}

TEST(ConstraintList, EachHearsEveryTokenAndTheLastWordCounts) {
  Two two;
  two.first->end_at = 2, two.first->ending = Ending::length;
  EXPECT_EQ(two.list.accept(1), Ending::none);
  EXPECT_EQ(two.list.accept(2), Ending::length);
  two.second->end_at = 2, two.second->ending = Ending::stop;
  EXPECT_EQ(two.list.accept(2), Ending::stop) << "a later one overrules";
  EXPECT_EQ(two.first->seen, (std::vector<int>{1, 2, 2}));
  EXPECT_EQ(two.second->seen, two.first->seen);
  EXPECT_EQ(two.list.out_of_room(), Ending::length);
  two.second->room = Ending::stop;
  EXPECT_EQ(two.list.out_of_room(), Ending::stop);
}

TEST(TurnEnd, EndsAtItsTokensOnly) {
  const std::vector<int> ends = {5, 9};
  TurnEnd end(ends);
  EXPECT_EQ(end.accept(6, Ending::none), Ending::none);
  EXPECT_EQ(end.accept(6, Ending::length), Ending::length);
  EXPECT_EQ(end.accept(9, Ending::length), Ending::stop);
}

std::vector<int> tokens_of(const std::string& text) {
  return tokenizer().encode(text, false);
}

TEST(MinTokens, WhatWouldEndItIsNotSampledBefore) {
  MinTokens least(2, {5, 1}, nullptr);
  for (int i = 0; i < 2; i++) {
    EXPECT_TRUE(least.masks());
    std::vector<float> logits = {0, 1, 2, 3, 4, 5, 6};
    least.mask(logits);
    for (size_t id = 0; id < logits.size(); id++) EXPECT_EQ(std::isinf(logits[id]), id == 1 || id == 5) << id;
    // A form that is complete has no other token.
    std::vector<float> complete(7, -INFINITY);
    complete[1] = 3;
    least.mask(complete);
    EXPECT_EQ(complete[1], 3);
    EXPECT_EQ(least.accept(0, Ending::length), Ending::length);
  }
  EXPECT_FALSE(least.masks());
}

TEST(MinTokens, ThoughtsDoNotCountBesideAnAnswer) {
  const ThinkTokens tokens{.open = 1, .close = 2};
  ThinkControl thinking(tokens, {.open = true, .closing = {2}});
  MinTokens answer(1, {9}, &thinking), all(1, {9}, nullptr);
  for (const int token : {7, 8, 2}) {
    thinking.accept(token);
    answer.accept(token, Ending::none);
    all.accept(token, Ending::none);
    EXPECT_TRUE(answer.masks());
    EXPECT_FALSE(all.masks());
  }
  thinking.accept(7);
  EXPECT_FALSE(answer.masks());
}

TEST(StopText, EndsWhereTheStringIsWhole) {
  StopText stop(tokenizer(), {"river bank"}, {});
  const auto tokens = tokens_of("By the river bank we sat");
  std::vector<Ending> endings;
  for (const int token : tokens) endings.push_back(stop.accept(token, Ending::none));
  const auto first = std::find(endings.begin(), endings.end(), Ending::stop);
  ASSERT_NE(first, endings.end());
  const auto until = std::span(tokens).first(static_cast<size_t>(first - endings.begin()) + 1);
  EXPECT_EQ(tokenizer().decode(until, false), "By the river bank");
}

TEST(StopText, AStringThatWaitedForALongerOneEndsWhenThereIsNoRoom) {
  StopText stop(tokenizer(), {"river", "river bank of the Thames"}, {});
  Ending ending = Ending::none;
  for (const int token : tokens_of("By the river")) ending = stop.accept(token, ending);
  EXPECT_EQ(stop.out_of_room(Ending::length), Ending::stop);
  StopText none(tokenizer(), {"lake"}, {});
  for (const int token : tokens_of("By the river")) EXPECT_EQ(none.accept(token, Ending::none), Ending::none);
  EXPECT_EQ(none.out_of_room(Ending::length), Ending::length);
}

// A grammar after thinking control, as in a sequence: "<think>" is 1, "</think>" 2, a blank 3; 4 and 5 are
// text.
class GrammarInAnswer : public ::testing::Test {
 protected:
  GrammarInAnswer()
      : compiler_({{"", "", "", " ", "a", "b"}, {0}}),
        tokens_{.open = 1, .close = 2, .ends = {0}, .blanks = {3}, .traits = traits_} {}
  void start(bool thinking, bool blanks_before = false) {
    ThinkRules rules;
    rules.open = thinking;
    rules.blanks_before = blanks_before;
    rules.closing = {2};
    auto control = std::make_unique<ThinkControl>(tokens_, rules);
    control_ = control.get();
    list_ = {};
    list_.add(std::move(control));
    auto grammar =
        std::make_unique<AnswerGrammar>(compiler_.compile("root ::= \"ab\"").value(), tokens_, *control_);
    grammar_ = grammar.get();
    list_.add(std::move(grammar));
    list_.add(std::make_unique<TurnEnd>(tokens_.ends));
  }
  std::vector<bool> allowed() {
    std::vector<float> logits(6, 1.0f);
    list_.mask(logits);
    std::vector<bool> out;
    for (const float logit : logits) out.push_back(std::isfinite(logit));
    return out;
  }
  GrammarCompiler compiler_;
  std::vector<uint8_t> traits_ = std::vector<uint8_t>(6);
  ThinkTokens tokens_;
  ConstraintList list_;
  ThinkControl* control_ = nullptr;
  AnswerGrammar* grammar_ = nullptr;
};

TEST_F(GrammarInAnswer, ThoughtsAreFreeAndTheAnswerIsNot) {
  start(true);
  EXPECT_EQ(allowed(), std::vector<bool>(6, true)) << "within the thought";
  for (const int token : {5, 5, 4}) EXPECT_EQ(list_.accept(token), Ending::none);
  EXPECT_EQ(list_.accept(2), Ending::none);
  EXPECT_TRUE(allowed()[4] && allowed()[3]) << "the answer, or the blank behind the thought";
  EXPECT_FALSE(allowed()[5]);
  EXPECT_EQ(list_.accept(4), Ending::none);
  EXPECT_EQ(allowed(), (std::vector<bool>{false, false, false, false, false, true}));
  EXPECT_EQ(list_.accept(5), Ending::none);
  EXPECT_TRUE(grammar_->complete());
  EXPECT_EQ(list_.accept(0), Ending::stop);
}

TEST_F(GrammarInAnswer, AThoughtMayComeBehindWhiteSpace) {
  start(false, true);
  EXPECT_EQ(allowed(), (std::vector<bool>{false, true, false, true, true, false}));
  EXPECT_EQ(list_.accept(3), Ending::none);
  EXPECT_EQ(allowed(), (std::vector<bool>{false, true, false, true, true, false}));
  EXPECT_EQ(list_.accept(1), Ending::none);
  EXPECT_EQ(allowed(), std::vector<bool>(6, true)) << "within the thought";
  for (const int token : {5, 2, 3, 4, 5}) EXPECT_EQ(list_.accept(token), Ending::none);
  EXPECT_EQ(list_.accept(0), Ending::stop);
  start(false);
  EXPECT_FALSE(allowed()[3]) << "in other formats";
}

TEST_F(GrammarInAnswer, ADraftIsCutWhereItLeavesTheGrammar) {
  start(false);
  EXPECT_EQ(list_.fitting(std::vector<int>{4, 5, 0}), 3u);
  EXPECT_EQ(list_.fitting(std::vector<int>{4, 4, 5}), 1u);
  EXPECT_EQ(list_.fitting(std::vector<int>{5}), 0u);
  start(true);
  EXPECT_EQ(list_.fitting(std::vector<int>{5, 5, 2, 5}), 4u) << "where the answer begins is not known yet";
}

TEST_F(GrammarInAnswer, AnEndInTheMiddleOfItIsACut) {
  start(false);
  EXPECT_EQ(list_.accept(4), Ending::none);
  EXPECT_EQ(grammar_->accept(4, Ending::none), Ending::none)
      << "a token that the control has not seen is no answer's";
  EXPECT_FALSE(grammar_->complete());
  EXPECT_EQ(grammar_->accept(4, Ending::stop), Ending::length);
}

// What a step does with an accepted draft: it stops at the token that ends the sequence.
TEST(ConstraintList, AnEndInsideADraftLeavesTheRest) {
  const std::vector<int> ends = {9};
  ConstraintList list;
  list.add(std::make_unique<TurnEnd>(ends));
  const std::vector<int> draft = {1, 2, 9, 3};
  std::vector<int> taken;
  Ending ending = Ending::none;
  for (size_t i = 0; i < draft.size() && ending == Ending::none; i++) {
    taken.push_back(draft[i]);
    ending = list.accept(draft[i]);
  }
  EXPECT_EQ(taken, (std::vector<int>{1, 2, 9}));
  EXPECT_EQ(ending, Ending::stop);
}

}  // namespace
}  // namespace anabranch
