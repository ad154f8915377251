// What a request and the server's flags say of thinking, and answers and thoughts that go on.
#include "chat/thinking.h"

#include <gtest/gtest.h>

#include <climits>

#include "base/mapped_file.h"
#include "chat/continuation.h"

namespace anabranch {
namespace {

const Tokenizer& model_tokenizer() {
  static const auto made = Tokenizer::from_file(ANABRANCH_SOURCE_DIR "/models/hybrid-146m/tokenizer.json");
  CHECK(made.ok(), "{}", made.error().message);
  return **made;
}

// A budget of none by default is no word on requests that ask for thoughts.
TEST(ThinkingWish, RequestsBeatTheDefaults) {
  const struct {
    std::optional<ThinkMode> mode;
    std::optional<int> budget, default_budget;
    std::optional<ThinkMode> default_mode;
    std::optional<int> want_budget;
    std::optional<ThinkMode> want_mode;
  } cases[] = {
      {ThinkMode::on, {}, 0, ThinkMode::off, {}, ThinkMode::on},
      {ThinkMode::on, {}, 100, ThinkMode::off, 100, ThinkMode::on},
      {ThinkMode::on, 50, 0, ThinkMode::off, 50, ThinkMode::on},
      {ThinkMode::on, 0, 100, {}, 0, ThinkMode::on},
      {ThinkMode::automatic, {}, 0, ThinkMode::on, 0, ThinkMode::automatic},
      {ThinkMode::off, {}, 0, ThinkMode::on, 0, ThinkMode::off},
      {{}, {}, 0, ThinkMode::off, 0, ThinkMode::off},
      {{}, {}, 0, {}, 0, {}},
      {{}, 7, {}, ThinkMode::on, 7, ThinkMode::on},
      {{}, {}, {}, {}, {}, {}},
  };
  for (const auto& c : cases) {
    ThinkingWish wish, defaults;
    wish.mode = c.mode;
    wish.budget = c.budget;
    defaults.mode = c.default_mode;
    defaults.budget = c.default_budget;
    const ThinkingWish got = complete(wish, defaults);
    EXPECT_EQ(got.budget, c.want_budget);
    EXPECT_EQ(got.mode, c.want_mode);
  }
}

// Of a bound on all tokens, a quarter is the answer's, and the closing text has its own length.
TEST(ThinkingWish, ABoundWithoutRoomTurnsThinkingOff) {
  const ReasoningTags tags;
  const Tokenizer& tokenizer = model_tokenizer();
  const auto mode = [&](int bound, std::optional<ThinkMode> wished, bool json = false) {
    return within_bound({wished, {}, "", "the client"}, bound, tokenizer, tags, {.json = json, .stop = {}})
        .mode;
  };
  for (const bool json : {false, true}) {
    const char* sentence = json ? "\n\nThat is enough thought. The answer is JSON and nothing else.\n" : "";
    const size_t closing = closing_tokens(tokenizer, sentence, tags, false).size();
    int bound = 1;
    while (bound - (bound + 3) / 4 <= static_cast<int>(closing)) bound++;
    EXPECT_EQ(mode(bound, ThinkMode::on, json), ThinkMode::on) << bound;
    EXPECT_EQ(mode(bound, {}, json), std::nullopt);
    for (const int small : {1, 2, bound - 1})
      EXPECT_EQ(mode(small, ThinkMode::on, json), ThinkMode::off) << small;
    EXPECT_EQ(mode(bound - 1, {}, json), ThinkMode::off);
  }
  EXPECT_EQ(mode(INT_MAX, ThinkMode::on), ThinkMode::on);
  EXPECT_EQ(within_bound({ThinkMode::off, {}, "", "the client"}, 1, tokenizer, tags, {.stop = {}}).said_by,
            "the client");
  EXPECT_EQ(within_bound({ThinkMode::on, {}, "", ""}, 1, tokenizer, std::nullopt, {.stop = {}}).mode,
            ThinkMode::on)
      << "a model without thoughts";
}

// A start of the answer that has a stop string in it, also over its parts, would end the answer.
TEST(ThinkingWish, LevelsForTheTemplate) {
  const ReasoningTags messages{.turn = "<|start|>assistant"};
  const std::pair<const char*, const char*> levels[] = {
      {"none", "low"},  {"minimal", "low"}, {"low", "low"}, {"medium", "medium"},
      {"high", "high"}, {"xhigh", "high"},  {"max", "high"}};
  for (const auto& [level, known] : levels) {
    EXPECT_EQ(known_effort(level, messages), known);
    EXPECT_EQ(known_effort(level, ReasoningTags()), level);
    EXPECT_EQ(known_effort(level, std::nullopt), level);
  }
}

TEST(ThinkOptions, AStopStringTakesTheAnswersStartAway) {
  const ChosenPrompt chosen;
  const auto options = [&](const std::vector<std::string>& stop,
                           const char* user = "Write a Python function.") {
    return think_options({}, chosen, {.user = user, .stop = stop});
  };
  EXPECT_EQ(options({}).answer_start, "```python\n");
  EXPECT_EQ(options({"END"}).answer_start, "```python\n");
  for (const char* stop : {"```", "python", "`p", "n\n", "\n", "```python\n"})
    EXPECT_EQ(options({"END", stop}).answer_start, "") << stop;
  EXPECT_EQ(options({}, "Return JSON with the key a.").answer_fence, "```json");
  for (const char* stop : {"```", "json\n"})
    EXPECT_EQ(options({stop}, "Return JSON with the key a.").answer_fence, "") << stop;
}

// The prompt's text behind what the template writes, when the template opens a thought and when it does not.
std::string prompt_going_on(const Continuation& continuation, const std::string& opening, bool& open,
                            int& begun) {
  const auto chat =
      ChatTemplate::parse("{{ messages[0].content }}<|im_start|>assistant\n" + opening + "{{ '' }}", "", "");
  CHECK(chat.ok(), "{}", chat.error().message);
  PromptCompiler compiler(**chat, model_tokenizer());
  const Json messages = Json::array({{{"role", "user"}, {"content", "Hi"}}});
  const CompilePrompt compile = [&](std::optional<bool>) { return compiler.compile(messages, nullptr, {}); };
  EncodeLimit limit(10'000, nullptr);
  const auto chosen = continue_prompt(continuation, ReasoningTags(), model_tokenizer(), compile, limit);
  if (!chosen.ok()) return "error: " + chosen.error().message;
  open = chosen->open;
  begun = chosen->begun;
  return model_tokenizer().decode(chosen->prompt.tokens, false);
}

TEST(ContinuedPrompt, ThoughtsAreOpenedAndClosedOnce) {
  const std::string head = "Hi<|im_start|>assistant\n", tag = "<think>\n";
  const struct {
    const char *content, *reasoning;
    std::string opening, want;
    bool open;
  } cases[] = {
      {"", "Hm", "", head + tag + "Hm", true},
      {"", "Hm", tag, head + tag + "Hm", true},
      {"Yes", "Hm", "", head + tag + "Hm\n</think>\n\nYes", false},
      {"Yes", "Hm", tag, head + tag + "Hm\n</think>\n\nYes", false},
      {"Yes", "", "", head + "Yes", false},
      {"Yes", "", tag, head + tag + "</think>\n\nYes", false},
      // What the client sent opens and closes nothing.
      {"<think>Yes", "", "", head + "<think>Yes", false},
      {"", "Hm</think>", "", head + tag + "Hm</think>", true},
  };
  for (const auto& c : cases) {
    bool open = false;
    int begun = 0;
    EXPECT_EQ(prompt_going_on({c.content, c.reasoning}, c.opening, open, begun), c.want);
    EXPECT_EQ(open, c.open) << c.want;
    const auto content = model_tokenizer().encode(std::vector<PromptPiece>{{c.content, false}});
    EXPECT_EQ(begun, static_cast<int>(content.size())) << c.want;
  }
}

// A turn that holds an image's token cannot stand among the pictures of the messages.
TEST(KnownTurns, WithAnImagesTokenAreLeftOut) {
  const auto chat = ChatTemplate::parse(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}", "", "");
  ASSERT_TRUE(chat.ok());
  ImageFormat format;
  format.written = format.in_prompt = "<image>";
  format.pad = 500;
  PromptCompiler compiler(**chat, model_tokenizer(), &format);
  const Json messages = Json::array({{{"role", "user"}, {"content", "Hi"}},
                                     {{"role", "assistant"}, {"content", "Hello"}},
                                     {{"role", "user"}, {"content", "And?"}}});
  const auto with = [&](const std::vector<int>& tokens) {
    const auto got = compiler.compile(messages, nullptr, {}, {}, std::vector<KnownTurn>{{1, tokens}});
    EXPECT_TRUE(got.ok());
    return got.ok() ? got->tokens : std::vector<int>();
  };
  const auto plain = compiler.compile(messages, nullptr, {})->tokens;
  EXPECT_EQ(with({301, 500, 302}), plain);
  EXPECT_NE(with({301, 302}), plain);
}

}  // namespace
}  // namespace anabranch
