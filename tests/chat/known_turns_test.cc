// Turns whose tokens are known stand where the template writes them, and say what the client sent.
#include <gtest/gtest.h>

#include "chat/replay.h"
#include "output/output_format.h"

namespace anabranch {
namespace {

const Tokenizer& known_turns_tokenizer() {
  static const auto made = Tokenizer::from_file(ANABRANCH_SOURCE_DIR "/models/hybrid-146m/tokenizer.json");
  CHECK(made.ok(), "{}", made.error().message);
  return **made;
}

// Each turn is known by its place in the list, so in another order none is put in.
TEST(KnownTurnsOrder, TemplatesThatWriteThemInAnotherOrderGetNone) {
  const Json messages = Json::array({{{"role", "user"}, {"content", "A"}},
                                     {{"role", "assistant"}, {"content", "B"}},
                                     {{"role", "user"}, {"content", "C"}},
                                     {{"role", "assistant"}, {"content", "D"}}});
  const std::vector<KnownTurn> turns = {{1, {301, 302}}, {3, {303, 304}}};
  for (const bool reversed : {false, true}) {
    const auto chat =
        ChatTemplate::parse("{% for m in messages" + std::string(reversed ? "[::-1]" : "") +
                                " %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}",
                            "", "");
    ASSERT_TRUE(chat.ok()) << chat.error().message;
    PromptCompiler compiler(**chat, known_turns_tokenizer());
    const auto with = compiler.compile(messages, nullptr, {}, {}, turns);
    ASSERT_TRUE(with.ok()) << with.error().message;
    EXPECT_EQ(with->tokens == compiler.compile(messages, nullptr, {})->tokens, reversed);
  }
}

// An entry under the right key may be another's, or damaged: its tokens are read before they are believed.
TEST(KnownTurnsReplay, TokensThatSayAnotherThingAreNotBelieved) {
  const Tokenizer& tokenizer = known_turns_tokenizer();
  OutputRules rules;
  rules.format = find_output_format(nullptr, tokenizer);
  const Json messages = Json::array(
      {{{"role", "user"}, {"content", "Where?"}}, {{"role", "assistant"}, {"content", "In Paris."}}});
  const uint64_t key = conversation_key(messages, "");
  const auto known = [&](const std::vector<int>& tokens) {
    TurnMemory memory("");
    memory.put(key, tokens);
    return known_turns(messages, "", rules, tokenizer, memory).size();
  };
  std::vector<int> letters;  // the same text in other tokens
  for (const char* letter : {"I", "n", " Paris", "."})
    for (const int id : tokenizer.encode(letter, false)) letters.push_back(id);
  EXPECT_EQ(known(letters), 1u);
  EXPECT_EQ(known(tokenizer.encode("In Rome.", false)), 0u);
  EXPECT_EQ(known(tokenizer.encode("In Paris. Or not.", false)), 0u);
  EXPECT_EQ(known({tokenizer.vocab_size()}), 0u);
  EXPECT_EQ(known({-1}), 0u);
  std::vector<int> hidden = letters;
  hidden.push_back(*tokenizer.find("<|im_start|>"));
  EXPECT_EQ(known(hidden), 0u);
}

// A template in the form of Qwen3.6: thoughts of earlier turns only with preserve_thinking.
constexpr const char* kPreserving =
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and preserve_thinking %}<think>\n{{ m.reasoning_content | default('') | "
    "trim }}"
    "\n</think>\n\n{% endif %}{{ m.content | trim }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}";

struct ThoughtTurn {
  const Tokenizer& tokenizer = known_turns_tokenizer();
  OutputRules rules;
  Json messages = Json::array({{{"role", "user"}, {"content", "Where?"}}});
  std::vector<int> sampled;
  TurnMemory memory{""};

  ThoughtTurn() {
    rules.format = find_output_format(nullptr, tokenizer);
    rules.format.reasoning = ReasoningTags{"<think>", "</think>"};
    rules.thinking_open = true;
    // The same text in other tokens than those of the tokenizer.
    for (const char* part : {"He", "re", "?", "\n", "</think>", "\n", "\n", "I", "n", " Paris", "."})
      for (const int id : tokenizer.encode(part, true)) sampled.push_back(id);
  }
  std::vector<uint64_t> remember(bool thoughts) {
    std::vector<int> whole = sampled;
    whole.push_back(*tokenizer.find("<|im_end|>"));
    return remember_turn(whole, TurnEndReason::end_of_turn, conversation_key(messages, ""), rules, tokenizer,
                         memory, thoughts);
  }
  // Where the answer begins.
  size_t answer() const {
    const auto close = std::ranges::find(sampled, *tokenizer.find("</think>"));
    return static_cast<size_t>(close - sampled.begin()) + 3;
  }
  std::vector<KnownTurn> known(const std::string& content, const std::string& reasoning, bool thoughts) {
    Json sent = messages;
    sent.push_back({{"role", "assistant"}, {"content", content}});
    if (!reasoning.empty()) sent.back()["reasoning_content"] = reasoning;
    return known_turns(sent, "", rules, tokenizer, memory, thoughts);
  }
};

TEST(KnownTurnsThought, IsRestoredWhereTheClientLeftItOutOrSendsTheSame) {
  ThoughtTurn turn;
  EXPECT_EQ(turn.remember(true).size(), 3u);
  for (const char* sent : {"", "Here?", " Here?\n"})
    for (const bool left_out : {true, false}) {
      const auto known = turn.known("In Paris.", sent, left_out);
      ASSERT_EQ(known.size(), 1u) << sent;
      const bool whole = left_out || *sent;
      EXPECT_EQ(known[0].answer, whole ? turn.answer() : 0u);
      EXPECT_EQ(known[0].tokens,
                std::vector<int>(turn.sampled.begin() + (whole ? 0 : static_cast<long>(turn.answer())),
                                 turn.sampled.end()));
    }
}

TEST(KnownTurnsThought, IsNotRestoredForAnotherThoughtTextOrWish) {
  ThoughtTurn turn;
  turn.remember(true);
  const auto thought = [](const std::vector<KnownTurn>& known) {
    return !known.empty() && known[0].answer > 0;
  };
  EXPECT_FALSE(thought(turn.known("In Paris.", "Where else?", true)));
  EXPECT_FALSE(thought(turn.known("In Paris.", "Where else?", false)));
  EXPECT_FALSE(thought(turn.known("In Rome.", "", true)));
  EXPECT_FALSE(thought(turn.known("In Rome.", "Here?", false)));
  EXPECT_FALSE(thought(turn.known("In Paris.", "", false)));
  ThoughtTurn without;
  without.rules.thinking_open = false;
  EXPECT_EQ(without.remember(true).size(), 1u);
  EXPECT_FALSE(thought(without.known("In Paris.", "", true)));
}

// Without `thoughts` a turn is remembered for messages with its reasoning alone.
TEST(KnownTurnsThought, DifferentThoughtsBeforeTheSameAnswerAreAllKnown) {
  ThoughtTurn turn;
  const auto first = turn.sampled;
  EXPECT_EQ(turn.remember(false).size(), 2u);
  turn.sampled.erase(turn.sampled.begin());
  turn.remember(false);
  const auto second = turn.sampled;
  ASSERT_EQ(turn.known("In Paris.", "Here?", false).size(), 1u);
  EXPECT_EQ(turn.known("In Paris.", "Here?", false)[0].tokens, first);
  EXPECT_EQ(turn.known("In Paris.", "re?", false)[0].tokens, second);
  EXPECT_EQ(turn.known("In Paris.", "", true)[0].answer, 0u);
}

// As with answers, endless white space within a thought or an answer does not come again.
TEST(KnownTurnsThought, IsNotRestoredWithMuchThatNobodySees) {
  for (const bool in_answer : {false, true}) {
    ThoughtTurn turn;
    const auto blanks = turn.tokenizer.encode("\n", true);
    const auto at = in_answer ? turn.sampled.end() : turn.sampled.begin() + 3;
    std::vector<int> many;
    for (int i = 0; i < 200; i++) many.insert(many.end(), blanks.begin(), blanks.end());
    turn.sampled.insert(at, many.begin(), many.end());
    EXPECT_EQ(turn.remember(true).size(), in_answer ? 0u : 1u);
    for (const KnownTurn& known : turn.known("In Paris.", "Here?", true))
      EXPECT_EQ(known.answer, 0u) << in_answer;
  }
}

// A damaged record under the right key, too, says something else than the client.
TEST(KnownTurnsThought, IsNotRestoredWithAnotherAnswer) {
  ThoughtTurn turn;
  const uint64_t key = turn.remember(true).at(0);
  for (const char* answer : {"In Rome.", "In Paris. Or not.", ""}) {
    std::vector<int> other;
    for (const char* part : {"Here?\n", "</think>", "\n\n", answer})
      for (const int id : turn.tokenizer.encode(part, true)) other.push_back(id);
    turn.memory.forget({{key}});
    turn.memory.put(key, other);
    const auto known = turn.known("In Paris.", "", true);
    EXPECT_FALSE(!known.empty() && known[0].answer > 0) << answer;
  }
}

TEST(KnownTurnsThought, IsNotRestoredWithAnotherThought) {
  ThoughtTurn turn;
  const uint64_t key = turn.remember(true).at(1);
  std::vector<int> other;
  for (const char* part : {"There?\n", "</think>", "\n\n", "In Paris."})
    for (const int id : turn.tokenizer.encode(part, true)) other.push_back(id);
  for (const bool same : {true, false}) {
    turn.memory.forget({{key}});
    turn.memory.put(key, same ? turn.sampled : other);
    const auto known = turn.known("In Paris.", "Here?", true);
    EXPECT_EQ(!known.empty() && known[0].answer > 0, same);
  }
}

TEST(KnownTurnsThought, StandsInThePromptAsItWasSampled) {
  ThoughtTurn turn;
  const auto chat = ChatTemplate::parse(kPreserving, "", "");
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  PromptCompiler compiler(**chat, turn.tokenizer);
  TemplateOptions options;
  options.extra = {{"preserve_thinking", true}};
  auto expected = compiler.compile(turn.messages, nullptr, options)->tokens;
  expected.insert(expected.end(), turn.sampled.begin(), turn.sampled.end());
  Json messages = turn.messages;
  messages.push_back({{"role", "assistant"}, {"content", "In Paris."}});
  messages.push_back({{"role", "user"}, {"content", "Since when?"}});
  const std::vector<KnownTurn> known = {{1, turn.sampled, turn.answer()}};
  const auto next = compiler.compile(messages, nullptr, options, {}, known);
  ASSERT_TRUE(next.ok()) << next.error().message;
  ASSERT_GT(next->tokens.size(), expected.size());
  EXPECT_EQ(std::vector(next->tokens.begin(), next->tokens.begin() + std::ssize(expected)), expected);
  // A template that drops the thought gets the answer's tokens.
  options.extra = {{"preserve_thinking", false}};
  const std::vector<KnownTurn> answer = {
      {1, {turn.sampled.begin() + static_cast<long>(turn.answer()), turn.sampled.end()}}};
  const auto dropped = compiler.compile(messages, nullptr, options, {}, known)->tokens;
  EXPECT_EQ(dropped, compiler.compile(messages, nullptr, options, {}, answer)->tokens);
  EXPECT_NE(dropped, compiler.compile(messages, nullptr, options)->tokens);
}

// Thoughts of earlier turns are dropped, and those since the last question are kept, as in Qwen3.5's
// template.
TEST(KnownTurnsThought, ChainsOfCallsKeepTheirs) {
  const ThoughtTurn turn;
  const auto chat = ChatTemplate::parse(
      "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = "
      "loop.index0 %}{% endif %}{% endfor %}"
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' and loop.index0 > "
      "ns.last %}<think>\n"
      "{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}",
      "", "");
  ASSERT_TRUE(chat.ok()) << chat.error().message;
  PromptCompiler compiler(**chat, turn.tokenizer);
  const Json said = {{"role", "assistant"}, {"content", "In Paris."}, {"reasoning_content", "Here?"}};
  const Json messages = {turn.messages[0],
                         said,
                         {{"role", "user"}, {"content", "Since when?"}},
                         said,
                         {{"role", "tool"}, {"content", "1889"}}};
  const std::vector<KnownTurn> known = {{1, turn.sampled, turn.answer()}, {3, turn.sampled, turn.answer()}};
  const auto tokens = compiler.compile(messages, nullptr, {}, {}, known)->tokens;
  const auto count = [&](auto begin) {
    const std::vector<int> part(begin, turn.sampled.end());
    size_t found = 0;
    for (auto at = tokens.begin();
         (at = std::search(at, tokens.end(), part.begin(), part.end())) != tokens.end(); ++at)
      ++found;
    return found;
  };
  EXPECT_EQ(count(turn.sampled.begin()), 1u);
  EXPECT_EQ(count(turn.sampled.begin() + static_cast<long>(turn.answer())), 2u);
  // A template that writes a thought twice gets the answers alone.
  const auto twice = ChatTemplate::parse(
      "{% for m in messages %}<|im_start|>{{ m.reasoning_content }}{{ m.reasoning_content }}\n\n{{ m.content "
      "}}<|im_end|>{% endfor %}",
      "", "");
  PromptCompiler other(**twice, turn.tokenizer);
  EXPECT_NE(other.compile(messages, nullptr, {}, {}, known)->tokens,
            other.compile(messages, nullptr, {})->tokens);
}

}  // namespace
}  // namespace anabranch
