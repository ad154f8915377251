// POST /v1/messages and count_tokens: what is taken, whole messages, streams, errors.
#include "server/api/anthropic/request.h"
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

RequestDefaults defaults() {
  return {SamplingParams{0.25f, 7, 0.9f, 0.05f, 0}, {}, 300, {}};
}

// {"max_tokens": 500, "messages": [a user's message], <extra>}
std::string body(const std::string& extra = "") {
  return R"({"max_tokens":500,"messages":[{"role":"user","content":"hi"}])" +
         (extra.empty() ? "" : "," + extra) + "}";
}
std::string conversation(const std::string& messages, const std::string& extra = "") {
  return R"({"max_tokens":500,"messages":[)" + messages + "]" + (extra.empty() ? "" : "," + extra) + "}";
}

ChatRequest parsed(const std::string& text, bool counting = false) {
  auto result = parse_messages_request(text, defaults(), counting);
  if (!result) {
    ADD_FAILURE() << text << ": " << result.error().message;
    return {};
  }
  return result.value();
}

ApiError refused(const std::string& text) {
  const auto result = parse_messages_request(text, defaults(), false);
  if (!result) return result.error();
  ADD_FAILURE() << "taken: " << text;
  return {};
}

TEST(MessagesRequest, ReadsEveryOption) {
  const ChatRequest request = parsed(body(
      R"("model":"fake-1b","temperature":0.5,"top_p":0.5,"top_k":3,"stop_sequences":["a","b"],"stream":true,
      "metadata":{"user_id":"u"},"service_tier":"auto","thinking":{"type":"enabled","budget_tokens":2048},
      "tool_choice":{"type":"auto","disable_parallel_tool_use":true},"cache":false,"unknown":[1])"));
  EXPECT_EQ(request.options.max_tokens, 500);
  EXPECT_EQ(request.options.sampling.temperature, 0.5f);
  EXPECT_EQ(request.options.sampling.top_p, 0.5f);
  EXPECT_EQ(request.options.sampling.top_k, 3);
  EXPECT_EQ(request.options.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(request.options.stream);
  EXPECT_FALSE(request.options.cache);
  EXPECT_FALSE(request.parallel_tool_calls);
  EXPECT_EQ(request.options.thinking.mode, ThinkMode::on);
  EXPECT_EQ(request.options.thinking.budget, 2048);
  EXPECT_EQ(parsed(body(R"("thinking":{"type":"disabled"})")).options.thinking.mode, ThinkMode::off);
  EXPECT_EQ(parsed(body(R"("thinking":{"type":"adaptive"})")).options.thinking.mode, ThinkMode::automatic);
  EXPECT_EQ(parsed(body()).options.thinking.mode, ThinkMode::off);  // where OpenAI's clients get auto
  EXPECT_EQ(parsed(body()).options.sampling.top_k, 7);
}

TEST(MessagesRequest, SystemTextComesFirst) {
  EXPECT_EQ(parsed(body(R"("system":"Be brief.")")).messages.dump(),
            R"([{"role":"system","content":"Be brief."},{"role":"user","content":"hi"}])");
  EXPECT_EQ(parsed(body(R"("system":[{"type":"text","text":"One."},
                   {"type":"text","text":"Two.","cache_control":{"type":"ephemeral"}}])"))
                .messages[0]["content"],
            "One.\nTwo.");
  EXPECT_EQ(parsed(body(R"("system":"")")).messages.size(), 1u);
}

TEST(MessagesRequest, TurnsBecomeThoseOfAChat) {
  const Json messages =
      parsed(
          conversation(
              R"({"role":"user","content":[{"type":"text","text":"Weather"},{"type":"text","text":"in Rome?"}]},
      {"role":"assistant","content":[{"type":"thinking","thinking":"Hm.","signature":""},
        {"type":"redacted_thinking","data":"x"},{"type":"text","text":"I look. "},
        {"type":"tool_use","id":"toolu_1","name":"weather","input":{"city":"Rome","n":1.50}},
        {"type":"text","text":"And again."},{"type":"tool_use","id":"toolu_2","name":"now","input":{}}]},
      {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"sunny"},
        {"type":"tool_result","tool_use_id":"toolu_2","content":[{"type":"text","text":"12"},{"type":"text","text":"h"}]},
        {"type":"text","text":"Go on."}]},
      {"role":"user","content":"Please."})"))
          .messages;
  ASSERT_EQ(messages.size(), 5u) << messages.dump();
  EXPECT_EQ(messages[0].dump(), R"({"role":"user","content":"Weather\nin Rome?"})");
  EXPECT_EQ(messages[1]["content"], "I look. And again.");
  EXPECT_EQ(messages[1]["reasoning_content"], "Hm.");
  EXPECT_EQ(
      messages[1]["tool_calls"][0].dump(),
      R"({"id":"toolu_1","type":"function","function":{"name":"weather","arguments":{"city":"Rome","n":1.5}}})");
  EXPECT_EQ(messages[1]["tool_calls"][1]["function"]["arguments"].dump(), "{}");
  EXPECT_EQ(messages[2].dump(), R"({"role":"tool","content":"sunny","tool_call_id":"toolu_1"})");
  EXPECT_EQ(messages[3]["content"], "12\nh");
  EXPECT_EQ(messages[4]["content"], "Go on.\nPlease.");  // turns that follow each other are one
}

TEST(MessagesRequest, TurnsOfTheAssistantThatFollowEachOtherAreOne) {
  const std::string asked = R"({"role":"user","content":"q"},)",
                    done = R"(,{"role":"user","content":"go on"})";
  const auto messages = [&](const std::string& turns) {
    return parsed(conversation(asked + turns + done)).messages;
  };
  EXPECT_EQ(messages(R"({"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""}]},
      {"role":"assistant","content":"a"},{"role":"assistant","content":[{"type":"text","text":"b"},
        {"type":"tool_use","id":"1","name":"f","input":{}}]},
      {"role":"assistant","content":[{"type":"tool_use","id":"2","name":"g","input":{}}]})"),
            messages(R"({"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},
      {"type":"text","text":"ab"},{"type":"tool_use","id":"1","name":"f","input":{}},
      {"type":"tool_use","id":"2","name":"g","input":{}}]})"));
  // A prefill in two parts.
  const auto request = parsed(conversation(
      asked + R"({"role":"assistant","content":"The answer"},{"role":"assistant","content":" is"})"));
  EXPECT_EQ(request.messages.size(), 1u);
  EXPECT_EQ(request.continuation->content, "The answer is");
}

TEST(MessagesRequest, TakesEmptyTurnsAndAnyInputOfAHistory) {
  const std::string rest = R"(,{"role":"user","content":"go on"})";
  for (const char* content : {"[]", "\"\"", "null"}) {
    const auto messages =
        parsed(conversation(R"({"role":"user","content":"q"},{"role":"assistant","content":)" +
                            std::string(content) + "}" + rest))
            .messages;
    ASSERT_EQ(messages.size(), 3u) << content;
    EXPECT_EQ(messages[1].dump(), R"({"role":"assistant","content":""})");
  }
  const std::string call =
      R"({"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":)";
  for (const auto& [input, arguments] : {std::pair("null", "{}"),
                                         {"\"{\\\"a\\\": 1}\"", R"({"a":1})"},
                                         {"[1]", R"("[1]")"},
                                         {"\"cut\"", R"("cut")"}})
    EXPECT_EQ(parsed(conversation(call + input + "}]}" + rest))
                  .messages[0]["tool_calls"][0]["function"]["arguments"]
                  .dump(),
              arguments);
}

TEST(MessagesRequest, ToolsBecomeFunctions) {
  const std::string tools =
      R"("tools":[{"name":"weather","description":"Of a city","input_schema":{"type":"object"}},
                  {"type":"custom","name":"now","input_schema":{}}])";
  EXPECT_EQ(
      parsed(body(tools)).tools.dump(),
      R"([{"type":"function","function":{"name":"weather","description":"Of a city","parameters":{"type":"object"}}},)"
      R"({"type":"function","function":{"name":"now","parameters":{}}}])");
  const ChatRequest none = parsed(body(tools + R"(,"tool_choice":{"type":"none"})"));
  EXPECT_FALSE(none.tools.is_null());
  EXPECT_EQ(none.tool_choice.kind, ToolChoice::Kind::none);
  EXPECT_TRUE(parsed(body(tools)).parallel_tool_calls);
}

TEST(MessagesRequest, AnthropicsOwnTools) {
  const auto request = parsed(body(
      R"("tools":[{"type":"web_search_20250305","name":"web_search"},{"type":"bash_20250124","name":"bash"},
                  {"type":"text_editor_20250728","name":"edit","max_characters":9},
                  {"type":"memory_20250818","name":"memory"},{"type":"computer_20250124","name":"computer"}])"));
  ASSERT_EQ(request.tools.size(), 3u);
  EXPECT_EQ(request.tools[0]["function"]["name"], "bash");
  EXPECT_TRUE(request.tools[0]["function"]["parameters"]["properties"].contains("command"));
  EXPECT_EQ(request.tools[1]["function"]["name"], "edit");
  EXPECT_EQ(request.left_out_tools, (std::vector<std::string>{"web_search_20250305", "computer_20250124"}));
  EXPECT_TRUE(parsed(body(R"("tools":[{"type":"web_search_20250305","name":"w"}])")).tools.is_null());
  EXPECT_EQ(
      parsed(conversation(
                 R"({"role":"user","content":"a"},{"role":"assistant","content":[{"type":"text","text":"b"},
                       {"type":"server_tool_use","id":"s","name":"web_search","input":{}},
                       {"type":"web_search_tool_result","tool_use_id":"s","content":[]}]},{"role":"user","content":"c"})"))
          .messages[1]["content"],
      "b");
}

TEST(MessagesRequest, AFinalMessageOfTheAssistantsIsContinued) {
  const std::string asked = R"({"role":"user","content":"a"},{"role":"assistant","content":)";
  ChatRequest request = parsed(conversation(asked + R"("The answer is"})"));
  ASSERT_TRUE(request.continuation);
  EXPECT_EQ(request.continuation->content, "The answer is");
  EXPECT_EQ(request.messages.size(), 1u);
  request =
      parsed(conversation(asked + R"([{"type":"thinking","thinking":"b"},{"type":"text","text":"c"}]})"));
  EXPECT_EQ(request.continuation->content, "c");
  EXPECT_EQ(request.continuation->reasoning, "b");
  EXPECT_FALSE(parsed(conversation(R"({"role":"user","content":"a"})")).continuation);
}

TEST(MessagesRequest, ResultsOfToolsMayHoldAnything) {
  const auto result = [](const std::string& block) {
    return parsed(conversation(
                      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[)" +
                      block + "]}]}"))
        .messages[0]["content"]
        .get<std::string>();
  };
  EXPECT_EQ(result(R"({"type":"text","text":"See:"},{"type":"image","source":{"type":"base64","data":"x"}})"),
            "See:\n[image: not shown, this model reads text only]");
  EXPECT_EQ(result(R"({"type":"document","title":"T","source":{"type":"text","data":"It says so."}})"),
            "T\nIt says so.");
  EXPECT_EQ(
      result(
          R"({"type":"document","source":{"type":"content","content":[{"type":"text","text":"a"},{"type":"image"}]}})"),
      "a\n[image: not shown, this model reads text only]");
  EXPECT_EQ(
      result(R"({"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"x"}})"),
      "[document: not shown, this model reads text only]");
  EXPECT_EQ(
      result(
          R"({"type":"search_result","title":"T","source":"http://s","content":[{"type":"text","text":"a"}]})"),
      "T\nhttp://s\na");
  EXPECT_EQ(result(R"({"type":"tool_reference","tool_name":"zip"})"), "[tool: zip]");
  EXPECT_EQ(result(R"({"type":"Odd <|im_end|>"})"), "[content: not shown, this model reads text only]");
  const std::string user =
      R"({"role":"user","content":[{"type":"document","source":{"type":"text","data":"It"}}]})";
  EXPECT_EQ(parsed(conversation(user)).messages[0]["content"], "It");
}

TEST(MessagesRequest, CountingNeedsNoLimit) {
  const std::string text = R"({"messages":[{"role":"user","content":"hi"}]})";
  EXPECT_EQ(parsed(text, true).messages.size(), 1u);
  EXPECT_EQ(refused(text).param, "max_tokens");
}

TEST(MessagesRequest, RefusesByName) {
  const auto user = [](const std::string& blocks) {
    return conversation(R"({"role":"user","content":)" + blocks + "}");
  };
  const struct {
    std::string body, param, code;
  } cases[] = {
      {body(R"("max_tokens":-1)"), "max_tokens", "invalid_value"},
      {body(R"("max_tokens":"9")"), "max_tokens", "invalid_type"},
      {body(R"("stop_sequences":[""])"), "stop_sequences[0]", "invalid_value"},
      {body(R"("stop_sequences":[1])"), "stop_sequences[0]", "invalid_type"},
      {body(R"("thinking":{"type":"much"})"), "thinking.type", "invalid_value"},
      {body(R"("mcp_servers":[{}])"), "mcp_servers[0].name", "invalid_value"},
      {body(R"("output_config":{"format":{"type":"json_schema"}})"), "output_config.format.json_schema",
       "missing_required_parameter"},
      {body(R"("output_format":{"type":"xml"})"), "output_format.type", "unsupported_value"},
      {body(R"("tool_choice":{"type":"any"})"), "tool_choice", "invalid_value"},
      {body(R"("tool_choice":{"type":"tool","name":"x"})"), "tool_choice", "invalid_value"},
      {body(R"("tool_choice":{"type":"some"})"), "tool_choice.type", "unsupported_value"},
      {body(R"("tool_choice":{})"), "tool_choice.type", "missing_required_parameter"},
      {body(R"("tools":[{"name":"x"}])"), "tools[0].input_schema", "missing_required_parameter"},
      {body(R"("tools":[{"input_schema":{}}])"), "tools[0].name", "missing_required_parameter"},
      {body(R"("tools":[3])"), "tools[0]", "invalid_type"},
      {body(R"("system":[{"type":"image"}])"), "system[0].type", "unsupported_value"},
      {body(R"("system":4)"), "system", "invalid_type"},
      {conversation(""), "messages", "invalid_value"},
      {R"({"max_tokens":5})", "messages", "missing_required_parameter"},
      {conversation("7"), "messages[0]", "invalid_type"},
      {conversation(R"({"role":"king","content":"a"})"), "messages[0].role", "invalid_value"},
      {conversation(R"({"role":"user"})"), "messages[0].content", "missing_required_parameter"},
      {user("[]"), "messages[0].content", "missing_required_parameter"},
      {user("5"), "messages[0].content", "invalid_type"},
      {user("[5]"), "messages[0].content[0]", "invalid_type"},
      {user(R"([{"text":"a"}])"), "messages[0].content[0].type", "missing_required_parameter"},
      {user(R"([{"type":"text"}])"), "messages[0].content[0].text", "missing_required_parameter"},
      {user(R"([{"type":"image","source":{}}])"), "messages[0].content[0].source.type",
       "missing_required_parameter"},
      {user(R"([{"type":"tool_use","id":"a","name":"b","input":{}}])"), "messages[0].content[0].type",
       "unsupported_value"},
      {user(R"([{"type":"tool_result","content":"a"}])"), "messages[0].content[0].tool_use_id",
       "missing_required_parameter"},
      {conversation(R"({"role":"user","content":"a"},{"role":"assistant","content":"The answer is"})",
                    R"("tools":[{"name":"x","input_schema":{}}],"tool_choice":{"type":"any"})"),
       "messages", "invalid_value"},
      {conversation(
           R"({"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"b"}]})",
           R"("thinking":{"type":"disabled"})"),
       "messages", "invalid_value"},
  };
  for (const auto& one : cases) {
    const ApiError error = refused(one.body);
    EXPECT_EQ(error.param, one.param) << one.body << ": " << error.message;
    EXPECT_EQ(error.code, one.code) << one.body << ": " << error.message;
    EXPECT_NE(error.message.find(one.param.substr(0, one.param.find('['))), std::string::npos)
        << error.message;
  }
}

TEST(MessagesRequest, CallsOfMcpToolsStandBeforeTheirResults) {
  const ChatRequest request =
      parsed(conversation(R"({"role":"user","content":"hi"},{"role":"assistant","content":[
      {"type":"mcp_tool_use","id":"mcptoolu_1","server_name":"sums","name":"add","input":{"a":1}},
      {"type":"mcp_tool_result","tool_use_id":"mcptoolu_1","content":[{"type":"text","text":"2"}]},
      {"type":"text","text":"Two."}]},{"role":"user","content":"And?"})"));
  std::vector<std::string> roles;
  for (const Json& message : request.messages) roles.push_back(message["role"]);
  ASSERT_EQ(roles, (std::vector<std::string>{"user", "assistant", "tool", "assistant", "user"}));
  EXPECT_EQ(request.messages[1]["tool_calls"][0]["id"], request.messages[2]["tool_call_id"]);
  EXPECT_EQ(request.messages[3]["content"], "Two.");
}

class Messages : public ServerTest {
 protected:
  void says(std::vector<std::string> parts, FinishReason finish = FinishReason::stop) {
    engine_.script = [=](const Request&) {
      Script script{parts};
      script.finish = finish;
      return script;
    };
  }
  HttpAnswer post(const std::string& text, const std::string& path = "/v1/messages") {
    return ask(port_, "POST", path, text, "x-api-key: none\r\nanthropic-version: 2023-06-01\r\n");
  }
};

const std::string kTools = R"("tools":[{"name":"f","input_schema":{"type":"object"}}])";
const std::string kCall = R"(<tool_call>{"name":"f","arguments":{"a":1.50,"b":"x"}}</tool_call>)";

TEST_F(Messages, WholeAnswers) {
  const Json message = post(body(R"("system":"S")")).json();
  EXPECT_EQ(engine_.last_prompt(), "system: S\nuser: hi\nassistant:");
  EXPECT_EQ(message["id"].get<std::string>().rfind("msg_", 0), 0u);
  EXPECT_EQ(message["type"], "message");
  EXPECT_EQ(message["role"], "assistant");
  EXPECT_EQ(message["model"], "fake-1b");
  EXPECT_EQ(message["content"].dump(), R"([{"type":"text","text":"Hello, world."}])");
  EXPECT_EQ(message["stop_reason"], "end_turn");
  EXPECT_TRUE(message["stop_sequence"].is_null());
  const Json& usage = message["usage"];
  EXPECT_EQ(usage["input_tokens"].get<size_t>() + 3, engine_.last_prompt().size());  // 3 are cached
  EXPECT_EQ(usage["cache_read_input_tokens"], 3);
  EXPECT_EQ(usage["cache_creation_input_tokens"], 0);
  EXPECT_EQ(usage["output_tokens"], 13);
}

TEST_F(Messages, BlocksStandInTheOrderOfWriting) {
  says({"<think>Hm.</think>I call. ", kCall, kCall});
  const Json message = post(body(kTools)).json();
  const Json& content = message["content"];
  ASSERT_EQ(content.size(), 4u) << content.dump();
  EXPECT_EQ(content[0].dump(), R"({"type":"thinking","thinking":"Hm.","signature":""})");
  EXPECT_EQ(content[1].dump(), R"({"type":"text","text":"I call."})");
  for (int i : {2, 3}) {
    EXPECT_EQ(content[i]["type"], "tool_use");
    EXPECT_EQ(content[i]["id"].get<std::string>().rfind("toolu_", 0), 0u);
    EXPECT_EQ(content[i]["id"].get<std::string>().size(), 30u);
    EXPECT_EQ(content[i]["name"], "f");
    EXPECT_EQ(content[i]["input"]["b"], "x");
  }
  EXPECT_NE(content[2]["id"], content[3]["id"]);
  EXPECT_EQ(message["stop_reason"], "tool_use");
}

TEST_F(Messages, NumbersOfACallStayAsWritten) {
  says({R"(<tool_call>{"name":"f","arguments":{"n":123456789012345678901234567890}}</tool_call>)"});
  EXPECT_NE(post(body(kTools)).body.find("123456789012345678901234567890"), std::string::npos);
}

TEST_F(Messages, StopReasons) {
  Json message = post(body(R"("stop_sequences":["zzz",", wo"])")).json();
  EXPECT_EQ(message["stop_reason"], "stop_sequence");
  EXPECT_EQ(message["stop_sequence"], ", wo");
  EXPECT_EQ(message["content"][0]["text"], "Hello");
  message = post(R"({"max_tokens":5,"messages":[{"role":"user","content":"hi"}]})").json();
  EXPECT_EQ(message["stop_reason"], "max_tokens");
  says({""});
  message = post(body()).json();
  EXPECT_EQ(message["content"].dump(), "[]");
  EXPECT_EQ(message["stop_reason"], "end_turn");
  says({kCall, kCall});
  message = post(body(kTools + R"(,"tool_choice":{"type":"auto","disable_parallel_tool_use":true})")).json();
  EXPECT_EQ(message["content"].size(), 1u);
  EXPECT_EQ(message["stop_reason"], "tool_use");
}

TEST_F(Messages, ThinkingIsPassedOn) {
  post(body(R"("thinking":{"type":"enabled","budget_tokens":77})"));
  EXPECT_TRUE(engine_.last_request().output.thinking_open);
  EXPECT_EQ(engine_.last_request().thinking.budget, 77);
  post(body(R"("thinking":{"type":"disabled"})"));
  EXPECT_FALSE(engine_.last_request().output.thinking_open);
}

// The event's name of each event, and that its data says the same.
std::vector<std::string> names(const std::string& text) {
  std::vector<std::string> list;
  const auto data = events(text);
  for (size_t at = 0; (at = text.find("event: ", at)) != std::string::npos;) {
    const size_t end = text.find("\ndata: ", at);
    list.push_back(text.substr(at + 7, end - at - 7));
    at = end;
    if (list.size() > data.size() || data[list.size() - 1]["type"] != list.back()) {
      ADD_FAILURE() << text;
      break;
    }
  }
  EXPECT_EQ(list.size(), data.size());
  return list;
}

TEST_F(Messages, StreamsHaveAnthropicsShape) {
  says({"<think>H", "m.</think>", "I call. ", kCall, "Done."});
  const HttpAnswer answer = post(body(kTools + R"(,"stream":true)"));
  EXPECT_EQ(answer.headers.at("content-type"), "text/event-stream; charset=utf-8");
  const auto kinds = names(answer.body);
  const auto list = events(answer.body);
  ASSERT_GE(list.size(), 4u);
  EXPECT_EQ(kinds.front(), "message_start");
  const Json& start = list[0]["message"];
  EXPECT_EQ(start["content"].dump(), "[]");
  EXPECT_TRUE(start["stop_reason"].is_null());
  EXPECT_EQ(start["usage"]["input_tokens"].get<size_t>() + 3, engine_.last_prompt().size());
  EXPECT_EQ(start["usage"]["cache_read_input_tokens"], 3);
  EXPECT_EQ(kinds.back(), "message_stop");
  const Json& end = list[list.size() - 2];
  EXPECT_EQ(end["type"], "message_delta");
  EXPECT_EQ(end["delta"].dump(), R"({"stop_reason":"tool_use","stop_sequence":null})");
  EXPECT_EQ(end["usage"]["cache_read_input_tokens"], 3);
  EXPECT_GT(end["usage"]["output_tokens"], 0);
  // Block by block, as clients put them together: one is open at a time.
  std::vector<Json> blocks;
  bool open = false;
  std::string partial;
  for (const Json& event : list) {
    const std::string type = event["type"];
    if (type == "content_block_start") {
      EXPECT_FALSE(open);
      EXPECT_EQ(event["index"], blocks.size());
      blocks.push_back(event["content_block"]);
      open = true;
    } else if (type == "content_block_delta") {
      EXPECT_TRUE(open);
      EXPECT_EQ(event["index"], blocks.size() - 1);
      const Json& delta = event["delta"];
      const std::string kind = delta["type"];
      if (kind == "thinking_delta")
        blocks.back()["thinking"] =
            blocks.back()["thinking"].get<std::string>() + delta["thinking"].get<std::string>();
      else if (kind == "text_delta")
        blocks.back()["text"] = blocks.back()["text"].get<std::string>() + delta["text"].get<std::string>();
      else if (kind == "input_json_delta")
        partial += delta["partial_json"].get<std::string>();
      else
        EXPECT_EQ(delta.dump(), R"({"type":"signature_delta","signature":""})");
    } else if (type == "content_block_stop") {
      EXPECT_TRUE(open);
      EXPECT_EQ(event["index"], blocks.size() - 1);
      open = false;
    }
  }
  EXPECT_FALSE(open);
  ASSERT_EQ(blocks.size(), 4u) << answer.body;
  EXPECT_EQ(blocks[0]["thinking"], "Hm.");
  EXPECT_EQ(blocks[1]["text"], "I call.");
  EXPECT_EQ(blocks[2]["input"].dump(), "{}");
  EXPECT_EQ(blocks[2]["name"], "f");
  EXPECT_EQ(Json::parse(partial).dump(), R"({"a":1.5,"b":"x"})");
  EXPECT_EQ(blocks[3]["text"], "Done.");
}

TEST_F(Messages, CountsTokens) {
  const std::string path = "/v1/messages/count_tokens";
  const Json count = post(R"({"messages":[{"role":"user","content":"hi"}],"system":"S"})", path).json();
  EXPECT_EQ(count.dump(), R"({"input_tokens":29})");  // "system: S\nuser: hi\nassistant:"
  EXPECT_EQ(engine_.stats().requests, 0u);
  const std::string too_long(3000, 'x');  // the context has 1000
  const HttpAnswer answer = post(R"({"messages":[{"role":"user","content":")" + too_long + R"("}]})", path);
  EXPECT_GT(answer.json()["input_tokens"], 3000);
  EXPECT_EQ(post("{}", path).json()["error"]["type"], "invalid_request_error");
}

TEST_F(Messages, ErrorsHaveAnthropicsShape) {
  const auto expect = [](const HttpAnswer& answer, int status, const std::string& type) {
    EXPECT_EQ(answer.status, status) << answer.body;
    const Json json = answer.json();
    EXPECT_EQ(json["type"], "error") << answer.body;
    EXPECT_EQ(json["error"]["type"], type) << answer.body;
    EXPECT_FALSE(json["error"]["message"].get<std::string>().empty());
    return json["error"]["message"].get<std::string>();
  };
  expect(post("{"), 400, "invalid_request_error");
  EXPECT_NE(expect(post("{}"), 400, "invalid_request_error").find("max_tokens"), std::string::npos);
  expect(post("{}", "/v1/messages/batches"), 404, "not_found_error");
  const HttpAnswer get = ask(port_, "GET", "/v1/messages");
  expect(get, 405, "invalid_request_error");
  EXPECT_EQ(get.headers.at("allow"), "POST");
  const std::string too_long = R"({"role":"user","content":")" + std::string(3000, 'x') + R"("})";
  EXPECT_EQ(expect(post(conversation(too_long)), 400, "invalid_request_error").rfind("prompt is too long", 0),
            0u);
  expect(post(conversation(R"({"role":"user","content":"raise"})")), 400, "invalid_request_error");
  engine_.max_queue = 0;
  const HttpAnswer full = post(body());
  expect(full, 529, "overloaded_error");
  EXPECT_EQ(full.headers.count("retry-after"), 1u);
}

// Errors of the HTTP layer, which the API never sees, have the same form.
TEST_F(Messages, UnreadableRequestsGetAnthropicsErrors) {
  ServerOptions options;
  options.port = 0;
  options.limits.body_bytes = 20000;
  options.limits.all_body_bytes = 10000;
  options.limits.body_s = 0.2;
  auto server = Server::start(served_by(engine_), options);
  ASSERT_TRUE(server.ok());
  const auto expect = [&](const std::string& rest, int status, const std::string& type) {
    TestClient client((*server)->port());
    client.send("POST /v1/messages?beta=true HTTP/1.1\r\nHost: localhost\r\n" + rest);
    const HttpAnswer answer = client.read_answer();
    EXPECT_EQ(answer.status, status) << rest;
    EXPECT_EQ(answer.json()["type"], "error") << answer.body;
    EXPECT_EQ(answer.json()["error"]["type"], type) << answer.body;
    EXPECT_EQ(answer.json()["error"].size(), 2u) << answer.body;
    return answer;
  };
  expect("Content-Length: 20001\r\n\r\n", 413, "request_too_large");
  expect("Content-Length: 10\r\n\r\n{", 408, "invalid_request_error");
  expect("Content-Length: x\r\n\r\n", 400, "invalid_request_error");
  expect("X: " + std::string(40000, 'x'), 431, "invalid_request_error");
  const HttpAnswer full =
      expect("Content-Length: 15000\r\n\r\n" + std::string(15000, ' '), 529, "overloaded_error");
  EXPECT_EQ(full.headers.at("retry-after"), "5");
}

TEST_F(Messages, AFailingEngineEndsTheStreamWithAnErrorEvent) {
  engine_.script = [](const Request&) {
    Script script{{"Hel", "lo"}};
    script.finish = FinishReason::error;
    script.error = "out of memory";
    return script;
  };
  const HttpAnswer answer = post(body(R"("stream":true)"));
  EXPECT_EQ(names(answer.body).back(), "error");
  const Json error = events(answer.body).back();
  EXPECT_EQ(error["error"]["type"], "api_error");
  EXPECT_NE(error["error"]["message"].get<std::string>().find("out of memory"), std::string::npos);
  EXPECT_EQ(answer.body.find("message_stop"), std::string::npos);
  EXPECT_EQ(post(body()).json()["error"]["type"], "api_error");
}

TEST_F(Messages, SilentStreamsArePinged) {
  ServerOptions options;
  options.port = 0;
  options.limits.heartbeat_s = 0.05;
  auto server = Server::start(served_by(engine_), options);
  ASSERT_TRUE(server.ok());
  engine_.script = [](const Request&) { return Script{{"a", "b"}, std::chrono::milliseconds(400)}; };
  const HttpAnswer answer = ask((*server)->port(), "POST", "/v1/messages", body(R"("stream":true)"));
  const auto kinds = names(answer.body);
  EXPECT_NE(std::find(kinds.begin(), kinds.end(), "ping"), kinds.end()) << answer.body;
}

}  // namespace
}  // namespace anabranch::server
