// Thinking: what requests say of it, what the engine is told, and what answers report.
#include "server/api/thinking_fields.h"

#include <gtest/gtest.h>

#include <climits>

#include "server/api/openai/request.h"
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

ThinkingWish wish_of(const std::string& fields) {
  const auto json = parse_json("{" + fields + "}");
  EXPECT_TRUE(json.ok()) << fields;
  JsonFields reader(*json);
  const ThinkingWish wish = read_thinking(reader);
  EXPECT_FALSE(reader.error()) << fields << ": " << reader.error()->message;
  return wish;
}

struct WishCase {
  const char* fields;
  std::optional<ThinkMode> mode;
  std::optional<int> budget;
};

TEST(Thinking, ReadsEveryName) {
  constexpr auto on = ThinkMode::on, off = ThinkMode::off, automatic = ThinkMode::automatic;
  const WishCase cases[] = {
      {"", {}, {}},
      {R"("enable_thinking":true)", on, {}},
      {R"("enable_thinking":false)", off, {}},
      {R"("enable_thinking":"auto")", automatic, {}},
      {R"("enable_thinking":null,"think":null,"thinking":null,"reasoning":null,"reasoning_effort":null)",
       {},
       {}},
      {R"("chat_template_kwargs":{"enable_thinking":false})", off, {}},
      {R"("chat_template_kwargs":{"enable_thinking":"auto"})", automatic, {}},
      {R"("max_thinking_tokens":100)", {}, 100},
      {R"("thinking_budget":100)", {}, 100},
      {R"("thinking_token_budget":100)", {}, 100},
      {R"("thinking_budget_tokens":100)", {}, 100},
      {R"("reasoning_budget":100.0)", {}, 100},
      {R"("reasoning_budget":-1)", {}, INT_MAX},
      {R"("reasoning_budget":0)", off, 0},
      {R"("thinking":{"type":"enabled","budget_tokens":1024})", on, 1024},
      {R"("thinking":{"type":"disabled"})", off, {}},
      {R"("thinking":{"type":"adaptive"})", automatic, {}},
      {R"("thinking":{})", {}, {}},
      {R"("reasoning":{"max_tokens":77})", {}, 77},
      {R"("reasoning":{"effort":"low"})", on, 2048},
      {R"("reasoning":{"effort":"none"})", off, {}},
      {R"("reasoning":{"enabled":true})", on, {}},
      {R"("reasoning_effort":"minimal")", on, 512},
      {R"("reasoning_effort":"medium")", on, 8192},
      {R"("reasoning_effort":"high")", on, 32768},
      {R"("reasoning_effort":"xhigh")", on, 65536},
      {R"("reasoning_effort":"none")", off, {}},
      {R"("think":true)", on, {}},
      {R"("think":false)", off, {}},
      {R"("think":"low")", on, 2048},
  };
  for (const WishCase& c : cases) {
    const ThinkingWish wish = wish_of(c.fields);
    EXPECT_EQ(wish.mode, c.mode) << c.fields;
    EXPECT_EQ(wish.budget, c.budget) << c.fields;
    EXPECT_EQ(wish.said_by.empty(), !c.mode) << c.fields;
  }
}

TEST(Thinking, TheMostSpecificFieldWins) {
  constexpr auto on = ThinkMode::on, off = ThinkMode::off;
  const WishCase cases[] = {
      {R"("chat_template_kwargs":{"enable_thinking":true},"enable_thinking":false)", off, {}},
      {R"("think":true,"chat_template_kwargs":{"enable_thinking":false})", off, {}},
      {R"("thinking":{"type":"enabled"},"think":false)", off, {}},
      {R"("reasoning":{"enabled":true},"thinking":{"type":"disabled"})", off, {}},
      {R"("reasoning_effort":"none","reasoning":{"enabled":true})", on, {}},
      {R"("reasoning_effort":"none","reasoning":{"effort":"low"})", on, 2048},
      {R"("reasoning_effort":"none","thinking_budget":50)", off, 50},
      {R"("enable_thinking":false,"reasoning_effort":"high")", off, 32768},
      {R"("enable_thinking":true,"thinking_budget":0)", on, 0},
      {R"("reasoning_effort":"high","thinking_budget":50)", on, 50},
      {R"("reasoning_budget":60,"max_thinking_tokens":50)", {}, 50},
      {R"("thinking":{"budget_tokens":60},"reasoning_budget":50)", {}, 50},
      {R"("reasoning":{"max_tokens":70,"effort":"low"},"thinking":{"budget_tokens":60})", on, 60},
  };
  for (const WishCase& c : cases) {
    const ThinkingWish wish = wish_of(c.fields);
    EXPECT_EQ(wish.mode, c.mode) << c.fields;
    EXPECT_EQ(wish.budget, c.budget) << c.fields;
  }
  EXPECT_EQ(wish_of(R"("think":"low","reasoning_effort":"high")").effort, "low");
}

class ThinkingApi : public ServerTest {
 protected:
  static std::string body(const std::string& message, const std::string& more = "") {
    return fmt::format(R"({{"messages":[{{"role":"user","content":{}}}]{}{}}})", Json(message).dump(),
                       more.empty() ? "" : ",", more);
  }
  Json chat(const std::string& message, const std::string& more = "") {
    const HttpAnswer answer = post("/v1/chat/completions", body(message, more));
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  }
  // What the engine got.
  Request request(const std::string& message, const std::string& more = "") {
    chat(message, more);
    return engine_.last_request();
  }
  Json thinking(const std::string& message, const std::string& more = "") {
    return chat(message, more)["anabranch"]["thinking"];
  }
};

constexpr const char* kHard = "Why does the proof need compactness?";

TEST_F(ThinkingApi, TheClientsChoiceWinsAndIsReported) {
  EXPECT_TRUE(request(kHard).output.thinking_open);
  EXPECT_FALSE(request("hi").output.thinking_open);
  EXPECT_TRUE(request("hi", R"("enable_thinking":true)").output.thinking_open);
  EXPECT_TRUE(request("hi", R"("reasoning_effort":"low")").output.thinking_open);
  EXPECT_FALSE(request(kHard, R"("think":false)").output.thinking_open);
  EXPECT_FALSE(request(kHard, R"("reasoning_budget":0)").output.thinking_open);
  EXPECT_FALSE(request("hi", R"("thinking_budget":50)").output.thinking_open);  // a budget is no choice
  EXPECT_EQ(thinking("hi"), (Json{{"enabled", false}, {"reason", "a greeting or thanks"}}));
  EXPECT_EQ(thinking("hi", R"("enable_thinking":"auto")")["enabled"], false);
  EXPECT_EQ(thinking("hi", R"("think":true)"), (Json{{"enabled", true}, {"reason", "the request's think"}}));
  // The whole prompt's length counts.
  const std::string system = std::string(4000, 'x');
  const Json messages = Json::array({Json{{"role", "system"}, {"content", system}},
                                     Json{{"role", "user"}, {"content", "What is the capital of France?"}}});
  engine_.mutable_info().context_length = 10000;
  const HttpAnswer answer = post("/v1/chat/completions", Json{{"messages", messages}}.dump());
  EXPECT_EQ(answer.json()["anabranch"]["thinking"]["enabled"], true) << answer.body;
  EXPECT_EQ(thinking("What is the capital of France?")["enabled"], false);
}

TEST_F(ThinkingApi, TheServersDefaultsHoldWhereNothingIsSaid) {
  start(served_by(engine_, {ThinkMode::off, 500, "", "the server's flag"}), {});
  EXPECT_FALSE(request(kHard).output.thinking_open);
  EXPECT_EQ(engine_.last_request().thinking.budget, 500);
  EXPECT_EQ(thinking(kHard)["reason"], "the server's flag");
  EXPECT_TRUE(request(kHard, R"("enable_thinking":"auto")").output.thinking_open);
  EXPECT_EQ(request(kHard, R"("enable_thinking":true,"thinking_budget":7)").thinking.budget, 7);
}

TEST_F(ThinkingApi, BudgetsReachTheEngine) {
  EXPECT_EQ(request(kHard).thinking.budget, std::nullopt);
  EXPECT_EQ(request(kHard, R"("thinking_budget_tokens":9,"max_tokens":4)").thinking.budget, 9);
  EXPECT_EQ(engine_.last_request().max_tokens, 4);
  EXPECT_EQ(request(kHard, R"("reasoning_effort":"minimal")").thinking.budget, 512);
  // Off: a model that thinks all the same may, unless the budget is 0.
  EXPECT_EQ(request(kHard, R"("enable_thinking":false)").thinking.budget, std::nullopt);
  EXPECT_EQ(request(kHard, R"("thinking_budget":0)").thinking.budget, 0);
  const HttpAnswer raw = post("/v1/completions", R"({"prompt":"x","thinking_budget":5})");
  EXPECT_EQ(raw.status, 200) << raw.body;
  EXPECT_EQ(engine_.last_request().thinking.budget, 5);
  EXPECT_EQ(raw.json()["anabranch"], (Json{{"cut", nullptr}}));
}

TEST_F(ThinkingApi, ABoundOnAllTokensMayLeaveNoRoomForAThought) {
  EXPECT_TRUE(request(kHard, R"("max_completion_tokens":400)").output.thinking_open);
  EXPECT_EQ(engine_.last_request().thinking.budget, std::nullopt);
  EXPECT_TRUE(request(kHard, R"("max_tokens":8,"enable_thinking":true)").output.thinking_open);
  EXPECT_FALSE(request(kHard, R"("max_completion_tokens":8,"enable_thinking":true)").output.thinking_open);
  EXPECT_EQ(thinking(kHard, R"("max_completion_tokens":8)"),
            (Json{{"enabled", false}, {"reason", "the bound on all tokens leaves no room for a thought"}}));
  EXPECT_TRUE(request(kHard, R"("max_completion_tokens":0)").output.thinking_open)
      << "only the prompt is read";
}

TEST_F(ThinkingApi, WhatATemplateOpensByItselfIsClosedWhenThinkingIsOff) {
  engine_.mutable_template().knows_thinking = false;
  EXPECT_EQ(thinking("hi"), (Json{{"enabled", true}, {"reason", "the chat template leaves no choice"}}));
  EXPECT_EQ(engine_.last_request().thinking.budget, std::nullopt);
  // This template does obey, so that its prompt is closed; that is not known, so a new thought is forbidden.
  EXPECT_EQ(request("hi", R"("think":false)").thinking.budget, 0);
  EXPECT_FALSE(engine_.last_request().output.thinking_open);
  const std::string opened = R"("think":false,"chat_template_kwargs":{"x":1})";
  EXPECT_EQ(thinking("hi", opened)["enabled"], false);
  ChosenPrompt chosen;
  chosen.open = true;
  const ThinkingWish off{ThinkMode::off, 100, "", "x"};
  EXPECT_EQ(think_options(off, chosen, {.user = "hi", .stop = {}}).budget, 0);
}

TEST_F(ThinkingApi, EffortGoesToTemplatesThatKnowIt) {
  chat("hi", R"("reasoning_effort":"low")");
  EXPECT_NE(engine_.last_prompt().find(R"([extra {"reasoning_effort":"low"}])"), std::string::npos);
  chat("hi", R"("reasoning_effort":"low","chat_template_kwargs":{"reasoning_effort":"high"})");
  EXPECT_NE(engine_.last_prompt().find(R"([extra {"reasoning_effort":"high"}])"), std::string::npos);
  chat("hi", R"("reasoning_effort":"none")");
  EXPECT_EQ(engine_.last_prompt().find("extra"), std::string::npos);
}

TEST_F(ThinkingApi, LoopsMayBeLeftAloneOrWatchedMoreClosely) {
  EXPECT_EQ(request(kHard).thinking.loops, LoopRule::exact);
  EXPECT_EQ(request(kHard, R"("break_loops":true)").thinking.loops, LoopRule::exact);
  EXPECT_EQ(request(kHard, R"("break_loops":false)").thinking.loops, LoopRule::none);
  EXPECT_EQ(request(kHard, R"("break_loops":"near")").thinking.loops, LoopRule::near);
  for (const char* wrong : {"\"far\"", "1", "{}"}) {
    const HttpAnswer answer =
        post("/v1/chat/completions", body(kHard, std::string(R"("break_loops":)") + wrong));
    EXPECT_EQ(answer.status, 400) << wrong;
    EXPECT_EQ(answer.json()["error"]["param"], "break_loops");
  }
}

TEST_F(ThinkingApi, EscapesFollowTheRequest) {
  const char* kCode = "Write a Python function that sorts a list.";
  EXPECT_EQ(request(kCode).thinking.answer_start, "```python\n");
  EXPECT_NE(engine_.last_request().thinking.closing.find("code in python"), std::string::npos);
  EXPECT_EQ(request(kCode, R"("stop":"```")").thinking.answer_start, "");
  EXPECT_EQ(request(kCode, R"("stop":["zz","\n"])").thinking.answer_start, "");
  EXPECT_EQ(request(kCode, R"("stop":"zz")").thinking.answer_start, "```python\n");
  const char* kTools = R"("tools":[{"type":"function","function":{"name":"f"}}])";
  EXPECT_EQ(engine_.last_request().thinking.calls, CallPolicy::none);
  EXPECT_EQ(request(kCode, kTools).thinking.answer_start, "");
  EXPECT_EQ(engine_.last_request().thinking.calls, CallPolicy::offered);
  EXPECT_EQ(request(kCode, std::string(kTools) + R"(,"tool_choice":"none")").thinking.calls,
            CallPolicy::none);
  EXPECT_EQ(request(kHard).thinking.closing, "");
  const char* kJson = R"("response_format":{"type":"json_object"})";
  EXPECT_NE(request(kCode, kJson).thinking.closing.find("JSON"), std::string::npos) << "before what it says";
  EXPECT_EQ(engine_.last_request().thinking.answer_fence, "");
  const char* kAskJson = "Return the name as JSON.";
  EXPECT_EQ(request(kAskJson).thinking.answer_fence, "```json");
  EXPECT_EQ(request(kAskJson, R"("stop":"```")").thinking.answer_fence, "");
  const std::string must = std::string(kTools) + R"(,"tool_choice":"required")";
  EXPECT_NE(request(kCode, must).thinking.closing.find("tool"), std::string::npos);
}

TEST_F(ThinkingApi, TellsWhatWasCut) {
  engine_.script = [](const Request&) {
    Script script{{"hm</think>\n\n", "Yes"}};
    script.cut = "thinking_budget";
    script.thinking_tokens = 11;
    return script;
  };
  const Json whole = chat(kHard);
  EXPECT_EQ(whole["anabranch"]["cut"], "thinking_budget");
  EXPECT_EQ(whole["usage"]["completion_tokens_details"]["reasoning_tokens"], 11);
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(whole["choices"][0]["message"]["content"], "Yes");
  // So do the other APIs that have a field for it.
  const Json message = {{"role", "user"}, {"content", kHard}};
  const Json response = post("/v1/responses", Json{{"input", kHard}}.dump()).json();
  EXPECT_EQ(response["anabranch"]["cut"], "thinking_budget");
  const Json ollama = {{"model", "fake-1b"}, {"messages", Json::array({message})}, {"stream", false}};
  EXPECT_EQ(post("/api/chat", ollama.dump()).json()["anabranch"]["cut"], "thinking_budget");
  // In streams only the chunk with the finish_reason has it.
  const HttpAnswer stream = post("/v1/chat/completions", body(kHard, R"("stream":true)"));
  size_t last = stream.body.rfind("\"anabranch\":");
  ASSERT_NE(last, std::string::npos) << stream.body;
  EXPECT_EQ(stream.body.find("\"anabranch\":"), last);
  EXPECT_GT(last, stream.body.find("\"finish_reason\":\"stop\""));
  EXPECT_NE(stream.body.find(R"("cut":"thinking_budget")"), std::string::npos);
}

}  // namespace
}  // namespace anabranch::server
