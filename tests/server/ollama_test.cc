// Ollama's routes: what is taken, whole answers, streams, models, errors.
#include "server/api/keep_alive.h"
#include "server/api/ollama/models.h"
#include "server/api/ollama/request.h"
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

class Ollama : public ServerTest {
 protected:
  HttpAnswer chat(const std::string& messages, const std::string& extra = "") {
    return post("/api/chat", "{\"messages\":" + messages + (extra.empty() ? "" : "," + extra) + "}");
  }
  void says(std::vector<std::string> parts, FinishReason finish = FinishReason::stop) {
    engine_.script = [parts, finish](const Request&) { return Script{parts, {}, finish}; };
  }
};

std::vector<Json> lines_of(const std::string& body) {
  std::vector<Json> out;
  std::istringstream in(body);
  for (std::string line; std::getline(in, line);) out.push_back(parse_json(line).value());
  return out;
}

constexpr const char* kHi = R"([{"role":"user","content":"hi"}])";

TEST_F(Ollama, WholeAnswers) {
  const Json answer = chat(kHi, R"("stream":false,"options":{"num_predict":70,"temperature":0.5,"stop":"x",
      "repeat_penalty":1.5,"repeat_last_n":-1,"num_ctx":4096})")
                          .json();
  EXPECT_EQ(engine_.last_prompt(), "user: hi\nassistant:");
  const Request request = engine_.last_request();
  EXPECT_EQ(request.max_tokens, 70);
  EXPECT_EQ(request.bound, TokenBound::shared);
  EXPECT_EQ(request.sampling.temperature, 0.5f);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.5f);
  EXPECT_EQ(request.stop, std::vector<std::string>{"x"});
  EXPECT_EQ(answer["model"], "fake-1b");
  EXPECT_EQ(answer["message"].dump(), R"({"role":"assistant","content":"Hello, world."})");
  EXPECT_EQ(answer["done"], true);
  EXPECT_EQ(answer["done_reason"], "stop");
  EXPECT_EQ(answer["prompt_eval_count"].get<size_t>(), engine_.last_prompt().size());
  EXPECT_EQ(answer["eval_count"], 13);
  EXPECT_GT(answer["total_duration"], 0);
  EXPECT_EQ(answer["created_at"].get<std::string>().size(),
            std::string("2026-01-01T00:00:00.000000000Z").size());
}

TEST_F(Ollama, StreamsAreLines) {
  says({"Hello", ", you"}, FinishReason::length);
  const auto answer = chat(kHi);
  EXPECT_EQ(answer.headers.at("content-type"), "application/x-ndjson");
  const auto lines = lines_of(answer.body);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0]["message"]["content"], "Hello");
  EXPECT_EQ(lines[0]["done"], false);
  EXPECT_EQ(lines[1]["message"]["content"], ", you");
  EXPECT_EQ(lines[2]["message"]["content"], "");
  EXPECT_EQ(lines[2]["done_reason"], "length");
}

TEST_F(Ollama, CallsComeWhole) {
  constexpr const char* kTools =
      R"("tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}])";
  says({"<tool_call>{\"name\":\"f\",\"argu", "ments\":{\"a\":[1]}}</tool_call>"});
  const auto lines = lines_of(chat(kHi, kTools).body);
  ASSERT_EQ(lines.size(), 2u);
  const Json& call = lines[0]["message"]["tool_calls"][0];
  EXPECT_EQ(call["function"].dump(), R"({"index":0,"name":"f","arguments":{"a":[1]}})");
  EXPECT_EQ(call["id"].get<std::string>().rfind("call_", 0), 0u);
  const Json whole = chat(kHi, std::string(kTools) + ",\"stream\":false").json();
  EXPECT_EQ(whole["message"]["tool_calls"][0]["function"], call["function"]);
  EXPECT_EQ(whole["done_reason"], "stop");
}

// Calls have no ids in Ollama's messages: a result belongs to the call at its place.
TEST_F(Ollama, ResultsFindTheirCalls) {
  const RequestDefaults defaults{SamplingParams{}, {}, 1000};
  const auto parsed = parse_ollama_request(R"({"messages":[{"role":"user","content":"?"},
      {"role":"assistant","content":"","thinking":"hm","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}},
       {"function":{"name":"g","arguments":{}}}]},
      {"role":"tool","tool_name":"f","content":"1"},{"role":"tool","content":"2"},
      {"role":"assistant","content":"","tool_calls":[{"function":{"name":"h","arguments":{}}}]},
      {"role":"tool","content":"3"}]})",
                                           false, defaults);
  const auto& messages = std::get<ChatRequest>(parsed->asks).messages;
  EXPECT_EQ(messages[1]["reasoning_content"], "hm");
  EXPECT_EQ(messages[1]["tool_calls"][1]["id"], messages[3]["tool_call_id"]);
  EXPECT_EQ(messages[1]["tool_calls"][0]["id"], messages[2]["tool_call_id"]);
  EXPECT_EQ(messages[4]["tool_calls"][0]["id"], messages[5]["tool_call_id"]);
  EXPECT_EQ(messages[2]["name"], "f");
}

TEST_F(Ollama, Generate) {
  const Json answer = post("/api/generate", R"({"prompt":"hi","system":"S","stream":false})").json();
  EXPECT_EQ(engine_.last_prompt(), "system: S\nuser: hi\nassistant:");
  EXPECT_EQ(answer["response"], "Hello, world.");
  post("/api/generate", R"({"prompt":"hi","raw":true,"stream":false})");
  EXPECT_EQ(engine_.last_prompt(), "hi");
  EXPECT_EQ(lines_of(post("/api/generate", R"({"prompt":"hi"})").body).back()["done"], true);
}

TEST_F(Ollama, RequestsWithoutAPromptLoadAndUnload) {
  EXPECT_EQ(post("/api/generate", "{}").json()["done_reason"], "load");
  EXPECT_EQ(chat("[]").json()["message"]["content"], "");
  EXPECT_EQ(post("/api/generate", R"({"keep_alive":0})").json()["done_reason"], "unload");
}

TEST_F(Ollama, KeepAlive) {
  const auto read = [](const std::string& value) {
    const Json body = parse_json("{\"keep_alive\":" + value + "}").value();
    JsonFields fields(body);
    const auto seconds = read_keep_alive(fields);
    return fields.error() ? std::optional<double>() : seconds;
  };
  EXPECT_EQ(read("300"), 300);
  EXPECT_EQ(read("-1"), -1);
  EXPECT_EQ(read("\"5m\""), 300);
  EXPECT_EQ(read("\"1h30m10s\""), 5410);
  EXPECT_EQ(read("\"1500ms\""), 1.5);
  EXPECT_EQ(read("\"-1s\""), -1);
  EXPECT_EQ(read("\"24\""), 24);
  for (const char* wrong : {"\"\"", "\"5 minutes\"", "\"m\"", "\"5m3\"", "true", "[]", "\"--5m\""})
    EXPECT_EQ(read(wrong), std::nullopt) << wrong;
}

TEST_F(Ollama, Models) {
  const Json listed = ask(port_, "GET", "/api/tags").json()["models"];
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0]["name"], "fake-1b:latest");
  EXPECT_EQ(listed[0]["digest"].get<std::string>().size(), 64u);
  EXPECT_EQ(ask(port_, "GET", "/api/ps").json()["models"][0]["name"], "fake-1b:latest");
  EXPECT_EQ(ollama_name("org/model"), "org/model:latest");
  EXPECT_EQ(ollama_name("host:80/org/model"), "host:80/org/model:latest");
  for (const char* tagged : {"llama3:8b", "hf.co/org/model:Q4_K_M", "a:latest"})
    EXPECT_EQ(ollama_name(tagged), tagged);
  EXPECT_EQ(without_latest("a:latest"), "a");
  EXPECT_EQ(without_latest("a:latest-2"), "a:latest-2");
  const Json shown = post("/api/show", R"({"model":"fake-1b:latest"})").json();
  EXPECT_EQ(shown["capabilities"][0], "completion");
  EXPECT_EQ(shown["model_info"]["general.basename"], "fake-1b") << "what people see has no tag";
  EXPECT_EQ(shown["model_info"]["fake.context_length"], 1000) << "what is served";
  EXPECT_EQ(ask(port_, "GET", "/api/version").status, 200);
}

TEST_F(Ollama, TextsToEmbedAreCutToTheContext) {
  engine_.mutable_info().pooling = Pooling::mean;
  const auto embed = [&](const std::string& more) {
    return post("/api/embed", Json{{"model", "fake-1b"}, {"input", std::string(2000, 'a')}}.dump().replace(
                                  0, 1, "{" + more));
  };
  EXPECT_EQ(embed("").status, 200);
  EXPECT_EQ(engine_.last_request().prompt.size(), 999u);
  EXPECT_EQ(embed(R"("truncate":false,)").status, 400);
}

TEST_F(Ollama, Errors) {
  const auto expect = [](const HttpAnswer& answer, int status, const std::string& part) {
    EXPECT_EQ(answer.status, status) << answer.body;
    const Json json = answer.json();
    ASSERT_TRUE(json["error"].is_string()) << answer.body;
    EXPECT_NE(json["error"].get<std::string>().find(part), std::string::npos) << answer.body;
  };
  expect(chat(kHi, R"("options":{"mirostat":3})"), 400, "options.mirostat");
  expect(chat(kHi, R"("options":5)"), 400, "options");
  expect(chat(R"([{"role":"user","content":"a","images":["aaaa"]}])"), 400, "images");
  expect(chat(R"([5])"), 400, "messages[0]");
  expect(chat(kHi, R"("keep_alive":"soon")"), 400, "keep_alive");
  expect(post("/api/generate", R"({"prompt":"a","suffix":"b"})"), 400, "suffix");
  expect(post("/api/chat", "[]"), 400, "object");
  expect(post("/api/show", "{}"), 400, "model");
  expect(post("/api/nothing", "{}"), 404, "Unknown route");
  says({"x"}, FinishReason::error);
  EXPECT_TRUE(lines_of(chat(kHi).body).back().contains("error"));
}

}  // namespace
}  // namespace anabranch::server
