// Calls with long arguments, which are sent while the model writes them: the pieces make up the whole call.
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

const std::string kArguments =
    R"({"path": "a.txt", "content": "line 1\nline \"2\", which is long enough for a call to begin", "n": 1.50})";
const std::string kCall = R"(<tool_call>{"name": "write", "arguments": )" + kArguments + "}</tool_call>";
constexpr const char* kChatTools =
    R"("tools":[{"type":"function","function":{"name":"write","parameters":{"type":"object"}}}])";
constexpr const char* kMessageTools = R"("tools":[{"name":"write","input_schema":{"type":"object"}}])";
constexpr const char* kResponseTools =
    R"("tools":[{"type":"function","name":"write","parameters":{"type":"object"}}])";

class CallStreams : public ServerTest {
 protected:
  // Writes it in pieces of five bytes, and marks, which are tokens, as a whole.
  void says(const std::string& text, FinishReason finish = FinishReason::stop) {
    Script script;
    for (size_t at = 0; at < text.size(); at += script.parts.back().size()) {
      const size_t mark = std::min(text.find('<', at), text.size());
      const size_t size = mark == at ? text.find('>', at) + 1 - at : std::min<size_t>(5, mark - at);
      script.parts.push_back(text.substr(at, size));
    }
    script.finish = finish;
    engine_.script = [script](const Request&) { return script; };
  }
  Json whole(const std::string& path, const std::string& fields) {
    return post(path, "{" + fields + "}").json();
  }
  std::vector<Json> streamed(const std::string& path, const std::string& fields) {
    std::istringstream in(post(path, "{" + fields + R"(,"stream":true})").body);
    std::vector<Json> events;
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("data: {")) line.erase(0, 6);
      if (line.starts_with(" {") || line.starts_with("{")) events.push_back(parse_json(line).value());
    }
    return events;
  }

  static inline const std::string kChat =
      std::string(R"("messages":[{"role":"user","content":"hi"}],)") + kChatTools;
  static inline const std::string kMessage =
      std::string(R"("max_tokens":500,"messages":[{"role":"user","content":"hi"}],)") + kMessageTools;
  static inline const std::string kResponse = std::string(R"("input":"hi",)") + kResponseTools;
};

TEST_F(CallStreams, Chat) {
  says(kCall + kCall);
  const Json calls = whole("/v1/chat/completions", kChat)["choices"][0]["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 2u);
  std::vector<std::string> arguments;
  size_t pieces = 0;
  for (const Json& event : streamed("/v1/chat/completions", kChat)) {
    const Json& delta = event["choices"][0]["delta"];
    if (!delta.contains("tool_calls")) continue;
    const Json& call = delta["tool_calls"][0];
    if (call.contains("id")) {
      EXPECT_EQ(call["function"].dump(), R"({"name":"write","arguments":""})");
      arguments.emplace_back();
    }
    ASSERT_EQ(call["index"], arguments.size() - 1);
    arguments.back() += call["function"]["arguments"].get<std::string>();
    ++pieces;
  }
  EXPECT_EQ(arguments, (std::vector<std::string>{kArguments, kArguments}));
  for (const Json& call : calls) EXPECT_EQ(call["function"]["arguments"], kArguments);
  EXPECT_GT(pieces, 10u);
}

TEST_F(CallStreams, Messages) {
  says("So: " + kCall);
  const Json message = whole("/v1/messages", kMessage);
  ASSERT_EQ(message["content"].size(), 2u);
  std::string input, kinds;
  size_t pieces = 0;
  for (const Json& event : streamed("/v1/messages", kMessage)) {
    const std::string type = event["type"];
    if (type == "content_block_delta" && event["delta"].contains("partial_json")) {
      EXPECT_EQ(event["index"], 1);
      input += event["delta"]["partial_json"].get<std::string>();
      ++pieces;
    }
    if (type == "content_block_start" || type == "content_block_stop")
      kinds += type + " " + event["index"].dump() + " ";
  }
  EXPECT_EQ(kinds, "content_block_start 0 content_block_stop 0 content_block_start 1 content_block_stop 1 ");
  EXPECT_EQ(input, kArguments);
  EXPECT_EQ(message["content"][1]["input"], parse_json(kArguments).value());
  EXPECT_GT(pieces, 5u);
}

TEST_F(CallStreams, Responses) {
  says(kCall);
  const Json item = whole("/v1/responses", kResponse)["output"][0];
  EXPECT_EQ(item["arguments"], kArguments);
  EXPECT_EQ(item["status"], "completed");
  std::string arguments, order;
  size_t pieces = 0;
  for (const Json& event : streamed("/v1/responses", kResponse)) {
    const std::string type = event["type"];
    if (type == "response.function_call_arguments.delta") {
      EXPECT_FALSE(order.empty());
      arguments += event["delta"].get<std::string>();
      ++pieces;
    } else if (type == "response.function_call_arguments.done") {
      EXPECT_EQ(event["arguments"], arguments);
      order += "arguments ";
    } else if (type == "response.output_item.added" || type == "response.output_item.done") {
      order += event["item"]["arguments"].get<std::string>() + " ";
    }
  }
  EXPECT_EQ(order, " arguments " + kArguments + " ");
  EXPECT_EQ(arguments, kArguments);
  EXPECT_GT(pieces, 5u);
}

TEST_F(CallStreams, OllamasCallsComeWhole) {
  says(kCall);
  const Json call = whole("/api/chat", kChat + R"(,"stream":false)")["message"]["tool_calls"][0];
  size_t calls = 0;
  for (const Json& event : streamed("/api/chat", kChat)) {
    if (!event["message"].contains("tool_calls")) continue;
    EXPECT_EQ(event["message"]["tool_calls"][0]["function"], call["function"]);
    ++calls;
  }
  EXPECT_EQ(calls, 1u);
  EXPECT_EQ(call["function"]["arguments"], parse_json(kArguments).value());
}

// A call that was cut has what came of it; it is never taken for a whole one.
TEST_F(CallStreams, CallsThatAreCut) {
  const size_t cut = kCall.find("begin");
  says(kCall.substr(0, cut), FinishReason::length);
  const std::string came = kArguments.substr(0, kArguments.find("begin"));
  const Json choice = whole("/v1/chat/completions", kChat)["choices"][0];
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["arguments"], came);
  EXPECT_EQ(choice["finish_reason"], "length");
  std::string arguments;
  for (const Json& event : streamed("/v1/chat/completions", kChat))
    if (const Json& delta = event["choices"][0]["delta"]; delta.contains("tool_calls"))
      arguments += delta["tool_calls"][0]["function"]["arguments"].get<std::string>();
  EXPECT_EQ(arguments, came);
  const Json message = whole("/v1/messages", kMessage);
  EXPECT_EQ(message["content"][0]["input"], Json::object({{"INVALID_JSON", came}}));
  EXPECT_EQ(message["stop_reason"], "max_tokens");
  for (const Json& item : {whole("/v1/responses", kResponse)["output"][0],
                           streamed("/v1/responses", kResponse).back()["response"]["output"][0]}) {
    EXPECT_EQ(item["arguments"], came);
    EXPECT_EQ(item["status"], "incomplete");
  }
  EXPECT_FALSE(whole("/api/chat", kChat + R"(,"stream":false)")["message"].contains("tool_calls"));
}

TEST_F(CallStreams, NoSecondCallBegins) {
  says(kCall + kCall);
  const std::string one = kChat + R"(,"parallel_tool_calls":false)";
  EXPECT_EQ(whole("/v1/chat/completions", one)["choices"][0]["message"]["tool_calls"].size(), 1u);
  for (const Json& event : streamed("/v1/chat/completions", one))
    if (const Json& delta = event["choices"][0]["delta"]; delta.contains("tool_calls")) {
      EXPECT_EQ(delta["tool_calls"][0]["index"], 0);
    }
}

// The input of a custom tool is made from the whole arguments.
TEST_F(CallStreams, CustomTools) {
  const std::string input = std::string(100, 'p');
  says(R"(<tool_call>{"name": "patch", "arguments": {"input": ")" + input + R"("}}</tool_call>)");
  const std::string fields = R"("input":"hi","tools":[{"type":"custom","name":"patch"}])";
  size_t deltas = 0;
  for (const Json& event : streamed("/v1/responses", fields)) {
    if (event["type"] != "response.custom_tool_call_input.delta") continue;
    EXPECT_EQ(event["delta"], input);
    ++deltas;
  }
  EXPECT_EQ(deltas, 1u);
  std::string came;
  for (
      const Json& event : streamed(
          "/v1/chat/completions",
          R"("messages":[{"role":"user","content":"hi"}],"tools":[{"type":"custom","custom":{"name":"patch"}}])"))
    if (const Json& delta = event["choices"][0]["delta"]; delta.contains("tool_calls"))
      came += delta["tool_calls"][0]["custom"]["input"].get<std::string>();
  EXPECT_EQ(came, input);
}

}  // namespace
}  // namespace anabranch::server
