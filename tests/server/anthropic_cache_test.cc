// "cache_control" of /v1/messages: where states are kept, and what the usage says about it.
#include "chat/message_text.h"
#include "chat/preparer.h"
#include "server/api/anthropic/cache_marks.h"
#include "server/api/anthropic/request.h"
#include "server/api/anthropic/tools.h"
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

const std::string kMark = R"("cache_control":{"type":"ephemeral"})",
                  kHourMark = R"("cache_control":{"type":"ephemeral","ttl":"1h"})";

// A text block of 40 times a letter.
std::string block(char letter, const std::string& extra = "") {
  return R"({"type":"text","text":")" + std::string(40, letter) + "\"" + (extra.empty() ? "" : "," + extra) +
         "}";
}
std::string request_of(const std::string& content, const std::string& extra = "") {
  return R"({"max_tokens":500,"messages":[{"role":"user","content":[)" + content + "]}]" +
         (extra.empty() ? "" : "," + extra) + "}";
}

ApiError refused(const std::string& text) {
  const auto result = parse_messages_request(text, {SamplingParams{}, {}, 300, {}}, false);
  if (!result) return result.error();
  ADD_FAILURE() << "taken: " << text;
  return {};
}

class CacheControl : public ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    engine_.keep_states();
  }
  Json post(const std::string& text) {
    const HttpAnswer answer = ask(port_, "POST", "/v1/messages", text);
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  }
  // What the prompt has up to each length at which a state is kept.
  std::vector<std::string> kept() {
    std::vector<std::string> texts;
    const Request request = engine_.last_request();
    EXPECT_TRUE(std::ranges::is_sorted(request.keep_at));
    for (const int length : request.keep_at)
      texts.push_back(engine_.tokenizer().decode(std::span(request.prompt).first(length), false));
    return texts;
  }
  bool keeps(const std::string& end) {
    const auto texts = kept();
    return std::ranges::any_of(texts, [&](const std::string& text) { return text.ends_with(end); });
  }
};

TEST_F(CacheControl, KeepsAStateAtTheEndOfEachMarkedBlock) {
  const std::string a(40, 'a'), b(40, 'b');
  post(request_of(block('a', kMark) + "," + block('b')));
  EXPECT_TRUE(keeps("user: " + a));
  EXPECT_EQ(engine_.last_prompt(), "user: " + a + "\n" + b + "\nassistant:");
  post(request_of(block('a') + "," + block('b')));
  EXPECT_FALSE(keeps("user: " + a));

  const std::string system = R"("system":[)" + block('s', kMark) + "," + block('t') + "]";
  post(request_of(block('a'), system));
  EXPECT_TRUE(keeps("system: " + std::string(40, 's')));

  const std::string tools = R"("tools":[{"name":"f","input_schema":{"type":"object"},)" + kMark +
                            R"(},{"name":"g","input_schema":{"type":"object"}}])";
  post(request_of(block('a'), tools));
  EXPECT_TRUE(std::ranges::any_of(kept(), [](const std::string& text) {
    return text.find("\"f\"") != text.npos && text.find("\"g\"") == text.npos;
  }));
}

TEST_F(CacheControl, KeepsAStateAfterCallsAndTheirResults) {
  const std::string history = R"({"max_tokens":500,"messages":[{"role":"user","content":")" +
                              std::string(40, 'q') +
                              R"("},{"role":"assistant","content":[{"type":"text","text":"I look."},
      {"type":"tool_use","id":"toolu_1","name":"f","input":{},USE}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"sunny",RESULT},
      {"type":"text","text":"Go on."}]},{"role":"assistant","content":"Yes."},{"role":"user","content":"Bye."}]})";
  const auto with = [&](std::string use, std::string result) {
    std::string text = history;
    text.replace(text.find("USE"), 3, use);
    text.replace(text.find("RESULT"), 6, result);
    return text;
  };
  const std::string none = R"("cache_control":null)";
  post(with(kMark, none));
  EXPECT_TRUE(keeps("\ntool: "));  // up to where the next message's text begins
  EXPECT_FALSE(keeps("\"toolu_1\"]\nuser: "));
  post(with(none, kMark));
  EXPECT_FALSE(keeps("\ntool: "));
  EXPECT_TRUE(keeps("\"toolu_1\"]\nuser: "));
}

TEST_F(CacheControl, UsageAddsUpToThePrompt) {
  const auto sum = [&](const Json& usage) {
    return usage["input_tokens"].get<int>() + usage["cache_creation_input_tokens"].get<int>() +
           usage["cache_read_input_tokens"].get<int>();
  };
  const std::string text = request_of(block('a', kHourMark) + "," + block('b', kMark) + "," + block('c'));
  const Json usage = post(text)["usage"];
  const int first = 6 + 40, second = first + 1 + 40, cached = 3;  // "user: " and the blocks
  EXPECT_EQ(usage["cache_creation"]["ephemeral_1h_input_tokens"], first - cached);
  EXPECT_EQ(usage["cache_creation"]["ephemeral_5m_input_tokens"], second - first);
  EXPECT_EQ(usage["cache_creation_input_tokens"], second - cached);
  EXPECT_EQ(usage["cache_read_input_tokens"], cached);
  EXPECT_EQ(sum(usage), static_cast<int>(engine_.last_prompt().size()));
  // Streams say the same, at their beginning and at their end.
  std::string streamed = text;
  streamed.insert(1, R"("stream":true,)");
  const auto list = events(ask(port_, "POST", "/v1/messages", streamed).body);
  Json start = list[0]["message"]["usage"], end = list[list.size() - 2]["usage"], whole = usage;
  for (Json* one : {&start, &end, &whole}) one->erase("output_tokens");
  EXPECT_EQ(start, whole);
  EXPECT_EQ(end, whole);
}

TEST_F(CacheControl, NothingIsStoredWithoutAMarkOrACache) {
  const Json plain = post(request_of(block('a') + "," + block('b')))["usage"];
  EXPECT_EQ(plain["cache_creation_input_tokens"], 0);
  EXPECT_EQ(plain["cache_creation"].dump(),
            R"({"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0})");
  const std::string marked = block('a', kMark) + "," + block('b');
  EXPECT_GT(post(request_of(marked))["usage"]["cache_creation_input_tokens"], 0);
  EXPECT_EQ(post(request_of(marked, R"("cache":false)"))["usage"]["cache_creation_input_tokens"], 0);
  // A prefix that is too short for a state.
  const std::string small = R"({"type":"text","text":"a",)" + kMark + "}," + block('b');
  EXPECT_EQ(post(request_of(small))["usage"]["cache_creation_input_tokens"], 0);
}

class NoCacheControl : public CacheControl {
  void SetUp() override { ServerTest::SetUp(); }
};

TEST_F(NoCacheControl, NothingIsStoredByAServerWithoutACache) {
  const Json usage = post(request_of(block('a', kMark) + "," + block('b')))["usage"];
  EXPECT_EQ(usage["cache_creation_input_tokens"], 0);
  EXPECT_GT(usage["input_tokens"], 0);
}

TEST_F(CacheControl, ThatOfTheRequestStandsForTheLastBlock) {
  const auto stored = [&](const std::string& content, const std::string& extra) {
    return post(request_of(content, extra))["usage"]["cache_creation_input_tokens"].get<int>();
  };
  const std::string both = block('a') + "," + block('b');
  EXPECT_EQ(stored(both, kMark), stored(block('a') + "," + block('b', kMark), ""));
  EXPECT_GT(stored(both, kMark), 80);
  EXPECT_EQ(stored(both, ""), 0);
}

TEST_F(CacheControl, TakesFourMarks) {
  std::string three;
  for (int i = 0; i < 3; i++) three += block('a', kMark) + ",";
  post(request_of(three + block('b', kMark)));
  post(request_of(three + block('b', kMark), kMark));  // both stand at the last block
  post(request_of(three + block('b'), kMark));
  const ApiError five = refused(request_of(three + block('b', kMark) + "," + block('c', kMark)));
  EXPECT_EQ(five.status, 400);
  EXPECT_EQ(five.message, "A maximum of 4 blocks with cache_control may be provided. Found 5.");
  EXPECT_NE(refused(request_of(three + block('b', kMark) + "," + block('c'), kMark)).message.find("Found 5."),
            std::string::npos);
}

TEST_F(CacheControl, RefusesMalformedOnesByName) {
  for (const auto& [control, field] :
       {std::pair("1", "messages[0].content[1].cache_control"),
        {R"({"type":"persistent"})", "messages[0].content[1].cache_control.type"},
        {R"({})", "messages[0].content[1].cache_control.type"},
        {R"({"type":"ephemeral","ttl":"2h"})", "messages[0].content[1].cache_control.ttl"},
        {R"({"type":"ephemeral","ttl":60})", "messages[0].content[1].cache_control.ttl"}}) {
    const ApiError error =
        refused(request_of(block('a') + "," + block('b', R"("cache_control":)" + std::string(control))));
    EXPECT_EQ(error.status, 400);
    EXPECT_EQ(error.param, field) << error.message;
    EXPECT_NE(error.message.find(field), std::string::npos) << error.message;
  }
  EXPECT_EQ(
      refused(request_of(block('a'), R"("system":[)" + block('s', R"("cache_control":[])") + "]")).param,
      "system[0].cache_control");
  EXPECT_EQ(refused(request_of(block('a'), R"("tools":[{"name":"f","input_schema":{},"cache_control":"x"}])"))
                .param,
            "tools[0].cache_control");
  EXPECT_EQ(refused(request_of(block('a'), R"("cache_control":{"type":"x"})")).param, "cache_control.type");
}

// Marks change no token of the prompt.
TEST_F(CacheControl, ChangesNoToken) {
  post(request_of(block('a') + "," + block('b')));
  const auto plain = engine_.last_request().prompt;
  post(request_of(block('a', kMark) + "," + block('b', kHourMark), kMark));
  EXPECT_EQ(engine_.last_request().prompt, plain);
}

// The text that changes from call to call is cut out of the system prompt, and the mark moves with its text.
TEST_F(CacheControl, StandsBehindItsBlockWhenTextBeforeItIsCut) {
  ServerOptions options;
  options.volatile_text = known_volatile_text();
  start(std::move(options));
  const std::string header = R"({"type":"text","text":"x-anthropic-billing-header: cc_version=1; cch=0;"},)";
  post(request_of(block('a'), R"("system":[)" + header + block('s', kMark) + "," + block('t') + "]"));
  EXPECT_EQ(engine_.last_prompt().find("billing"), std::string::npos);
  EXPECT_TRUE(keeps(std::string(40, 's')));
}

TEST(CacheMarks, OfAToolsetStandBehindAllTools) {
  const Json list =
      Json::parse(R"([{"name":"f","input_schema":{}},{"type":"mcp_toolset","mcp_server_name":"s",)" + kMark +
                  R"(},{"name":"g","input_schema":{},)" + kMark + "}]");
  const auto marked = [&](size_t of_servers) {
    const Json request = Json::object(), messages = Json::array({{{"role", "user"}, {"content", "x"}}});
    JsonFields fields(request);
    CacheMarks marks;
    std::vector<std::string> left_out;
    Json tools = read_anthropic_tools(fields, list, left_out, marks);
    for (size_t i = 0; i < of_servers; i++) tools.push_back({{"type", "function"}});
    marks.end_toolsets(tools);
    std::vector<size_t> places;
    for (const CacheMark& mark : marks.finish(fields, messages)) places.push_back(mark.index);
    EXPECT_FALSE(fields.error());
    return places;
  };
  EXPECT_EQ(marked(3), (std::vector<size_t>{4, 1}));
  EXPECT_EQ(marked(0), (std::vector<size_t>{1, 1}));
}

TEST(CacheMarks, AreNotReadWithoutTheCache) {
  const auto marks = [](const std::string& extra) {
    return parse_messages_request(request_of(block('a', kMark), extra), {SamplingParams{}, {}, 300, {}},
                                  false)
        ->marks.size();
  };
  EXPECT_EQ(marks(""), 1u);
  EXPECT_EQ(marks(R"("cache":false)"), 0u);
}

class CountingTemplate final : public ChatTemplate {
 public:
  Result<std::vector<PromptPiece>> render(const Json& messages, const Json& tools,
                                          const TemplateOptions& options) const override {
    count++;
    return plain_.render(messages, tools, options);
  }
  bool mentions(std::string_view variable) const override { return plain_.mentions(variable); }
  mutable std::atomic<int> count{0};

 private:
  const FakeTemplate plain_;
};

TEST(CacheMarks, AreNotReportedOfARequestThatIsNotCached) {
  FakeEngine engine;
  Preparer preparer(engine, {});
  for (const bool cached : {true, false}) {
    ChatRequest request;
    request.messages = Json::array({message_of("user", std::string(60, 'a')), message_of("user", "b")});
    request.marks = {{CacheMark::In::message, 0}};
    request.options.cache = cached;
    const auto prepared = preparer.chat(std::move(request), [] { return false; });
    ASSERT_TRUE(prepared.ok()) << prepared.error().message;
    EXPECT_EQ(prepared->marked.size(), cached ? 1u : 0u);
  }
}

TEST(CacheMarks, AreNotRenderedWhereNobodyUsesThem) {
  FakeEngine engine;
  const auto chat = std::make_shared<CountingTemplate>();
  engine.become(chat, {});
  Preparer preparer(engine, {});
  const auto go_on = [] { return false; };
  const auto renderings = [&](const std::vector<CacheMark>& marks, const auto& prepare) {
    ChatRequest request;
    request.messages =
        Json::array({message_of("user", "a"), message_of("assistant", "b"), message_of("user", "c")});
    request.marks = marks;
    chat->count = 0;
    EXPECT_TRUE(prepare(std::move(request)).ok());
    return chat->count.load();
  };
  const std::vector<CacheMark> marks{{CacheMark::In::message, 0}, {CacheMark::In::message, 1}};
  const auto answer = [&](ChatRequest request) { return preparer.chat(std::move(request), go_on); };
  const auto count = [&](ChatRequest request) { return preparer.count(std::move(request), go_on); };
  const auto next = [&](ChatRequest request) {
    return preparer.next_turn(std::move(request), message_of("assistant", "d"), go_on);
  };
  EXPECT_GT(renderings(marks, answer), renderings({}, answer));
  EXPECT_EQ(renderings(marks, count), renderings({}, count));
  EXPECT_EQ(renderings(marks, next), renderings({}, next));
}

}  // namespace
}  // namespace anabranch::server
