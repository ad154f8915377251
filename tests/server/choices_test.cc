// Several answers to one request: n, and lists of prompts.
#include <algorithm>
#include <map>

#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

class Choices : public ServerTest {
 protected:
  // Every answer names its prompt's last token and its seed, and ends at once.
  void SetUp() override {
    engine_.script = [](const Request& r) {
      return Script{{fmt::format("{}:{}", static_cast<char>(r.prompt.back()), r.sampling.seed % 1000)}};
    };
    ServerTest::SetUp();
  }
  Json chat(const std::string& extra) {
    const HttpAnswer answer =
        post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}],)" + extra + "}");
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  }
  static std::vector<std::string> texts(const Json& answer) {
    std::vector<std::string> list;
    for (const Json& choice : answer["choices"])
      list.push_back(choice.contains("message") ? choice["message"]["content"] : choice["text"]);
    return list;
  }
};

TEST_F(Choices, TheFirstIsTheOneThatOneGives) {
  const auto one = texts(chat(R"("seed":7)")), four = texts(chat(R"("seed":7,"n":4)"));
  ASSERT_EQ(four.size(), 4u);
  EXPECT_EQ(four[0], one[0]);
  auto sorted = four;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(std::unique(sorted.begin(), sorted.end()), sorted.end()) << "two choices had one seed";
  EXPECT_EQ(texts(chat(R"("seed":7,"n":4)")), four);
  const auto two = texts(chat(R"("seed":7,"n":2)"));
  EXPECT_EQ(two[1], four[1]);  // whatever n is
  EXPECT_NE(texts(chat(R"("seed":8,"n":2)"))[1], four[1]);
}

TEST_F(Choices, UsageIsSummedAndThePromptCountsOnce) {
  const Json one = chat(R"("seed":1,"max_tokens":2)"), three = chat(R"("seed":1,"max_tokens":2,"n":3)");
  EXPECT_EQ(three["usage"]["prompt_tokens"], one["usage"]["prompt_tokens"]);
  EXPECT_EQ(three["usage"]["prompt_tokens_details"]["cached_tokens"], 3);
  EXPECT_EQ(three["usage"]["completion_tokens"], 6);
  EXPECT_EQ(three["usage"]["total_tokens"], one["usage"]["prompt_tokens"].get<int>() + 6);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(three["choices"][i]["index"], i);
    EXPECT_EQ(three["choices"][i]["finish_reason"], "length");
  }
  EXPECT_TRUE(one["anabranch"]["cut"].is_null());
  EXPECT_EQ(three["anabranch"]["cut"], Json::array({nullptr, nullptr, nullptr}));
}

TEST_F(Choices, PromptsTimesN) {
  const HttpAnswer answer = post("/v1/completions", R"({"prompt":["a",[66,67],"d"],"n":2,"seed":5})");
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto list = texts(answer.json());
  ASSERT_EQ(list.size(), 6u);
  for (size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(list[i][0], "aCd"[i / 2]) << list[i];
    EXPECT_EQ(list[i].substr(1), list[i % 2].substr(1));  // a prompt's answers are those it gets alone
  }
  EXPECT_EQ(answer.json()["usage"]["prompt_tokens"], 2 + 2 + 2);  // two of them begin with a BOS token
  const HttpAnswer bad = post("/v1/completions", R"({"prompt":["a",[66,300]]})");
  EXPECT_EQ(bad.status, 400);
  EXPECT_EQ(bad.error_param(), "prompt[1]");
}

TEST_F(Choices, StreamsSayWhoseTextItIs) {
  engine_.script = [](const Request& r) {
    return Script{{"a", "b", fmt::format("{}", r.sampling.seed % 1000)}, std::chrono::milliseconds(1)};
  };
  const auto whole = texts(chat(R"("seed":7,"n":3,"logprobs":true)"));
  const HttpAnswer answer = post("/v1/chat/completions",
                                 R"({"messages":[{"role":"user","content":"hi"}],"seed":7,"n":3,"stream":true,
                                 "logprobs":true,"stream_options":{"include_usage":true}})");
  const auto list = events(answer.body);
  std::map<int, std::string> text;
  std::map<int, int> roles, ends, logprobs;
  for (size_t i = 0; i + 2 < list.size(); ++i) {
    ASSERT_EQ(list[i]["choices"].size(), 1u);
    const Json& choice = list[i]["choices"][0];
    const int index = choice["index"];
    roles[index] += choice["delta"].contains("role");
    if (!choice["finish_reason"].is_null()) ++ends[index];
    text[index] += choice["delta"].value("content", "");
    if (!choice["logprobs"].is_null())
      logprobs[index] += static_cast<int>(choice["logprobs"]["content"].size());
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(text[i], whole[i]);
    EXPECT_EQ(roles[i], 1);
    EXPECT_EQ(ends[i], 1);
    EXPECT_EQ(logprobs[i], static_cast<int>(whole[i].size()) + 1);  // and the end of the turn
  }
  EXPECT_EQ(list.back(), "[DONE]");
  EXPECT_TRUE(list[list.size() - 2]["choices"].empty());
  EXPECT_EQ(list[list.size() - 2]["usage"]["completion_tokens"].get<size_t>(),
            whole[0].size() + whole[1].size() + whole[2].size());
}

TEST_F(Choices, EachHasItsOwnStopAndCalls) {
  engine_.script = [](const Request& r) {
    static std::atomic<int> next = 0;
    const bool call = next++ % 2 == 0 && r.prompt.size() > 0;
    return Script{{call ? R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)" : "one two"}};
  };
  const Json answer = chat(R"("n":2,"stop":"two","tools":[{"type":"function","function":{"name":"f"}}])");
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_EQ(answer["choices"][0]["message"]["tool_calls"].size(), 1u);
  EXPECT_EQ(answer["choices"][1]["finish_reason"], "stop");
  EXPECT_EQ(answer["choices"][1]["message"]["content"], "one ");
}

TEST_F(Choices, OneThatFailsEndsAll) {
  engine_.script = [](const Request&) {
    static std::atomic<int> next = 0;
    Script script{{"a"}, std::chrono::milliseconds(1)};
    if (next++ == 1)
      script.finish = FinishReason::error;
    else
      script.repeat = true;
    return script;
  };
  EXPECT_EQ(post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}],"n":3})").status,
            500);
  EXPECT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.running == 0 && s.cancelled == 2; }));
}

TEST_F(Choices, AllOrNoneAreTaken) {
  engine_.max_queue = 2;
  engine_.script = [](const Request&) {
    Script script{{"a"}, std::chrono::milliseconds(1)};
    script.repeat = true;
    return script;
  };
  const HttpAnswer answer =
      post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}],"n":3})");
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.running == 0; }));
}

TEST_F(Choices, LogProbabilitiesOfAllAreLimited) {
  engine_.script = [](const Request&) { return Script{{std::string(12000, 'a'), std::string(12000, 'b')}}; };
  const auto ask = [&](int n) {
    return post("/v1/completions",
                fmt::format(R"({{"prompt":"a","n":{},"logprobs":20,"max_tokens":24000}})", n));
  };
  const HttpAnswer answer = ask(2);  // 2 * 24,000 tokens * 21
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.error_code(), "limit_exceeded");
  EXPECT_EQ(answer.error_param(), "logprobs");
  EXPECT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.running == 0; }));
  EXPECT_EQ(ask(1).status, 200);
}

TEST_F(Choices, LeavingCancelsAll) {
  engine_.script = [](const Request&) {
    Script script{{"a"}, std::chrono::milliseconds(1)};
    script.repeat = true;
    return script;
  };
  {
    TestClient client(port_);
    client.send(http_request("POST", "/v1/completions", R"({"prompt":["a","b"],"n":2,"stream":true})"));
    EXPECT_NE(client.read_until("\"text\""), "");
    EXPECT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.running == 4; }));
  }
  EXPECT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.running == 0 && s.cancelled == 4; }));
}

}  // namespace
}  // namespace anabranch::server
