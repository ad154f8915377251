#include "cli/agent_loop.h"

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <set>
#include <thread>

#include "fake_mcp.h"
#include "slow.h"
#include "temp_dir.h"

namespace anabranch::cli {
namespace {

// Says what it was told to, one answer after the other, and then only text.
struct Scripted : Partner {
  std::deque<std::vector<ToolCall>> calls;
  int tokens = 1;  // of each answer
  std::vector<Json> asked, offered;
  std::vector<bool> may_call;

  std::string name() const override { return "scripted"; }
  Result<void> change_model(const std::string&) override { return {}; }
  Result<Answer> answer(const Json& messages, const AnswerOptions& options,
                        const std::atomic<bool>&) override {
    asked.push_back(messages);
    offered.push_back(options.tools);
    may_call.push_back(options.may_call);
    Answer answer;
    answer.text = "text";
    answer.usage.completion_tokens = tokens;
    if (!calls.empty()) {
      answer.calls = calls.front();
      calls.pop_front();
    }
    return answer;
  }
};

struct AgentLoop : ::testing::Test {
  std::atomic<bool> interrupt{false};
  Scripted partner;
  FakeMcp fake;
  testing::TempDir folder;
  McpFlags flags;
  ToolDesk::Ask ask;
  Json messages = Json::array({{{"role", "user"}, {"content", "go"}}});
  std::unique_ptr<ToolDesk> desk;

  Result<Answer> run() {
    folder.write("mcp.json", dump_json({{"mcpServers", {{"fake", {{"url", fake.server().url("/mcp")}}}}}}));
    flags.config = folder.file("mcp.json");
    auto opened = ToolDesk::open(flags, ask, interrupt);
    EXPECT_TRUE(opened) << opened.error().message;
    desk = std::move(*opened);
    return answer_with_tools(partner, desk.get(), messages, {}, interrupt);
  }
  ToolCall echo(const std::string& arguments = "{}") const { return {"fake__echo", arguments}; }
  std::vector<std::string> results() const {
    std::vector<std::string> found;
    for (const Json& message : messages)
      if (message["role"] == "tool") found.push_back(message["content"]);
    return found;
  }
};

TEST_F(AgentLoop, EveryCallOfAllTurnsHasItsOwnId) {
  flags.allow = {"fake"};
  partner.calls = {{echo(), echo(R"({"a":1})")}, {echo(R"({"a":2})")}};
  ASSERT_TRUE(run());
  std::set<std::string> ids;
  size_t calls = 0;
  for (const Json& message : messages)
    for (const Json& call : message.value("tool_calls", Json::array())) {
      ids.insert(call["id"].get<std::string>());
      ++calls;
    }
  EXPECT_EQ(calls, 3u);
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_EQ(fake.calls, 3);
  EXPECT_EQ(results(), (std::vector<std::string>{"done", "done", "done"}));
}

TEST_F(AgentLoop, AFailingCallThatIsRepeatedGetsNoMoreTools) {
  partner.calls = {{{"nothing", "{}"}}, {{"nothing", "{}"}}, {{"nothing", "{}"}}, {{"nothing", "{}"}}};
  ASSERT_TRUE(run());
  ASSERT_EQ(partner.offered.size(), 3u);
  EXPECT_EQ(partner.may_call, (std::vector<bool>{true, true, false}));
  EXPECT_FALSE(partner.offered[1].is_null());
  EXPECT_EQ(partner.offered[2], partner.offered[1]) << "the prompt keeps its beginning";
  // Calls of a server that does not know that none may be called would get no results.
  EXPECT_FALSE(messages.back().contains("tool_calls"));
}

TEST_F(AgentLoop, ACallThatFailsOnceMayBeRepeatedWithOthers) {
  flags.allow = {"fake"};
  partner.calls = {{{"nothing", "{}"}}, {{"nothing", "{}"}, echo()}};
  ASSERT_TRUE(run());
  ASSERT_EQ(partner.offered.size(), 3u);
  EXPECT_FALSE(partner.offered[2].is_null());
  EXPECT_TRUE(partner.may_call[2]);
}

TEST_F(AgentLoop, TheLimitOfStepsEndsARunThatCallsForEver) {
  flags.allow = {"fake"};
  flags.limits.steps = 3;
  for (int i = 0; i < 10; ++i) partner.calls.push_back({echo(dump_json({{"i", i}}))});
  ASSERT_TRUE(run());
  EXPECT_EQ(partner.asked.size(), 3u);
}

TEST_F(AgentLoop, TheLimitOfTokensCountsEveryAnswer) {
  flags.allow = {"fake"};
  flags.limits.tokens = 100;
  partner.tokens = 40;
  for (int i = 0; i < 10; ++i) partner.calls.push_back({echo(dump_json({{"i", i}}))});
  ASSERT_TRUE(run());
  EXPECT_EQ(partner.asked.size(), 3u);
}

TEST_F(AgentLoop, CtrlCDuringACallEndsTheRun) {
  flags.allow = {"fake"};
  fake.text = [&](const Json&) {
    interrupt = true;
    return std::string("late");
  };
  partner.calls = {{echo(), echo(R"({"a":1})")}, {echo()}};
  ASSERT_TRUE(run());
  EXPECT_EQ(partner.asked.size(), 1u);
  ASSERT_EQ(results().size(), 2u);  // every call has its result, so that the conversation can go on
  EXPECT_EQ(results()[1], "Error: the user stopped this");
}

TEST_F(AgentLoop, ARefusedCallDoesNotRunAndSaysSo) {
  ask = [](const std::string&) { return "n"; };
  partner.calls = {{echo()}};
  ASSERT_TRUE(run());
  EXPECT_EQ(fake.calls, 0);
  ASSERT_EQ(results().size(), 1u);
  EXPECT_NE(results()[0].find("did not allow"), std::string::npos);
}

TEST_F(AgentLoop, AQuestionThatCtrlCInterruptsIsNoAgreement) {
  ask = [&](const std::string&) {
    interrupt = true;
    return "y";
  };
  partner.calls = {{echo()}};
  ASSERT_TRUE(run());
  EXPECT_EQ(fake.calls, 0);
}

TEST_F(AgentLoop, WhatIsTypedAsCtrlCComesIsNotRemembered) {
  int asked = 0;
  ask = [&](const std::string&) {
    interrupt = ++asked == 1;
    return asked == 1 ? "always" : "n";
  };
  partner.calls = {{echo()}};
  ASSERT_TRUE(run());
  interrupt = false;
  partner.calls = {{echo()}};
  ASSERT_TRUE(answer_with_tools(partner, desk.get(), messages, {}, interrupt));
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(fake.calls, 0);
}

TEST_F(AgentLoop, AnAllowedCallRuns) {
  int asked = 0;
  ask = [&](const std::string&) {
    ++asked;
    return "y";
  };
  partner.calls = {{echo()}, {echo(R"({"a":1})")}};
  ASSERT_TRUE(run());
  EXPECT_EQ(fake.calls, 2);
  EXPECT_EQ(asked, 2);
}

TEST_F(AgentLoop, AlwaysIsAskedOnceAndNeverIsNotAskedAgain) {
  for (const char* word : {"always", "never"}) {
    int asked = 0;
    ask = [&](const std::string&) {
      ++asked;
      return word;
    };
    fake.calls = 0;
    partner.calls = {{echo()}, {echo(R"({"a":1})")}};
    ASSERT_TRUE(run());
    EXPECT_EQ(asked, 1) << word;
    EXPECT_EQ(fake.calls, word[0] == 'a' ? 2 : 0) << word;
  }
}

TEST_F(AgentLoop, ArgumentsThatNobodyCanReadAreNotAskedAbout) {
  int asked = 0;
  ask = [&](const std::string&) {
    ++asked;
    return "y";
  };
  partner.calls = {{echo(dump_json({{"text", std::string(70 << 10, 'x')}}))}};
  ASSERT_TRUE(run());
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(fake.calls, 0);
}

TEST_F(AgentLoop, WithoutATerminalNothingRunsThatNobodyAllowed) {
  partner.calls = {{echo()}};
  ASSERT_TRUE(run());
  EXPECT_EQ(fake.calls, 0);
}

TEST_F(AgentLoop, TheTimeOfAQuestionIsNotTheRuns) {
  flags.limits.seconds = 1.0 * kSlowdown;
  ask = [](const std::string&) {
    std::this_thread::sleep_for(
        std::chrono::milliseconds(600 * kSlowdown));  // twice that is too long for the run
    return "n";
  };
  partner.calls = {{echo()}, {echo(R"({"a":1})")}};
  ASSERT_TRUE(run());
  EXPECT_EQ(partner.asked.size(), 3u);
}

}  // namespace
}  // namespace anabranch::cli
