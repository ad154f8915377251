// Chats in which programs mix the forms of several APIs, because they keep one history for all of them.
#include <gtest/gtest.h>

#include "server/api/anthropic/request.h"
#include "server/api/openai/request.h"
#include "server/api/responses/request.h"
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

ChatRequest chat(const std::string& messages, const std::string& extra = "") {
  const std::string body = R"({"messages":[)" + messages + "]" + (extra.empty() ? "" : "," + extra) + "}";
  auto result = parse_chat_request(body, {});
  if (result) return result.value();
  ADD_FAILURE() << body << ": " << result.error().message;
  return {};
}
ChatRequest asked(const std::string& extra) {
  return chat(R"({"role":"user","content":"hi"})", extra);
}
std::string content(const std::string& parts) {
  const ChatRequest request = chat(R"({"role":"user","content":)" + parts + "}");
  return request.messages.empty() ? "" : string_at(request.messages[0], "content");
}

TEST(MixedForms, PartsOfText) {
  EXPECT_EQ(content(R"(["a","b"])"), "ab");
  EXPECT_EQ(content(R"([{"text":"a"},{"type":"text","text":"b"}])"), "ab");
  EXPECT_EQ(content(R"([{"type":"input_text","text":"a"},{"type":"output_text","text":"b"}])"), "ab");
  EXPECT_EQ(content(R"([{"type":"text","text":null},{"type":"text","text":"b"}])"), "b");
  for (const char* wrong :
       {R"([{"type":"text"}])", R"([{"type":"text","text":5}])", R"([{}])", R"([{"text":5}])"}) {
    const std::string body = std::string(R"({"messages":[{"role":"user","content":)") + wrong + "}]}";
    EXPECT_FALSE(parse_chat_request(body, {})) << wrong;
  }
}

TEST(MixedForms, CallsAndResultsAsBlocks) {
  const ChatRequest request = chat(R"({"role":"user","content":"hi"},
      {"role":"assistant","content":[{"type":"text","text":"So"},{"type":"tool_use","id":"a","name":"f","input":{"x":1}},
        {"type":"tool_use","id":"b","name":"g","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"b","content":"two"},
        {"type":"tool_result","tool_use_id":"a","content":[{"type":"text","text":"one"}]},{"type":"text","text":"Go on"}]},
      {"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"c"}]})");
  const Json want = Json::parse(R"([{"role":"user","content":"hi"},
      {"role":"assistant","content":"So","tool_calls":[
        {"id":"a","type":"function","function":{"name":"f","arguments":{"x":1}}},
        {"id":"b","type":"function","function":{"name":"g","arguments":{}}}]},
      {"role":"tool","content":"two","tool_call_id":"b"},{"role":"tool","content":"one","tool_call_id":"a"},
      {"role":"user","content":"Go on"},
      {"role":"assistant","content":"","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":{}}}]},
      {"role":"tool","content":"","tool_call_id":"c"}])");
  EXPECT_EQ(request.messages, want) << request.messages.dump(1);
}

TEST(MixedForms, ThoughtsAsBlocks) {
  const Json messages = chat(R"({"role":"user","content":"hi"},
      {"role":"assistant","content":[{"type":"thinking","thinking":"Hm","signature":"s"},
        {"type":"redacted_thinking","data":"d"},{"type":"tool_use","id":"c","name":"f","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"1"}]},
      {"role":"assistant","content":[{"type":"thinking","thinking":"So"},{"type":"text","text":"one"}]},
      {"role":"user","content":"And?"})")
                            .messages;
  ASSERT_EQ(messages.size(), 5u) << messages.dump(1);
  EXPECT_EQ(string_at(messages[1], "reasoning_content"), "Hm");
  EXPECT_EQ(string_at(messages[1], "content"), "");
  EXPECT_EQ(messages[1]["tool_calls"].size(), 1u);
  EXPECT_EQ(string_at(messages[3], "reasoning_content"), "So");
  EXPECT_EQ(string_at(messages[3], "content"), "one");
}

// Each result is a message of its own, and they count as such.
TEST(MixedForms, ResultsCountAsMessages) {
  const auto results = [](int count) {
    std::string parts;
    for (int i = 0; i < count; i++)
      parts += std::string(i ? "," : "") + R"({"type":"tool_result","tool_use_id":"a","content":"1"})";
    return R"({"max_tokens":1,"messages":[{"role":"user","content":[)" + parts + "]}]}";
  };
  for (const auto& parse :
       {+[](const std::string& body) { return parse_chat_request(body, {}).ok(); },
        +[](const std::string& body) { return parse_messages_request(body, {}, false).ok(); }}) {
    EXPECT_TRUE(parse(results(200)));
    EXPECT_FALSE(parse(results(65537)));
  }
}

TEST(MixedForms, Tools) {
  const Json want = Json::parse(
      R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}])");
  for (
      const char* tool :
      {R"({"type":"function","name":"f","description":"d","parameters":{"type":"object"}})",
       R"({"name":"f","description":"d","parameters":{"type":"object"}})",
       R"({"name":"f","description":"d","input_schema":{"type":"object"}})",
       R"({"name":"f","description":"d","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}})",
       R"({"type":"custom","name":"f","description":"d","input_schema":{"type":"object"}})"})
    EXPECT_EQ(asked(std::string(R"("tools":[)") + tool + "]").tools, want) << tool;
  const Json strict =
      asked(R"("tools":[{"type":"function","name":"f","strict":true,"parameters":{}}])").tools;
  EXPECT_EQ(strict[0]["function"]["strict"], true);
  const std::string custom = R"("name":"p","description":"d")";
  EXPECT_EQ(asked(R"("tools":[{"type":"custom",)" + custom + "}]").tools,
            asked(R"("tools":[{"type":"custom","custom":{)" + custom + "}}]").tools);
  for (const char* tool :
       {R"({"type":"bash_20250124","name":"bash"})", R"({"name":""})", R"({"type":"function"})"})
    EXPECT_FALSE(parse_chat_request(
        std::string(R"({"messages":[{"role":"user","content":"hi"}],"tools":[)") + tool + "]}", {}))
        << tool;
}

TEST(MixedForms, ChoicesOfTools) {
  using Kind = ToolChoice::Kind;
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":)";
  const std::pair<const char*, Kind> cases[] = {{R"("any")", Kind::required},
                                                {R"({"type":"any"})", Kind::required},
                                                {R"({"type":"required"})", Kind::required},
                                                {R"({"type":"auto"})", Kind::automatic},
                                                {R"({"type":"none"})", Kind::none},
                                                {R"({"type":"tool","name":"f"})", Kind::named},
                                                {R"({"function":{"name":"f"}})", Kind::named},
                                                {R"({"name":"f"})", Kind::named}};
  for (const auto& [choice, kind] : cases) {
    const ToolChoice read = asked(tools + choice).tool_choice;
    EXPECT_EQ(read.kind, kind) << choice;
    EXPECT_EQ(read.name, kind == Kind::named ? "f" : "") << choice;
  }
}

TEST(MixedForms, OneCallAtMostAsAnthropicSaysIt) {
  const std::string tools =
      R"("tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":{"type":"auto")";
  const auto several = [&](const std::string& more) { return asked(tools + more).parallel_tool_calls; };
  EXPECT_TRUE(several("}"));
  EXPECT_FALSE(several(R"(,"disable_parallel_tool_use":true})"));
  EXPECT_TRUE(several(R"(,"disable_parallel_tool_use":false})"));
  EXPECT_TRUE(several(R"(,"disable_parallel_tool_use":true},"parallel_tool_calls":true)"))
      << "OpenAI's own field counts";
  EXPECT_FALSE(several(R"(},"parallel_tool_calls":false)"));
  EXPECT_FALSE(parse_chat_request(
      R"({"messages":[{"role":"user","content":"hi"}],)" + tools + R"(,"disable_parallel_tool_use":1}})",
      {}));
}

class MixedFormsServed : public ServerTest {};

TEST_F(MixedFormsServed, InOtherApis) {
  const std::string tools = R"("tools":[{"type":"function","name":"f","parameters":{}}])";
  for (const char* choice : {R"({"type":"auto"})", R"({"type":"none"})", R"({"type":"any"})", R"("any")"}) {
    const HttpAnswer answer =
        post("/v1/responses", R"({"input":"hi",)" + tools + R"(,"tool_choice":)" + choice + "}");
    EXPECT_EQ(answer.status, 200) << choice << answer.body;
  }
  const HttpAnswer one =
      post("/v1/responses", R"({"input":"hi",)" + tools +
                                R"(,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}})");
  EXPECT_NE(one.body.find(R"("parallel_tool_calls":false)"), std::string::npos) << one.body;
  const std::string nested =
      R"("tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{}}}])";
  EXPECT_EQ(post("/v1/responses", R"({"input":"hi",)" + nested +
                                      R"(,"tool_choice":{"type":"function","function":{"name":"f"}}})")
                .status,
            200);
  const std::string seen = engine_.last_prompt();
  post("/v1/responses",
       R"({"input":"hi","tools":[{"type":"function","name":"f","description":"d","parameters":{}}]})");
  EXPECT_EQ(engine_.last_prompt(), seen);
  EXPECT_EQ(
      post(
          "/v1/messages",
          R"({"max_tokens":9,"messages":[{"role":"developer","content":"D"},{"role":"user","content":"hi"}]})")
          .status,
      200);
  EXPECT_EQ(engine_.last_prompt(), "system: D\nuser: hi\nassistant:");
  EXPECT_EQ(
      post(
          "/api/chat",
          R"({"model":"default","stream":false,"messages":[{"role":"user"},{"role":"assistant","content":"a"},
      {"role":"user","content":null}]})")
          .status,
      200);
}

}  // namespace
}  // namespace anabranch::server
