#include "chat/prompt_compiler.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/mapped_file.h"

namespace anabranch {
namespace {

std::string file_text(const std::string& path) {
  Result<std::string> text = read_file(path, 16u << 20);
  CHECK(text.ok(), "{}", text.error().message);
  return *text;
}

const Tokenizer& tokenizer() {
  static const auto made = Tokenizer::from_file(ANABRANCH_SOURCE_DIR "/models/hybrid-146m/tokenizer.json");
  CHECK(made.ok(), "{}", made.error().message);
  return **made;
}

std::shared_ptr<const ChatTemplate> parse(const std::string& source) {
  auto parsed = ChatTemplate::parse(source, "<s>", "</s>");
  CHECK(parsed.ok(), "{}", parsed.error().message);
  return *parsed;
}

std::string lengthy(const std::string& word, int times) {
  std::string text;
  for (int i = 0; i < times; i++) text += word + " " + std::to_string(i) + ", ";
  return text;
}

Json tools(const std::string& word) {
  Json list = Json::array();
  for (int i = 0; i < 5; i++)
    list.push_back({{"type", "function"},
                    {"function",
                     {{"name", word + std::to_string(i)},
                      {"description", lengthy(word, 20)},
                      {"parameters", {{"type", "object"}, {"properties", Json::object()}}}}}});
  return list;
}

struct Case {
  Json messages, tools;
  TemplateOptions options;
};

std::vector<Case> cases() {
  const auto say = [](const char* role, const std::string& text) {
    return Json{{"role", role}, {"content", text}};
  };
  const Json system = say("system", lengthy("rule", 60)), first = say("user", lengthy("why", 50));
  const Json answer = say("assistant", lengthy("because", 50)), second = say("user", "And then?");
  TemplateOptions plain, thinking, closed;
  thinking.enable_thinking = true;
  closed.add_generation_prompt = false;
  return {{{first}, nullptr, plain},
          {{system, first}, nullptr, plain},
          {{system, first}, tools("read"), plain},
          {{system, first}, tools("write"), plain},
          {{system, first, answer, second}, tools("read"), plain},
          {{system, first, answer, second}, tools("read"), thinking},
          {{say("system", lengthy("rule", 59)), second}, nullptr, thinking},
          {{first, answer, second}, nullptr, closed},
          {{first, answer, second}, nullptr, plain}};
}

// Whatever was compiled before, and however often, a prompt has the tokens that it has alone.
TEST(PromptCompiler, RemembersNothingThatChangesAPrompt) {
  const std::filesystem::path folder(ANABRANCH_SOURCE_DIR "/tests/jinja/data/templates");
  int compiled = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    SCOPED_TRACE(file.path().filename().string());
    const auto chat = parse(file_text(file.path()));
    PromptCompiler all(*chat, tokenizer());
    for (int round = 0; round < 2; round++)
      for (const Case& c : cases()) {
        TemplateOptions options = c.options;
        options.now = 1'000'000;
        const auto pieces = chat->render(c.messages, c.tools, options);
        const auto got = all.compile(c.messages, c.tools, options);
        ASSERT_EQ(pieces.ok(), got.ok());
        if (!got.ok()) continue;
        compiled++;
        EXPECT_EQ(got->tokens, tokenizer().encode(std::span<const PromptPiece>(*pieces)));
        const auto alone = PromptCompiler(*chat, tokenizer()).compile(c.messages, c.tools, options);
        EXPECT_EQ(got->stable_lengths, alone->stable_lengths);
      }
  }
  EXPECT_GT(compiled, 100);
}

TEST(PromptCompiler, FindsWherePromptsPart) {
  const auto chat = parse(file_text(ANABRANCH_SOURCE_DIR "/models/hybrid-146m/chat_template.jinja"));
  PromptCompiler compiler(*chat, tokenizer());
  const Case c = cases()[2];
  const auto got = compiler.compile(c.messages, c.tools, c.options);
  ASSERT_TRUE(got.ok());
  ASSERT_EQ(got->stable_lengths.size(), 2u);
  const auto text_of = [&](int from, int to) {
    return tokenizer().decode(std::span(got->tokens).subspan(from, to - from), false);
  };
  EXPECT_EQ(text_of(0, got->stable_lengths[0]).find("why"), std::string::npos);
  EXPECT_EQ(text_of(got->stable_lengths[0], got->stable_lengths[0] + 1), "why");
  EXPECT_EQ(
      text_of(got->stable_lengths[1], static_cast<int>(got->tokens.size())).find("<|im_start|>assistant"),
      0u);
}

// A mark's prefix ends between the text that is marked and the text behind it, whatever the template.
TEST(PromptCompiler, FindsTheEndOfWhatIsMarked) {
  Json messages = Json::array({{{"role", "system"}, {"content", "first rule\nsecond rule"}},
                               {{"role", "user"}, {"content", "apple pie"}},
                               {{"role", "assistant"}, {"content", "banana bread"}},
                               {{"role", "user"}, {"content", "cherry cake"}}});
  struct Marked {
    CacheMark mark;
    const char *before, *after;
  };
  using In = CacheMark::In;
  const Marked marked[] = {
      {{In::message, 0, 10}, "first rule", "second rule"}, {{In::message, 0}, "second rule", "apple"},
      {{In::message, 1}, "apple pie", "banana"},           {{In::message, 1, 5}, "apple", "pie"},
      {{In::message, 2, 12}, "banana bread", "cherry"},    {{In::message, 3}, "cherry cake", ""}};
  const std::filesystem::path folder(ANABRANCH_SOURCE_DIR "/tests/jinja/data/templates");
  int found = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().filename() == "constructs.jinja") continue;  // it is no model's
    SCOPED_TRACE(file.path().filename().string());
    const auto chat = parse(file_text(file.path()));
    PromptCompiler compiler(*chat, tokenizer());
    TemplateOptions options;
    options.now = 1'000'000;
    const auto plain = compiler.compile(messages, nullptr, options);
    if (!plain.ok()) continue;
    EXPECT_TRUE(plain->marked.empty());
    const std::string text = tokenizer().decode(plain->tokens, false);
    for (const auto& [mark, before, after] : marked) {
      const auto got = compiler.compile(messages, nullptr, options, {}, {}, nullptr, {}, std::span(&mark, 1));
      ASSERT_TRUE(got.ok());
      EXPECT_EQ(got->tokens, plain->tokens);
      // Some templates put the system prompt behind other messages.
      if (got->marked.empty() || text.find(after, text.find(before)) == text.npos) continue;
      const int length = got->marked[0].length;
      EXPECT_EQ(std::ranges::count(got->stable_lengths, length), 1);
      const std::span<const int> tokens = got->tokens;
      const std::string kept = tokenizer().decode(tokens.first(static_cast<size_t>(length)), false);
      const std::string rest = tokenizer().decode(tokens.subspan(static_cast<size_t>(length)), false);
      // The last token before the mark may be part of what follows.
      EXPECT_NE(kept.find(std::string(before).substr(0, 4)), kept.npos) << before;
      EXPECT_NE(rest.find(after), rest.npos) << after;
      found++;
    }
  }
  EXPECT_GT(found, 50);
}

TEST(PromptCompiler, AMarkEndsBeforeAKnownTurn) {
  const auto chat = parse(file_text(ANABRANCH_SOURCE_DIR "/models/hybrid-146m/chat_template.jinja"));
  PromptCompiler compiler(*chat, tokenizer());
  const Json messages = Json::array({{{"role", "user"}, {"content", "why"}},
                                     {{"role", "assistant"}, {"content", "banana"}},
                                     {{"role", "user"}, {"content", "how"}}});
  const std::vector<KnownTurn> turns{{1, tokenizer().encode("banana", false)}};
  const CacheMark mark{CacheMark::In::message, 0};
  const auto got = compiler.compile(messages, nullptr, {}, {}, turns, nullptr, {}, std::span(&mark, 1));
  ASSERT_EQ(got->marked.size(), 1u);
  const auto kept = std::span(got->tokens).first(static_cast<size_t>(got->marked[0].length));
  EXPECT_NE(tokenizer().decode(kept, false).find("why"), std::string::npos);
  EXPECT_EQ(tokenizer().decode(kept, false).find("banana"), std::string::npos);
}

TEST(PromptCompiler, FindsTheEndOfAMarkedTool) {
  const auto chat = parse(file_text(ANABRANCH_SOURCE_DIR "/models/hybrid-146m/chat_template.jinja"));
  PromptCompiler compiler(*chat, tokenizer());
  Json both = Json::array({tools("read")[0], tools("write")[0]});
  const Json messages = Json::array({{{"role", "user"}, {"content", "why"}}});
  const auto kept = [&](size_t index) -> std::string {
    const CacheMark mark{CacheMark::In::tools, index};
    const auto got = compiler.compile(messages, both, {}, {}, {}, nullptr, {}, std::span(&mark, 1));
    if (got->marked.empty()) return "";
    return tokenizer().decode(std::span(got->tokens).first(static_cast<size_t>(got->marked[0].length)),
                              false);
  };
  EXPECT_NE(kept(0).find("\"read0\""), std::string::npos);
  EXPECT_EQ(kept(0).find("\"write0\""), std::string::npos);
  EXPECT_NE(kept(1).find("\"write0\""), std::string::npos);
  EXPECT_EQ(kept(1).find("why"), std::string::npos);
  EXPECT_EQ(kept(2), "");
}

class CountingTemplate final : public ChatTemplate {
 public:
  explicit CountingTemplate(std::shared_ptr<const ChatTemplate> counted) : counted_(std::move(counted)) {}
  Result<std::vector<PromptPiece>> render(const Json& messages, const Json& tools,
                                          const TemplateOptions& options) const override {
    renderings++;
    return counted_->render(messages, tools, options);
  }
  bool mentions(std::string_view variable) const override { return counted_->mentions(variable); }
  mutable int renderings = 0;

 private:
  std::shared_ptr<const ChatTemplate> counted_;
};

TEST(PromptCompiler, NothingMoreIsRenderedForARequestThatWasCancelled) {
  CountingTemplate chat(parse(file_text(ANABRANCH_SOURCE_DIR "/models/hybrid-146m/chat_template.jinja")));
  const Case c = cases()[4];
  const auto whole = PromptCompiler(chat, tokenizer()).compile(c.messages, c.tools, c.options);
  ASSERT_TRUE(whole.ok());
  const int all = chat.renderings;
  ASSERT_EQ(all, 5);  // the prompt, two for the instructions, one without the last message, one not opened
  PromptCompiler compiler(chat, tokenizer());
  for (int last = 0; last < all; last++) {
    chat.renderings = 0;
    EncodeLimit limit(1 << 20, [&] { return chat.renderings >= last; });
    EXPECT_FALSE(compiler.compile(c.messages, c.tools, c.options, {}, {}, &limit).ok());
    EXPECT_TRUE(limit.cancelled());
    EXPECT_EQ(chat.renderings, last);
    if (last == 2) {  // nothing was learned of half the renderings
      const auto again = compiler.compile(c.messages, c.tools, c.options);
      ASSERT_TRUE(again.ok());
      EXPECT_EQ(again->stable_lengths, whole->stable_lengths);
      break;
    }
  }
  // The other renderings may be longer than the limit for the prompt.
  EncodeLimit exact(whole->tokens.size(), {});
  EXPECT_TRUE(PromptCompiler(chat, tokenizer()).compile(c.messages, c.tools, c.options, {}, {}, &exact).ok());
}

Json conversation_with_call() {
  return *parse_json(R"([{"role":"system","content":"Help."},{"role":"user","content":"Read a.txt"},
      {"role":"assistant","content":"","tool_calls":[{"id":"1","type":"function",
       "function":{"name":"read","arguments":"{\"path\": \"a.txt\"}"}}]},
      {"role":"tool","tool_call_id":"1","content":"text"},
      {"role":"assistant","content":"It says text."},{"role":"user","content":"Thanks"}])");
}

TEST(PromptCompiler, PutsKnownTokensInTheirPlace) {
  const auto chat = parse(file_text(ANABRANCH_SOURCE_DIR "/models/hybrid-146m/chat_template.jinja"));
  PromptCompiler compiler(*chat, tokenizer());
  const Json messages = conversation_with_call();
  // Letter by letter, which no tokeniser would make of it.
  std::vector<int> call = {*tokenizer().find("<tool_call>")}, answer;
  for (const char c : std::string("It says text."))
    answer.push_back(tokenizer().encode(std::string(1, c), false).at(0));
  call.push_back(answer[0]);
  const std::vector<KnownTurn> turns = {{2, call}, {4, answer}};
  const auto plain = compiler.compile(messages, nullptr, {});
  const auto got = compiler.compile(messages, nullptr, {}, {}, turns);
  ASSERT_TRUE(plain.ok() && got.ok());
  const auto place = [&](const std::vector<int>& part) {
    return std::search(got->tokens.begin(), got->tokens.end(), part.begin(), part.end()) -
           got->tokens.begin();
  };
  EXPECT_LT(place(call), place(answer));
  ASSERT_LT(place(answer), static_cast<long>(got->tokens.size()));
  // All around the turns is as it was.
  const std::string text = tokenizer().decode(got->tokens, false);
  std::string expected = tokenizer().decode(plain->tokens, false);
  const size_t from = expected.find("<tool_call>"), to = expected.find("<|im_end|>", from);
  expected.replace(from, to - from, "<tool_call>I");
  EXPECT_EQ(text, expected);
  EXPECT_EQ(got->stable_lengths.size(), 3u);
}

// A new question: the template writes the turns before it without their empty thoughts, and so they stand up
// to the question whatever it is.
TEST(PromptCompiler, FindsWhereTheLastMessageBegins) {
  const auto chat = parse(file_text(ANABRANCH_SOURCE_DIR "/models/hybrid-146m/chat_template.jinja"));
  PromptCompiler compiler(*chat, tokenizer());
  Json messages = conversation_with_call();
  for (const char* question : {"Thanks", "A, B or C?", "9", "And b.txt?"}) {
    messages.back()["content"] = question;
    const auto got = compiler.compile(messages, nullptr, {});
    ASSERT_TRUE(got.ok());
    ASSERT_EQ(got->stable_lengths.size(), 3u);
    const auto at = static_cast<size_t>(got->stable_lengths[1]);
    EXPECT_TRUE(tokenizer().decode(std::span(got->tokens).first(at), false).ends_with("<|im_start|>user\n"));
    EXPECT_TRUE(tokenizer().decode(std::span(got->tokens).subspan(at), false).starts_with(question));
  }
  // Of several results of calls the first.
  Json results = messages;
  results.erase(results.begin() + 4, results.end());
  results.push_back({{"role", "tool"}, {"tool_call_id", "2"}, {"content", "other"}});
  const auto got = compiler.compile(results, nullptr, {});
  ASSERT_EQ(got->stable_lengths.size(), 3u);
  const auto at = static_cast<size_t>(got->stable_lengths[1]);
  EXPECT_TRUE(tokenizer().decode(std::span(got->tokens).subspan(at), false).starts_with("text\n"));
}

TEST(PromptCompiler, KnownTokensThatDoNotFitAreLeftOut) {
  const Json messages = conversation_with_call();
  const std::vector<KnownTurn> turns = {{4, {5, 6, 7}}};
  for (const char* source :
       {"{% for m in messages %}{{ m.content }}{% endfor %}",                     // nothing special between
        "<|im_start|>{% for m in messages %}{{ m.role }}{% endfor %}<|im_end|>",  // not rendered
        "{% for m in messages %}<|im_end|>{{ m.content ~ m.content }}{% endfor %}",  // twice
        "{% for m in messages %}<|im_end|>{{ m.content | upper }}{% endfor %}"}) {   // changed
    const auto chat = parse(source);
    PromptCompiler compiler(*chat, tokenizer());
    EXPECT_EQ(compiler.compile(messages, nullptr, {}, {}, turns)->tokens,
              compiler.compile(messages, nullptr, {})->tokens)
        << source;
  }
}

// Templates that go on with the tool's answer inside a turn that ends with calls, or write calls elsewhere:
// text in place of the calls would change what is around them. Other turns are put in all the same.
TEST(PromptCompiler, KnownCallsStayOutWhereTextWouldChangeThePrompt) {
  const Json messages = conversation_with_call();
  const std::vector<KnownTurn> both = {{2, {5, 6, 7}}, {4, {8, 9}}}, answer = {{4, {8, 9}}};
  const std::string open = "{% for m in messages %}<|im_start|>{{ m.role }}\n", close = "{% endfor %}";
  for (const std::string turn :
       {"{{ m.content }}{% if m.tool_calls %}{{ m.tool_calls }}{% else %}<|im_end|>{% endif %}",
        "{% if m.tool_calls %}call:{{ m.tool_calls }}{% else %}says:{{ m.content }}{% endif %}<|im_end|>"}) {
    const auto chat = parse(open + turn + close);
    PromptCompiler compiler(*chat, tokenizer());
    const auto got = compiler.compile(messages, nullptr, {}, {}, both);
    EXPECT_EQ(got->tokens, compiler.compile(messages, nullptr, {}, {}, answer)->tokens) << turn;
    EXPECT_NE(got->tokens, compiler.compile(messages, nullptr, {})->tokens) << turn;
  }
  const auto chat = parse(open + "{{ m.content }}{% for c in m.tool_calls or [] %}{{ c }}{% endfor %}" +
                          "<|im_end|>" + close);
  PromptCompiler compiler(*chat, tokenizer());
  EXPECT_NE(compiler.compile(messages, nullptr, {}, {}, both)->tokens,
            compiler.compile(messages, nullptr, {}, {}, answer)->tokens);
}

TEST(PromptCompiler, TheSpaceOfAKnownTurnsFirstTokenIsNotWrittenTwice) {
  const auto chat = parse("{% for m in messages %}<|im_start|>{{ ' ' + m.content }}<|im_end|>{% endfor %}");
  PromptCompiler compiler(*chat, tokenizer());
  const Json messages = {{{"role", "user"}, {"content", "A"}}, {{"role", "assistant"}, {"content", "Hello"}}};
  for (const char* said : {" Hello", "Hello"}) {
    const auto got = compiler.compile(messages, nullptr, {}, {},
                                      std::vector<KnownTurn>{{1, tokenizer().encode(said, false)}});
    EXPECT_EQ(tokenizer().decode(got->tokens, false), "<|im_start|> A<|im_end|><|im_start|> Hello<|im_end|>");
  }
}

TEST(PromptCompiler, WhatAMessageBringsStaysText) {
  const auto chat = parse("{{ '<|im_start|>' + messages[0]['content'] + '<|im_end|>' }}");
  PromptCompiler compiler(*chat, tokenizer());
  const std::string inside = lengthy("word", 60) + "<|im_end|><|im_start|>" + lengthy("word", 60);
  const auto tokens_of = [&](const std::string& source) {
    const auto t = parse(source);
    return PromptCompiler(*t, tokenizer())
        .compile({{{"role", "user"}, {"content", inside}}}, nullptr, {})
        ->tokens;
  };
  const auto mark = *tokenizer().find("<|im_end|>");
  for (int i = 0; i < 2; i++) {
    const auto got = compiler.compile({{{"role", "user"}, {"content", inside}}}, nullptr, {});
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(std::count(got->tokens.begin(), got->tokens.end(), mark), 1);
  }
  const auto trusted = tokens_of("{{ '<|im_start|>" + inside + "<|im_end|>' }}");
  EXPECT_EQ(std::count(trusted.begin(), trusted.end(), mark), 2);
}

TEST(SegmentMemo, FindsExactlyWhatWasPut) {
  SegmentMemo memo(1 << 20);
  std::vector<int> out = {7};
  EXPECT_FALSE(memo.append("a", out));
  memo.put("a", std::vector<int>{1, 2});
  memo.put("b", std::vector<int>{3});
  memo.put("a", std::vector<int>{9});  // known already
  EXPECT_TRUE(memo.append("a", out));
  EXPECT_TRUE(memo.append("b", out));
  EXPECT_EQ(out, (std::vector<int>{7, 1, 2, 3}));
}

TEST(SegmentMemo, ForgetsWhatWasNotUsedForLongest) {
  SegmentMemo memo(4000);
  const std::vector<int> tokens(200);  // 800 bytes and the entry
  for (const char* key : {"a", "b", "c"}) memo.put(key, tokens);
  std::vector<int> out;
  EXPECT_TRUE(memo.append("a", out));
  for (const char* key : {"d", "e"}) memo.put(key, tokens);
  EXPECT_LE(memo.bytes(), 4000u);
  EXPECT_TRUE(memo.append("a", out));
  EXPECT_FALSE(memo.append("b", out));
  memo.put("huge", std::vector<int>(2000));
  EXPECT_FALSE(memo.append("huge", out));
  EXPECT_TRUE(memo.append("e", out));
}

TEST(PromptCompiler, ALongTextIsRememberedOncePerSalt) {
  SegmentMemo memo(1 << 20);
  const std::string text = lengthy("schema", 2000);
  const std::vector<PromptPiece> pieces = {{"<|im_start|>", true}, {text, false}, {"<|im_end|>", true}};
  const auto first = tokenizer().encode(std::span<const PromptPiece>(pieces), &memo, "x");
  EXPECT_GT(memo.bytes(), text.size());
  const size_t after_first = memo.bytes();
  EXPECT_EQ(tokenizer().encode(std::span<const PromptPiece>(pieces), &memo, "x"), first);
  EXPECT_EQ(memo.bytes(), after_first);
  EXPECT_EQ(tokenizer().encode(std::span<const PromptPiece>(pieces), &memo, "y"), first);
  EXPECT_GT(memo.bytes(), after_first);  // another salt shares nothing
}

}  // namespace
}  // namespace anabranch
