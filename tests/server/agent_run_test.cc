#include "server/api/agent_run.h"

#include <gtest/gtest.h>

#include <set>

#include "mcp/config.h"

namespace anabranch::server {
namespace {

mcp::Tool tool(const char* name) {
  mcp::Tool out;
  out.server = "s";
  out.name = name;
  out.input_schema = Json::object();
  return out;
}

AgentTools tools() {
  AgentTools out;
  out.toolbox.add(tool("add"));
  out.toolbox.add(tool("fail"));
  out.others = {"clients"};
  return out;
}

ChatRequest request(int max_tokens = -1) {
  ChatRequest out;
  out.messages = {{{"role", "user"}, {"content", "go"}}};
  out.tools = tools().toolbox.functions();
  out.options.max_tokens = max_tokens;
  return out;
}

// An assistant's message with calls of these names and arguments.
Json turn(std::initializer_list<std::pair<const char*, const char*>> calls) {
  static int id = 0;
  Json message = {{"role", "assistant"}, {"content", ""}, {"tool_calls", Json::array()}};
  for (const auto& [name, arguments] : calls)
    message["tool_calls"].push_back({{"id", "call_" + std::to_string(++id)},
                                     {"type", "function"},
                                     {"function", {{"name", name}, {"arguments", arguments}}}});
  return message;
}

AgentRun run() {
  return AgentRun(tools(), request(), {}, {}, 0);
}

// Gives all waiting calls a result.
void answer(AgentRun& agent, bool is_error) {
  for (const AgentCall& call : agent.take_waiting()) {
    mcp::CallResult result = not_run("text");
    result.is_error = is_error || !call.refusal.empty();
    agent.add_result(call, result);
  }
}

TEST(AgentRun, AToolThatIsNotThereIsAnsweredWithThoseThatAre) {
  AgentRun agent = run();
  const Json known = agent.add_turn(turn({{"made_up", "{}"}, {"s__add", "{}"}}), 1);
  const auto calls = agent.take_waiting();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_NE(calls[0].refusal.find("There is no tool 'made_up'. There are: s__add, s__fail"),
            std::string::npos)
      << calls[0].refusal;
  EXPECT_EQ(calls[0].tool.server, "s");
  EXPECT_EQ(calls[1].refusal, "");
  EXPECT_EQ(known.size(), 2u);
  EXPECT_TRUE(agent.goes_on(0));
}

// The same name may stand for another server tomorrow, or in another configuration that uses this consent.
TEST(AgentRun, AnotherServerOfTheSameNameIsAnotherTool) {
  const auto shown = [](const mcp::ServerConfig& server) {
    AgentCall call{"call_1", "s__add", tool("add"), Json::object()};
    call.tool.origin = mcp::origin_of(server);
    return question_of(call, "alice").shown;
  };
  const mcp::ServerConfig usual{.name = "s", .command = "run", .args = {"a b"}, .env = {{"A", "1"}}};
  EXPECT_EQ(shown(usual), shown(usual));
  std::vector<mcp::ServerConfig> others(6, usual);
  others[0].command = "ruin";
  others[1].args = {"a", "b"};
  others[2].env["A"] = "2";
  others[3].cwd = "/tmp";
  others[4] = {.name = "s", .http = true, .url = "https://a.example"};
  others[5] = {.name = "s", .http = true, .url = "https://a.example", .headers = {{"X", "1"}}};
  std::set<std::string> all = {shown(usual)};
  for (const mcp::ServerConfig& other : others) EXPECT_TRUE(all.insert(shown(other)).second);
}

// A client may decode arguments and write them again, and a server of tools may list its schema in another
// order.
TEST(AgentRun, WhatWasAskedDoesNotDependOnTheOrderOfMembers) {
  const auto question = [](const char* arguments, const char* schema) {
    AgentCall call{"call_1", "s__add", tool("add"), parse_json(arguments).value()};
    call.tool.input_schema = parse_json(schema).value();
    return question_of(call, "alice");
  };
  const auto first =
      question(R"({"b":[1e2,{"y":1,"x":2}],"a":"x"})", R"({"type":"object","properties":{"b":{},"a":{}}})");
  const auto second =
      question(R"({"a":"x","b":[100,{"x":2.0,"y":1}]})", R"({"properties":{"a":{},"b":{}},"type":"object"})");
  EXPECT_EQ(first.arguments, second.arguments);
  EXPECT_EQ(first.shown, second.shown);
  // The order of a list, a number's fraction and a text that looks like a number do count.
  for (const char* other : {R"({"a":"x","b":[{"x":2,"y":1},100]})", R"({"a":"x","b":[100.5,{"x":2,"y":1}]})",
                            R"({"a":"x","b":["100",{"x":2,"y":1}]})"})
    EXPECT_NE(question(other, "{}").arguments, first.arguments) << other;
}

TEST(AgentRun, FunctionsOfTheClientAreItsOwn) {
  AgentRun agent = run();
  EXPECT_TRUE(agent.add_turn(turn({{"clients", "{}"}}), 1).empty());
  EXPECT_FALSE(agent.has_waiting());
  EXPECT_FALSE(agent.goes_on(0));
  EXPECT_FALSE(tools().is_unknown("clients"));
  EXPECT_TRUE(tools().is_unknown("made_up"));
  EXPECT_FALSE(AgentTools().is_unknown("made_up"));  // without MCP all functions are the client's
}

TEST(AgentRun, AFailingCallThatIsRepeatedEndsWithoutTools) {
  for (const char* name : {"made_up", "s__fail"}) {
    AgentRun agent = run();
    agent.add_turn(turn({{name, R"({"a": 1})"}}), 1);
    answer(agent, true);
    EXPECT_EQ(agent.next_request().tool_choice.kind, ToolChoice::Kind::automatic);
    agent.add_turn(turn({{name, R"({"a":1})"}}), 1);
    answer(agent, true);
    EXPECT_TRUE(agent.goes_on(0));
    EXPECT_EQ(agent.next_request().tool_choice.kind, ToolChoice::Kind::none);
    EXPECT_FALSE(agent.next_request().tools.is_null()) << "the prompt stays as it was";
    // Nothing runs any more, whatever the model says.
    agent.add_turn(turn({{name, "{}"}}), 1);
    EXPECT_FALSE(agent.has_waiting());
  }
}

TEST(AgentRun, WhatWorksOrChangesIsNoRepetition) {
  AgentRun agent = run();
  agent.add_turn(turn({{"s__add", "{}"}}), 1);
  answer(agent, false);
  agent.add_turn(turn({{"s__add", "{}"}}), 1);  // it worked
  answer(agent, false);
  agent.add_turn(turn({{"s__fail", "{}"}}), 1);
  answer(agent, true);
  agent.add_turn(turn({{"s__fail", R"({"x": 1})"}}), 1);  // others
  answer(agent, true);
  agent.add_turn(turn({{"s__add", R"({"write": 1})"}}), 1);  // which may be what the other one needed
  answer(agent, false);
  agent.add_turn(turn({{"s__fail", "{}"}}), 1);
  answer(agent, true);
  agent.add_turn(turn({{"s__fail", "{}"}, {"s__add", "{}"}}), 1);  // one of them may work
  answer(agent, true);
  EXPECT_EQ(agent.next_request().tool_choice.kind, ToolChoice::Kind::automatic);
}

TEST(AgentRun, TheServersLimitOfTokensCounts) {
  mcp::AgentLimits limits;
  limits.tokens = 100;
  EXPECT_EQ(most_tokens(-1, limits), 100);
  EXPECT_EQ(most_tokens(40, limits), 40);
  EXPECT_EQ(most_tokens(1000, limits), 100);
  AgentRun agent(tools(), request(1000), {}, limits, 0);
  agent.add_turn(turn({{"s__add", "{}"}}), 99);
  EXPECT_TRUE(agent.goes_on(0));
  EXPECT_EQ(agent.next_request().options.max_tokens, 1);
  agent.add_turn(turn({{"s__add", "{}"}}), 1);
  EXPECT_FALSE(agent.goes_on(0));
  EXPECT_FALSE(agent.stopped().empty());
}

}  // namespace
}  // namespace anabranch::server
