// Every route and every error, through a real socket.
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

class Api : public ServerTest {
 protected:
  HttpAnswer chat(const std::string& body) { return post("/v1/chat/completions", body); }

  static constexpr const char* kHi = R"({"messages":[{"role":"user","content":"hi"}]})";
  static std::string hi(const std::string& extra) {
    return R"({"messages":[{"role":"user","content":"hi"}],)" + extra + "}";
  }
};

TEST_F(Api, ChatAnswersInOpenAisShape) {
  const HttpAnswer answer = chat(kHi);
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.headers.at("content-type"), "application/json");
  const Json json = answer.json();
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["id"].get<std::string>().rfind("chatcmpl-", 0), 0u);
  EXPECT_EQ(json["model"], "fake-1b");
  EXPECT_GT(json["created"].get<int64_t>(), 1700000000);
  EXPECT_TRUE(json["system_fingerprint"].is_string());
  ASSERT_EQ(json["choices"].size(), 1u);
  const Json& choice = json["choices"][0];
  EXPECT_EQ(choice["index"], 0);
  EXPECT_EQ(choice["message"]["role"], "assistant");
  EXPECT_EQ(choice["message"]["content"], "Hello, world.");
  EXPECT_FALSE(choice["message"].contains("reasoning_content"));
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_TRUE(choice["logprobs"].is_null());
  EXPECT_EQ(engine_.last_prompt(), "user: hi\nassistant:");
  const int prompt = static_cast<int>(engine_.last_request().prompt.size());
  EXPECT_EQ(json["usage"]["prompt_tokens"], prompt);
  EXPECT_EQ(json["usage"]["completion_tokens"], 13);
  EXPECT_EQ(json["usage"]["total_tokens"], prompt + 13);
  EXPECT_EQ(json["usage"]["prompt_tokens_details"]["cached_tokens"], 3);
  EXPECT_EQ(json["usage"]["completion_tokens_details"]["reasoning_tokens"], 0);
}

TEST_F(Api, PassesWhatWasAskedToTheEngine) {
  ASSERT_EQ(chat(hi(R"("temperature":0.5,"seed":12,"stop":["zz"],"max_tokens":4)")).status, 200);
  const Request request = engine_.last_request();
  EXPECT_EQ(request.sampling.temperature, 0.5f);
  EXPECT_EQ(request.sampling.top_k, 7);
  EXPECT_EQ(request.sampling.seed, 12u);
  EXPECT_EQ(request.max_tokens, 4);
  EXPECT_EQ(request.stop, std::vector<std::string>{"zz"});
  EXPECT_FALSE(request.output.thinking_open);
}

TEST_F(Api, DeclaredVolatileTextDoesNotSpoilThePrefix) {
  ServerOptions options;
  auto pattern = Regex::compile("It is \\d+ o'clock\\.");
  ASSERT_TRUE(pattern.ok());
  options.volatile_text.push_back({std::move(*pattern), false});
  start(std::move(options));
  const auto prompt = [&](const std::string& hour) {
    EXPECT_EQ(chat(R"({"messages":[{"role":"system","content":"It is )" + hour +
                   R"( o'clock. Help."},{"role":"user","content":"hi"}]})")
                  .status,
              200);
    return engine_.tokenizer().decode(engine_.last_request().prompt, false);
  };
  const std::string at_five = prompt("5"), at_seven = prompt("7");
  const size_t hour = at_five.find("It is 5 o'clock.");
  ASSERT_NE(hour, std::string::npos) << at_five;
  EXPECT_GT(hour, at_five.find("hi"));
  EXPECT_EQ(at_five.substr(0, hour), at_seven.substr(0, hour));
}

TEST_F(Api, DrawsADifferentSeedForEachRequest) {
  ASSERT_EQ(chat(kHi).status, 200);
  const uint64_t first = engine_.last_request().sampling.seed;
  ASSERT_EQ(chat(kHi).status, 200);
  EXPECT_NE(engine_.last_request().sampling.seed, first);
}

TEST_F(Api, FinishReasonLength) {
  const Json json = chat(hi(R"("max_tokens":5)")).json();
  EXPECT_EQ(json["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(json["choices"][0]["message"]["content"], "Hello");
  EXPECT_EQ(json["usage"]["completion_tokens"], 5);
}

TEST_F(Api, MlxLmsRouteAndAnAnswerOfNoTokens) {
  const HttpAnswer answer =
      post("/chat/completions", R"({"max_tokens":0,"messages":[{"role":"user","content":"hi"}]})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json()["choices"][0]["message"]["content"], "");
  EXPECT_EQ(answer.json()["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(answer.json()["usage"]["completion_tokens"], 0);
}

TEST_F(Api, SplitsReasoningFromContent) {
  engine_.script = [](const Request& r) {
    return r.output.thinking_open ? Script{{"hm, ", "so\n</think>", "\n\nYes"}}
                                  : Script{{"<think>\na\n</think>\n\nNo"}};
  };
  Json message = chat(hi(R"("enable_thinking":true)")).json()["choices"][0]["message"];
  EXPECT_TRUE(engine_.last_request().output.thinking_open);
  EXPECT_NE(message["content"].get<std::string>().find("Yes"), std::string::npos);
  EXPECT_EQ(message["content"].get<std::string>().find("think"), std::string::npos);
  EXPECT_EQ(message["reasoning_content"].get<std::string>().rfind("hm, so", 0), 0u);
  EXPECT_FALSE(message.contains("reasoning"));
  message = chat(kHi).json()["choices"][0]["message"];
  EXPECT_FALSE(engine_.last_request().output.thinking_open);
  EXPECT_NE(message["content"].get<std::string>().find("No"), std::string::npos);
  EXPECT_NE(message["reasoning_content"].get<std::string>().find("a"), std::string::npos);
}

TEST_F(Api, TagsThatAreOnlySpelledAreText) {
  engine_.script = [](const Request&) { return Script{{"split(\"</th", "ink>\") and <tool", "_call>{}"}}; };
  const Json message =
      chat(hi(R"("enable_thinking":false,"tools":[{"type":"function","function":{"name":"f"}}])"))
          .json()["choices"][0]["message"];
  EXPECT_EQ(message["content"], "split(\"</think>\") and <tool_call>{}");
  EXPECT_FALSE(message.contains("reasoning_content"));
}

TEST_F(Api, ATagThatAMessageWroteDoesNotOpenThinking) {
  ASSERT_EQ(
      chat(R"({"messages":[{"role":"user","content":"what is <think>?"}],"enable_thinking":false})").status,
      200);
  EXPECT_FALSE(engine_.last_request().output.thinking_open);
}

const char* const kTools = R"("tools":[{"type":"function","function":{"name":"f","parameters":
    {"type":"object","properties":{"city":{"type":"string"}}}}}])";
const char* const kCall = R"(<tool_call>{"name": "f", "arguments": {"city": "Paris"}}</tool_call>)";

TEST_F(Api, ToolCalls) {
  engine_.script = [](const Request&) {
    return Script{{"<think>Hm.</think>\n\nLooking.\n\n", kCall,
                   "\n<tool_call>\n<function=f>\n<parameter=city>\n",
                   "12\n</parameter>\n</function>\n</tool_call>"}};
  };
  const Json choice = chat(hi(kTools)).json()["choices"][0];
  EXPECT_NE(engine_.last_prompt().find(R"([tools [{"type":"function")"), std::string::npos);
  const Json& message = choice["message"];
  EXPECT_EQ(message["content"], "Looking.");
  EXPECT_EQ(message["reasoning_content"], "Hm.");
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  const Json& calls = message["tool_calls"];
  ASSERT_EQ(calls.size(), 2u);
  for (const Json& call : calls) {
    EXPECT_EQ(call["type"], "function");
    EXPECT_EQ(call["function"]["name"], "f");
    const std::string id = call["id"];
    EXPECT_EQ(id.size(), 29u) << id;
    EXPECT_EQ(id.rfind("call_", 0), 0u) << id;
  }
  EXPECT_NE(calls[0]["id"], calls[1]["id"]);
  EXPECT_EQ(calls[0]["function"]["arguments"], R"({"city": "Paris"})");
  EXPECT_EQ(calls[1]["function"]["arguments"], R"({"city": "12"})");
}

TEST_F(Api, ContentIsNullBesideCallsAlone) {
  engine_.script = [](const Request&) { return Script{{kCall}}; };
  const Json choice = chat(hi(kTools)).json()["choices"][0];
  EXPECT_TRUE(choice["message"]["content"].is_null());
  EXPECT_EQ(choice["message"]["tool_calls"].size(), 1u);
}

TEST_F(Api, WithoutToolsACallIsText) {
  engine_.script = [](const Request&) { return Script{{kCall}}; };
  for (const std::string& extra :
       {std::string(R"("seed":1)"), std::string(kTools) + R"(,"tool_choice":"none")"}) {
    const Json choice = chat(hi(extra)).json()["choices"][0];
    EXPECT_EQ(choice["message"]["content"], kCall);
    EXPECT_FALSE(choice["message"].contains("tool_calls"));
    EXPECT_EQ(choice["finish_reason"], "stop");
  }
}

// The conversation's cached states fit the prompt, whether the model may call or not.
TEST_F(Api, ToolsThatMustNotBeCalledStayInThePrompt) {
  chat(hi(kTools));
  const std::string prompt = engine_.last_prompt();
  EXPECT_NE(prompt.find("[tools"), std::string::npos);
  chat(hi(std::string(kTools) + R"(,"tool_choice":"none")"));
  EXPECT_EQ(engine_.last_prompt(), prompt);
  EXPECT_EQ(engine_.last_request().thinking.calls, CallPolicy::none) << "their marks are not sampled";
  EXPECT_FALSE(engine_.last_request().output.reads_calls());
}

TEST_F(Api, ABrokenCallIsText) {
  engine_.script = [](const Request&) { return Script{{"<tool_call>{\"name\": \"f\", ", "oops"}}; };
  const Json choice = chat(hi(kTools)).json()["choices"][0];
  EXPECT_EQ(choice["message"]["content"], "<tool_call>{\"name\": \"f\", oops");
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
  EXPECT_EQ(choice["finish_reason"], "stop");
}

TEST_F(Api, ACallThatWasCutIsNotTold) {
  engine_.script = [](const Request&) { return Script{{"So: ", kCall, " ", kCall}}; };
  for (const int tokens : {5, 15, 25, 35}) {
    const Json cut = chat(hi(fmt::format(R"({},"max_tokens":{})", kTools, tokens))).json()["choices"][0];
    EXPECT_EQ(cut["message"]["content"], "So:") << tokens;
    EXPECT_FALSE(cut["message"].contains("tool_calls"));
    EXPECT_EQ(cut["finish_reason"], "length");
  }
  const Json one = chat(hi(std::string(kTools) + R"(,"max_tokens":90)")).json()["choices"][0];
  EXPECT_EQ(one["message"]["content"], "So:");
  EXPECT_EQ(one["message"]["tool_calls"].size(), 1u);
  const Json stopped = chat(hi(std::string(kTools) + R"(,"stop":"Par")")).json()["choices"][0];
  EXPECT_EQ(stopped["message"]["content"], "So:");
}

const std::string kAsked = R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant",)";

TEST_F(Api, AFinalAnswerIsContinued) {
  for (const char* said :
       {"", R"("continue_final_message":true)", R"("add_generation_prompt":false)",
        R"("continue_final_message":true,"add_generation_prompt":false)", R"("enable_thinking":true)"}) {
    const HttpAnswer answer = chat(kAsked + R"("content":"So it"}])" + (*said ? "," : "") + said + "}");
    ASSERT_EQ(answer.status, 200) << answer.body;
    EXPECT_EQ(engine_.last_prompt(), "user: hi\nassistant:So it") << said;
    EXPECT_EQ(engine_.last_request().begun, 5);
    EXPECT_FALSE(engine_.last_request().output.thinking_open);
  }
  chat(kAsked + R"("content":"So it","prefix":true}]})");
  EXPECT_EQ(engine_.last_prompt(), "user: hi\nassistant:So it");
  chat(kAsked + R"("content":"So it","reasoning_content":"Hm."}]})");
  EXPECT_EQ(engine_.last_prompt(), "user: hi\nassistant:<think>\nHm.\n</think>\n\nSo it");
  EXPECT_EQ(engine_.last_request().begun, 5);
  engine_.script = [](const Request&) { return Script{{" why\n</think>\n\nYes"}}; };
  const Json thought = chat(kAsked + R"("content":null,"reasoning_content":"I ask"}]})").json();
  EXPECT_EQ(engine_.last_prompt(), "user: hi\nassistant:<think>\nI ask");
  EXPECT_EQ(engine_.last_request().begun, 0);
  EXPECT_TRUE(engine_.last_request().output.thinking_open);
  EXPECT_EQ(thought["choices"][0]["message"]["reasoning_content"], " why");
  EXPECT_EQ(thought["choices"][0]["message"]["content"], "Yes");
  // A template that always opens a thought: it is closed.
  engine_.mutable_template().knows_thinking = false;
  chat(kAsked + R"("content":"So it"}]})");
  engine_.mutable_template().knows_thinking = true;
}

TEST_F(Api, AFinalAnswerThatIsNotContinued) {
  for (const char* said : {R"("continue_final_message":false)", R"("add_generation_prompt":true)"}) {
    chat(kAsked + R"("content":"So it"}],)" + said + "}");
    EXPECT_EQ(engine_.last_prompt(), "user: hi\nassistant: So it\nassistant:") << said;
    EXPECT_EQ(engine_.last_request().begun, 0);
  }
  const std::string forced = kAsked + R"("content":"So it"}],)" + kTools + R"(,"tool_choice":"required"})";
  EXPECT_EQ(post("/v1/chat/completions", forced).status, 200);
  EXPECT_EQ(engine_.last_request().begun, 0);
  chat(kAsked + R"("content":""}],"continue_final_message":true})");  // nothing to go on from
  EXPECT_EQ(engine_.last_prompt(), "user: hi\nassistant:");
}

TEST_F(Api, ContradictionsAboutTheFinalMessageAreRefused) {
  const std::string text = R"("content":"So it"}],)";
  const struct {
    std::string body, param;
  } cases[] = {
      {kAsked + text + R"("continue_final_message":true,"add_generation_prompt":true})",
       "add_generation_prompt"},
      {kAsked + text +
           R"("continue_final_message":true,"chat_template_kwargs":{"add_generation_prompt":true}})",
       "add_generation_prompt"},
      {kAsked + R"("content":"a","prefix":true}],"continue_final_message":false})", "continue_final_message"},
      {kAsked + R"("content":"a","prefix":true}],"add_generation_prompt":true})", "add_generation_prompt"},
      {kAsked + R"("content":"a","prefix":1}]})", "messages[1].prefix"},
      {R"({"messages":[{"role":"user","content":"hi","prefix":true}]})", "messages[0].prefix"},
      {R"({"messages":[{"role":"user","content":"hi"}],"continue_final_message":true})",
       "continue_final_message"},
      {kAsked + text + R"("continue_final_message":true,"tool_choice":"required",)" + kTools + "}",
       "continue_final_message"},
      {kAsked + R"("content":"a","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]}],)" +
           R"("continue_final_message":true})",
       "continue_final_message"},
      {kAsked + R"("content":null,"reasoning_content":"Hm"}],"enable_thinking":false})", "messages"},
      {kAsked + text + R"("continue_final_message":"yes"})", "continue_final_message"},
  };
  for (const auto& one : cases) {
    const HttpAnswer answer = chat(one.body);
    EXPECT_EQ(answer.status, 400) << one.body;
    EXPECT_EQ(answer.json()["error"]["param"], one.param) << answer.body;
  }
  engine_.takes_beginnings = false;  // what the grammar says
  const HttpAnswer answer = chat(kAsked + text + R"("response_format":{"type":"json_object"}})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json()["error"]["param"], "response_format") << answer.body;
}

TEST_F(Api, ResultsOfToolsMayHoldAnything) {
  const std::string call = R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":)"
                           R"([{"id":"1","function":{"name":"f","arguments":"{}"}}]},{"role":"tool",)";
  const HttpAnswer answer = chat(call + R"("tool_call_id":"1","content":[{"type":"text","text":"See "},
      {"type":"image_url","image_url":{"url":"data:"}},{"type":"file","file":{}}]}]})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_NE(engine_.last_prompt().find("tool: See [image: not shown, this model reads text only][file: not"),
            std::string::npos)
      << engine_.last_prompt();
}

TEST_F(Api, ParallelToolCallsFalseEndsAfterTheFirst) {
  engine_.script = [](const Request&) {
    Script script{{kCall, "\n", "more "}, std::chrono::milliseconds(1)};
    script.repeat = true;
    return script;
  };
  const Json choice = chat(hi(std::string(kTools) + R"(,"parallel_tool_calls":false)")).json()["choices"][0];
  EXPECT_EQ(choice["message"]["tool_calls"].size(), 1u);
  EXPECT_TRUE(choice["message"]["content"].is_null());
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  EXPECT_EQ(engine_.stats().finished, 1u);
  EXPECT_EQ(engine_.stats().cancelled, 0u);  // the engine itself ends such a request
}

TEST_F(Api, StopStringsNeverReachTheClient) {
  // The engine notices only after the whole part; the text is cut before the stop string all the same.
  engine_.script = [](const Request&) { return Script{{"one t", "wo three"}}; };
  const Json json = chat(hi(R"("stop":"two")")).json();
  EXPECT_EQ(json["choices"][0]["message"]["content"], "one ");
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  // What only looked like a stop string is not lost.
  EXPECT_EQ(chat(hi(R"("stop":"threes")")).json()["choices"][0]["message"]["content"], "one two three");
}

TEST_F(Api, TextCompletions) {
  HttpAnswer answer = post("/v1/completions", R"({"prompt":"Once"})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  EXPECT_EQ(answer.json()["object"], "text_completion");
  EXPECT_EQ(answer.json()["id"].get<std::string>().rfind("cmpl-", 0), 0u);
  EXPECT_EQ(answer.json()["choices"][0]["text"], "Hello, world.");
  EXPECT_EQ(engine_.last_request().prompt.front(), kBosToken);
  EXPECT_EQ(engine_.last_request().prompt.size(), 5u);
  ASSERT_EQ(post("/v1/completions", R"({"prompt":[65,66]})").status, 200);
  EXPECT_EQ(engine_.last_request().prompt, (std::vector<int>{65, 66}));
  answer = post("/v1/completions", R"({"prompt":[65,300]})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.error_param(), "prompt");
  EXPECT_EQ(post("/v1/completions", R"({"prompt":[]})").status, 400);
  // Raw text stays raw.
  engine_.script = [](const Request&) { return Script{{"<think>x</think>y"}}; };
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a"})").json()["choices"][0]["text"], "<think>x</think>y");
}

TEST_F(Api, Models) {
  const Json list = ask(port_, "GET", "/v1/models").json();
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 1u);
  EXPECT_EQ(list["data"][0]["id"], "fake-1b");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_EQ(ask(port_, "GET", "/v1/models/fake-1b").json()["id"], "fake-1b");
  EXPECT_EQ(ask(port_, "GET", "/v1/models/%2Fmodels%2Ffake-1b").status, 200);
  EXPECT_EQ(ask(port_, "GET", "/v1/models/main").json()["id"], "fake-1b");
}

TEST_F(Api, OtherModelNamesMeanTheLoadedModelUnlessNamesAreStrict) {
  const std::string other = R"({"model":"gpt-4","messages":[{"role":"user","content":"hi"}]})";
  EXPECT_EQ(chat(other).json()["model"], "fake-1b");
  EXPECT_EQ(ask(port_, "GET", "/v1/models/gpt-4").json()["id"], "fake-1b");
  ServerModels models = served_by(engine_);
  models.strict_names = true;
  start(std::move(models), {});
  EXPECT_EQ(chat(other).error_code(), "model_not_found");
  const HttpAnswer missing = ask(port_, "GET", "/v1/models/gpt-4");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.error_code(), "model_not_found");
  for (const char* name : {"fake-1b", "main", "default"})
    EXPECT_EQ(
        chat(fmt::format(R"({{"model":"{}","messages":[{{"role":"user","content":"hi"}}]}})", name)).status,
        200);
}

TEST_F(Api, HealthAndWelcome) {
  ASSERT_EQ(chat(kHi).status, 200);
  const Json health = ask(port_, "GET", "/health").json();
  EXPECT_EQ(health["status"], "ok");
  EXPECT_EQ(health["model"]["id"], "fake-1b");
  EXPECT_EQ(health["engine"]["requests"], 1);
  EXPECT_GE(health["uptime_s"].get<double>(), 0);
  EXPECT_FALSE(health["version"].get<std::string>().empty());
  const HttpAnswer welcome = ask(port_, "GET", "/");
  EXPECT_EQ(welcome.status, 200);
  EXPECT_NE(welcome.body.find("fake-1b"), std::string::npos);
  const HttpAnswer head = ask(port_, "HEAD", "/health");
  EXPECT_EQ(head.status, 200);
  EXPECT_NE(head.headers.at("content-length"), "0");
}

TEST_F(Api, BrowsersGetThePage) {
  const HttpAnswer page = ask(port_, "GET", "/", "", "Accept: text/html,*/*;q=0.8\r\n");
  EXPECT_EQ(page.status, 200);
  EXPECT_TRUE(page.body.starts_with("<!doctype html>"));
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_NE(page.headers.at("content-security-policy").find("script-src 'self'"), std::string::npos);
  const HttpAnswer packed = ask(port_, "GET", "/web/vendor/marked.js", "", "Accept-Encoding: gzip\r\n");
  EXPECT_EQ(packed.headers.at("content-encoding"), "gzip");
  const HttpAnswer again =
      ask(port_, "GET", "/web/vendor/marked.js", "",
          fmt::format("Accept-Encoding: gzip\r\nIf-None-Match: {}\r\n", packed.headers.at("etag")));
  EXPECT_EQ(again.status, 304);
  EXPECT_EQ(again.headers.count("content-length"), 0U);
  EXPECT_EQ(ask(port_, "GET", "/web/api.cc").status, 404);
  EXPECT_EQ(ask(port_, "POST", "/web/main.js", "{}").status, 405);
}

TEST_F(Api, HealthTellsWhatCanDraftAndWhatItTakes) {
  Json model = ask(port_, "GET", "/health").json()["model"];
  EXPECT_EQ(model["has_mtp"], false);
  EXPECT_EQ(model["lossy"], false);
  EXPECT_TRUE(model["draft_model"].is_null());
  EXPECT_EQ(model["draft_sources"], Json::array());
  ModelInfo& info = engine_.mutable_info();
  info.has_mtp = info.lossy = true;
  info.layers = 26;
  info.draft_model = "fake-small";
  info.draft_sources = {DraftSource::ngram, DraftSource::mtp, DraftSource::draft};
  info.weight_bytes = 1000;
  info.mtp_bytes = 100;
  info.draft_head_bytes = 10;
  info.draft_model_bytes = 200;
  info.kv_bytes_per_token = 7;
  info.draft_state_bytes = 9;
  model = ask(port_, "GET", "/health").json()["model"];
  EXPECT_EQ(model["has_mtp"], true);
  EXPECT_EQ(model["lossy"], true);
  EXPECT_EQ(model["layers"], 26);
  EXPECT_EQ(model["draft_model"], "fake-small");
  EXPECT_EQ(model["draft_sources"], Json({"ngram", "mtp", "draft"}));
  EXPECT_EQ(model["weight_bytes"], 1200);
  EXPECT_EQ(model["weight_bytes_of"].dump(),
            R"({"model":890,"mtp_head":100,"draft_head":10,"draft_model":200})");
  EXPECT_EQ(model["sequence_bytes"].dump(),
            R"({"per_token":7,"fixed":0,"drafts_per_token":0,"drafts_fixed":9})");
}

TEST_F(Api, UnknownRoutesAndMethods) {
  EXPECT_EQ(ask(port_, "GET", "/v1/nothing").error_code(), "unknown_url");
  EXPECT_EQ(post("/v2", "{}").status, 404);
  EXPECT_EQ(ask(port_, "GET", "/%zz").status, 400);
  const HttpAnswer wrong = ask(port_, "GET", "/v1/chat/completions");
  EXPECT_EQ(wrong.status, 405);
  EXPECT_EQ(wrong.headers.at("allow"), "POST");
  EXPECT_EQ(post("/health", "{}").headers.at("allow"), "GET, HEAD");
  EXPECT_EQ(ask(port_, "OPTIONS", "/v1/models").status, 405);  // no CORS
  EXPECT_EQ(ask(port_, "DELETE", "/v1/models/fake-1b").status, 405);
}

TEST_F(Api, RequestErrors) {
  HttpAnswer answer = chat("{\"messages\": [}");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.json()["error"]["type"], "invalid_request_error");
  EXPECT_NE(answer.json()["error"]["message"].get<std::string>().find("byte 14"), std::string::npos);
  EXPECT_EQ(chat(hi(R"("n":17)")).error_param(), "n");
  answer = post("/v1/chat/completions", "");
  EXPECT_EQ(answer.status, 400);
  TestClient client(port_);
  client.send(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
      "Content-Length: 2\r\n\r\n{}");
  EXPECT_EQ(client.read_answer().status, 415);
}

TEST_F(Api, TemplateErrorsAndMissingTemplate) {
  HttpAnswer answer = chat(R"({"messages":[{"role":"user","content":"raise"}]})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.error_code(), "template_error");
  EXPECT_NE(answer.body.find("no such conversation"), std::string::npos);
  engine_.has_template = false;
  start({});
  answer = chat(kHi);
  EXPECT_EQ(answer.status, 400);
  EXPECT_NE(answer.body.find("/v1/completions"), std::string::npos);
}

TEST_F(Api, PromptsBeyondTheContext) {
  const std::string text(2000, 'x');
  const HttpAnswer answer = chat(R"({"messages":[{"role":"user","content":")" + text + "\"}]}");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.error_code(), "context_length_exceeded");
  EXPECT_EQ(answer.error_param(), "messages");
}

TEST_F(Api, FullQueueAsksToRetry) {
  engine_.max_queue = 0;
  for (const char* extra : {R"("stream":false)", R"("stream":true)"}) {
    const HttpAnswer answer = chat(hi(extra));
    EXPECT_EQ(answer.status, 429);
    EXPECT_EQ(answer.headers.at("retry-after"), "1");
    EXPECT_EQ(answer.json()["error"]["type"], "rate_limit_error");
  }
}

TEST_F(Api, EngineErrors) {
  engine_.script = [](const Request&) {
    return Script{{"a"}, std::chrono::milliseconds(0), FinishReason::error, "out of memory"};
  };
  HttpAnswer answer = chat(kHi);
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.error_code(), "engine_error");
  engine_.script = [](const Request&) {
    return Script{{"a"}, std::chrono::milliseconds(0), FinishReason::cancelled};
  };
  EXPECT_EQ(chat(kHi).status, 503);
}

TEST_F(Api, HostsOtherThanThisMachineAreRefused) {
  TestClient client(port_);
  client.send("GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n");
  const HttpAnswer answer = client.read_answer();
  EXPECT_EQ(answer.status, 403);
  EXPECT_EQ(answer.error_code(), "host_not_allowed");
}

TEST(ServerStart, SaysWhenThePortIsTaken) {
  FakeEngine engine;
  ServerOptions options;
  options.port = 0;
  auto first = Server::start(served_by(engine), options);
  ASSERT_TRUE(first.ok());
  options.port = (*first)->port();
  auto second = Server::start(served_by(engine), options);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::io);
  EXPECT_NE(second.error().message.find("already in use"), std::string::npos);
  options.host = "not a host";
  EXPECT_FALSE(Server::start(served_by(engine), options).ok());
}

}  // namespace
}  // namespace anabranch::server
