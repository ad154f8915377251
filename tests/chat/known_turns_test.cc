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

}  // namespace
}  // namespace anabranch
