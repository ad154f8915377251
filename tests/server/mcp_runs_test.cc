// Answers for which the server calls tools of an MCP server: what runs, how often, and how much of it.
#include "fake_mcp.h"
#include "mcp/servers.h"
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

class McpRuns : public ServerTest {
 protected:
  void SetUp() override { engine_.mutable_info().context_length = 100'000; }
  void begin(const mcp::AgentLimits& limits = {}, std::vector<ApiKey> keys = {}) {
    mcp::ServerConfig config;
    config.name = "s";
    config.http = true;
    config.url = mcp_.server().url("/mcp");
    ServerOptions options;
    options.tools.servers = std::make_shared<mcp::Servers>(std::vector{config}, mcp::Limits{});
    options.tools.limits = limits;
    options.api_keys = std::move(keys);
    start(options);
  }
  // The model's turns, one after the other; behind the last it says "Done.".
  void says(std::vector<Script> turns) {
    next_ = 0;
    engine_.script = [this, turns](const Request&) {
      const size_t turn = next_++;
      return turn < turns.size() ? turns[turn] : Script{{"Done."}};
    };
  }
  // No two calls have the same arguments.
  std::string call() {
    return fmt::format(R"(<tool_call>{{"name": "s__echo", "arguments": {{"n": {}}}}}</tool_call>)", ++n_);
  }
  Json respond(const Json& more, const char* approval = "never", const std::string& key = "") {
    Json body = {{"reasoning", {{"effort", "none"}}},
                 {"tools", {{{"type", "mcp"}, {"server_label", "s"}, {"require_approval", approval}}}}};
    body.update(more);
    const HttpAnswer answer =
        ask(port_, "POST", "/v1/responses", body.dump(), key.empty() ? "" : "x-api-key: " + key + "\r\n");
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  }
  static std::vector<Json> calls_of(const Json& response) {
    std::vector<Json> calls;
    for (const Json& item : response["output"])
      if (item["type"] == "mcp_call") calls.push_back(item);
    return calls;
  }

  static Json user(const char* text) { return {{"role", "user"}, {"content", text}}; }
  static Json decision_on(const Json& question, bool approve) {
    return {{"type", "mcp_approval_response"}, {"approval_request_id", question["id"]}, {"approve", approve}};
  }
  // How often the last prompt has this text.
  size_t times(const std::string& text) const {
    const std::string prompt = engine_.last_prompt();
    size_t count = 0;
    for (size_t at = 0; (at = prompt.find(text, at)) != prompt.npos; ++at) ++count;
    return count;
  }

  FakeMcp mcp_;
  std::atomic<size_t> next_{0};
  int n_ = 0;
};

TEST_F(McpRuns, AnApprovedCallRunsOnce) {
  begin();
  says({{{call()}}});
  const Json asked = respond({{"input", "go"}}, "always");
  const Json& question = asked["output"].back();
  ASSERT_EQ(question["type"], "mcp_approval_request") << asked;
  EXPECT_EQ(mcp_.calls, 0);
  const auto decide = [&](bool approve) {
    const Json decision = {
        {"type", "mcp_approval_response"}, {"approval_request_id", question["id"]}, {"approve", approve}};
    return respond({{"previous_response_id", asked["id"]}, {"input", Json::array({decision})}}, "always");
  };
  const auto first = calls_of(decide(true));
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0]["output"], "done");
  EXPECT_EQ(mcp_.calls, 1);
  decide(true);
  EXPECT_EQ(mcp_.calls, 1) << "the approval is used up";
}

// Clients that keep the conversation themselves send all of it at each turn.
TEST_F(McpRuns, AnApprovalInTheHistoryRunsNothingAgain) {
  begin();
  says({{{call()}}});
  const Json asked = respond({{"input", "go"}}, "always");
  const Json question = asked["output"].back();
  const Json history = Json::array({user("go"), question, decision_on(question, true)});
  const Json first = respond({{"input", history}}, "always")["output"];
  ASSERT_EQ(mcp_.calls, 1);
  Json with_call = history, with_answer = history;
  for (const Json& item : first) {
    with_answer.push_back(item);
    if (item["type"] != "message") with_call.push_back(item);
  }
  with_answer.push_back(user("and now?"));
  for (const Json& input : {with_call, with_answer})
    for (const bool with_tools : {true, false}) {
      Json body = {{"input", input}};
      if (!with_tools) body["tools"] = Json::array();
      respond(body, "always");
      EXPECT_EQ(mcp_.calls, 1);
      EXPECT_EQ(times("tool: "), 1u) << engine_.last_prompt();
      EXPECT_EQ(times(question["id"].get<std::string>().substr(5)), 2u)
          << "in the call and its result: " << engine_.last_prompt();
    }
}

TEST_F(McpRuns, ADeclinedCallInTheHistoryStaysDeclined) {
  begin();
  says({{{call()}}});
  const Json question = respond({{"input", "go"}}, "always")["output"].back();
  Json history = Json::array({user("go"), question, decision_on(question, false)});
  const Json answer = respond({{"input", history}}, "always")["output"].back();
  std::string before = engine_.last_prompt();
  before.resize(before.find("assistant:", before.find("tool: ")));
  history.push_back(answer);
  history.push_back(user("and now?"));
  respond({{"input", history}}, "always");
  EXPECT_TRUE(engine_.last_prompt().starts_with(before)) << engine_.last_prompt();
  history.erase(2);  // it was not even decided
  respond({{"input", history}}, "always");
  EXPECT_EQ(times("tool: "), 1u) << engine_.last_prompt();
  respond({{"input", Json::array({user("go"), question, decision_on(question, true)})}}, "always");
  EXPECT_EQ(mcp_.calls, 0) << "it was declined";
}

TEST_F(McpRuns, TheItemsOfAConversationComeBackAsTheyAre) {
  begin();
  says({{{call()}}});
  const std::string id = post("/v1/conversations", "{}").json()["id"];
  const Json question = respond({{"conversation", id}, {"input", "go"}}, "always")["output"].back();
  respond({{"conversation", id}, {"input", Json::array({decision_on(question, true)})}}, "always");
  Json items = ask(port_, "GET", "/v1/conversations/" + id + "/items?order=asc").json()["data"];
  items.push_back(user("and now?"));
  respond({{"input", items}}, "always");
  EXPECT_EQ(times("tool: "), 1u) << engine_.last_prompt();
  EXPECT_EQ(mcp_.calls, 1);
  // Without the history a decision is on what the conversation asked last, and on nothing else.
  const Json late = {{"conversation", id},
                     {"input", Json::array({decision_on(question, true)})},
                     {"tools", {{{"type", "mcp"}, {"server_label", "s"}}}}};
  EXPECT_EQ(post("/v1/responses", late.dump()).status, 400);
}

TEST_F(McpRuns, ADeclinedCallIsNotApprovedAfterwards) {
  begin();
  says({{{call()}}});
  const Json asked = respond({{"input", "go"}}, "always");
  for (const bool approve : {false, true}) {
    const Json decision = {{"type", "mcp_approval_response"},
                           {"approval_request_id", asked["output"].back()["id"]},
                           {"approve", approve}};
    respond({{"previous_response_id", asked["id"]}, {"input", Json::array({decision})}}, "always");
  }
  EXPECT_EQ(mcp_.calls, 0);
}

// The schema is part of what was shown.
TEST(McpApproval, IsNotForAToolThatHasChangedSince) {
  const mcp::ServerConfig config{.name = "s", .command = "one"};
  const auto consent = ConsentStore::open("").value();
  AgentCall call{
      "call_1",
      "s__echo",
      {.server = "s", .name = "echo", .input_schema = {{"type", "object"}}, .origin = mcp::origin_of(config)},
      Json::object()};
  consent->ask(question_of(call, ""));
  AgentCall changed = call;
  changed.tool.input_schema["properties"] = Json::object();
  EXPECT_EQ(consent->approve(question_of(changed, "")), ConsentStore::Verdict::changed_tool);
  AgentCall elsewhere = call;
  elsewhere.tool.origin = mcp::origin_of({.name = "s", .command = "another"});
  EXPECT_EQ(consent->approve(question_of(elsewhere, "")), ConsentStore::Verdict::changed_tool);
  EXPECT_EQ(consent->approve(question_of(call, "")), ConsentStore::Verdict::granted);
}

TEST_F(McpRuns, ResultsShareTheLimitOfText) {
  mcp_.text = [](const Json&) { return std::string(600, 'x'); };
  for (const bool one_turn : {true, false}) {
    begin({.output_bytes = 1000});
    says(one_turn ? std::vector<Script>{{{call(), call(), call()}}}
                  : std::vector<Script>{{{call()}}, {{call()}}, {{call()}}});
    size_t bytes = 0;
    const auto calls = calls_of(respond({{"input", "go"}}));
    for (const Json& one : calls)
      if (one["output"].is_string()) bytes += one["output"].get<std::string>().size();
    EXPECT_GE(calls.size(), 2u);
    EXPECT_GE(bytes, 600u);
    EXPECT_LE(bytes, 1000u) << (one_turn ? "in one turn" : "in several turns");
  }
}

// A byte for each token of the context. Here every byte is a token, so that the next turn finds no room.
TEST_F(McpRuns, ResultsAreNotLargerThanTheContext) {
  engine_.mutable_info().context_length = 2000;
  mcp_.text = [](const Json&) { return std::string(5000, 'x'); };
  begin({.output_bytes = 1'000'000});
  says({{{call()}}});
  const HttpAnswer answer = post(
      "/v1/responses",
      R"({"input":"go","stream":true,"tools":[{"type":"mcp","server_label":"s","require_approval":"never"}]})");
  size_t bytes = 0;
  for (const Json& event : events(answer.body))
    if (event.is_object() && event["type"] == "response.output_item.done" &&
        event["item"]["type"] == "mcp_call")
      bytes += event["item"]["output"].get<std::string>().size();
  EXPECT_GT(bytes, 1000u) << answer.body;
  EXPECT_LE(bytes, 2000u);
}

TEST_F(McpRuns, TheServersLimitOfCallsHoldsWhateverTheClientAllows) {
  for (const auto& [asked, most] : {std::pair(50, 2), std::pair(1, 1)})
    for (const bool one_turn : {true, false}) {
      begin({.calls = 2});
      mcp_.calls = 0;
      says(one_turn ? std::vector<Script>{{{call(), call(), call(), call()}}}
                    : std::vector<Script>{{{call()}}, {{call()}}, {{call()}}, {{call()}}});
      respond({{"input", "go"}, {"max_tool_calls", asked}});
      EXPECT_EQ(mcp_.calls, most) << asked << one_turn;
    }
}

TEST_F(McpRuns, ARunEndsAfterSoManySteps) {
  begin({.steps = 3});
  std::vector<Script> turns;
  for (int i = 0; i < 20; ++i) turns.push_back({{call()}});
  says(turns);
  respond({{"input", "go"}});
  EXPECT_EQ(next_, 3u);
}

TEST_F(McpRuns, CallsOfAnAnswerThatWasCutAreNotRun) {
  begin();
  says({Script{.parts = {call(), "and then"}, .finish = FinishReason::length}});
  EXPECT_EQ(respond({{"input", "go"}})["status"], "incomplete");
  EXPECT_EQ(mcp_.calls, 0);
}

TEST_F(McpRuns, AKeySeesItsOwnCalls) {
  begin({}, {{.key = "ann", .name = "ann"}, {.key = "bob", .name = "bob"}});
  says({{{call()}}});
  respond({{"input", "go"}}, "never", "ann");
  const auto seen = [&](const std::string& key) {
    return ask(port_, "GET", "/v1/mcp/calls", "", "x-api-key: " + key + "\r\n").json()["data"].size();
  };
  EXPECT_EQ(seen("ann"), 1u);
  EXPECT_EQ(seen("bob"), 0u);
}

// Rounds after a compaction go on from the summary, and think as the question says.
TEST_F(McpRuns, GoOnFromASummary) {
  begin();
  constexpr const char* kHard = "Why does the proof need compactness?";
  for (const char* question : {"hi", kHard}) {
    says({{{"The user likes apples."}}, {{call()}}});
    const Json talk = Json::array({user("I like apples. secret"), user(question)});
    const Json management = Json::array({{{"type", "compaction"}, {"compact_threshold", 10}}});
    const Json response =
        respond({{"input", talk}, {"context_management", management}, {"reasoning", {{"effort", nullptr}}}});
    EXPECT_EQ(next_, 3u) << response;
    EXPECT_EQ(calls_of(response).size(), 1u);
    EXPECT_EQ(times("The user likes apples."), 1u) << engine_.last_prompt();
    EXPECT_EQ(times("secret"), 0u);
    EXPECT_EQ(times("tool: done"), 1u);
    EXPECT_EQ(engine_.last_request().output.thinking_open, question == kHard) << question;
  }
}

}  // namespace
}  // namespace anabranch::server
