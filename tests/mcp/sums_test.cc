// Many small things that together are too much, and what must be told apart: lines, floods, answers, consent.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "base/clock.h"
#include "mcp/agent.h"
#include "mcp/flood.h"
#include "mcp/line_reader.h"
#include "mcp/pending.h"
#include "mcp/servers.h"
#include "mcp/stdio_server.h"
#include "slow.h"

namespace anabranch::mcp {
namespace {

TEST(LineReader, ALineHasALimitInWhateverPiecesItComes) {
  for (const size_t step : {1u, 3u, 100u}) {
    LineReader lines(10);
    std::string seen;
    const auto push = [&](std::string_view text) {
      for (; !text.empty(); text.remove_prefix(std::min(step, text.size())))
        if (!lines.push(text.substr(0, step), [&](std::string_view line) {
              seen += std::string(line) + "|";
              return true;
            }))
          return false;
      return true;
    };
    EXPECT_TRUE(push("a\nbc\r\n\n0123456789\n")) << step;
    EXPECT_EQ(seen, "a|bc||0123456789|");
    EXPECT_FALSE(push("0123456789x")) << step;
  }
}

TEST(FloodGate, CountsAllMessagesAndAllBytes) {
  Limits limits;
  limits.flood_messages = 5;
  limits.flood_bytes = 1000;
  FloodGate many(limits), large(limits);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(many.take(1)) << i;
  EXPECT_FALSE(many.take(1));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(large.take(300)) << i;
  EXPECT_FALSE(large.take(300));
}

TEST(PendingRequests, TheFirstAnswerCounts) {
  const auto answer = [](int64_t id, const char* text) {
    Message message;
    message.kind = Message::Kind::result;
    message.id = id;
    message.body = {{"text", text}};
    return message;
  };
  PendingRequests pending;
  const int64_t first = *pending.add("a"), second = *pending.add("b");
  EXPECT_TRUE(pending.take("s", answer(second, "of b")));
  EXPECT_TRUE(pending.take("s", answer(first, "first")));
  EXPECT_FALSE(pending.take("s", answer(first, "second")));
  EXPECT_FALSE(pending.take("s", answer(99, "of nobody")));
  pending.fail_all({ErrorKind::io, "gone for a while"}, false);
  EXPECT_EQ((**pending.wait(first, 0, nullptr))["text"], "first");
  EXPECT_EQ((**pending.wait(second, 0, nullptr))["text"], "of b");
  pending.fail_all({ErrorKind::io, "gone"}, true);
  EXPECT_FALSE(pending.add("c").ok()) << "nobody waits for a server that has gone";
}

TEST(Consent, AnythingElseThanTheToolThatWasAgreedToIsAsked) {
  const Tool agreed{
      "files", "write", "", "Writes a file.", {{"type", "object"}, {"properties", Json::object()}}, {}};
  Consent consent;
  consent.remember(agreed, Permission::allow);
  EXPECT_EQ(consent.of(agreed), Permission::allow);
  std::vector<Tool> others(4, agreed);
  others[0].input_schema["properties"]["path"] = {{"type", "string"}};
  others[1].name = "erase";
  others[2].server = "shell";
  others[3].description = "Publishes a file.";
  for (const Tool& other : others)
    EXPECT_EQ(consent.of(other), Permission::ask) << other.server << other.name;
  consent.remember(others[0], Permission::refuse);
  EXPECT_EQ(consent.of(others[0]), Permission::refuse);
  EXPECT_EQ(consent.of(agreed), Permission::allow);
}

// A server that is this script. `send(id, result)` answers; `calls` counts calls.
constexpr const char* kScript = R"(
import json, sys
def send(id, result): print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)
def tool(name): return {"name": name, "inputSchema": {"type": "object"}}
for line in sys.stdin:
    message = json.loads(line)
    method, id, params = message.get("method"), message.get("id"), message.get("params", {})
    if method == "initialize":
        send(id, {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}, "prompts": {}}})
        continue
    if id is None: continue
)";

class Scripted : public ::testing::Test {
 protected:
  // body: what it does with other requests, indented by four.
  Servers& run(const std::string& body) {
    ServerConfig config;
    config.name = "script";
    config.command = "python3";
    config.args = {"-u", "-c", kScript + body};
    limits_.start_seconds = limits_.call_seconds = 10 * kSlowdown;
    limits_.close_seconds = 0.1;
    servers_ = std::make_unique<Servers>(std::vector{config}, limits_);
    return *servers_;
  }
  std::string names() {
    const auto tools = servers_->tools("script", nullptr);
    EXPECT_TRUE(tools.ok()) << (tools.ok() ? "" : tools.error().message);
    std::string all;
    if (tools)
      for (const Tool& tool : *tools) all += tool.name + " ";
    return all;
  }
  Tool first() { return servers_->tools("script", nullptr)->at(0); }

  Limits limits_;
  std::unique_ptr<Servers> servers_;
};

TEST_F(Scripted, EmptyPagesWithoutEndEnd) {
  run(R"(    page = int(params.get("cursor", 0)) if params else 0
    send(id, {"tools": [tool("only")] if page == 0 else [], "nextCursor": str(page + 1)} if page < 100000 else {"tools": []})
)");
  EXPECT_EQ(names(), "only ");
  ASSERT_EQ(servers_->states()[0].tools.notes.size(), 1u);
  EXPECT_NE(servers_->states()[0].tools.notes[0].find("pages without end"), std::string::npos);
}

TEST_F(Scripted, AServerThatReadsNothingIsNotSentMoreAndMore) {
  run(R"(    send(id, {"tools": [tool("a")]})
    import time
    time.sleep(1000)
)");
  const Tool tool = first();
  const Json large = {{"text", std::string(3u << 20, 'x')}};
  std::string last;
  for (int i = 0; i < 8; ++i) last = servers_->call(tool, large, [] { return true; }).text;
  EXPECT_NE(last.find("does not read"), std::string::npos) << last;
}

TEST_F(Scripted, ManyLargeMessagesAreAFlood) {
  limits_.flood_bytes = 1u << 20;
  run(R"(    if method == "tools/list": send(id, {"tools": [tool("a")]})
    else:
        for i in range(200):
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"a": "x" * 50000}}), flush=True)
        send(id, {"content": []})
)");
  const CallResult result = servers_->call(first(), Json::object(), nullptr);
  EXPECT_NE(result.text.find("sent too much at once"), std::string::npos) << result.text;
}

TEST_F(Scripted, APromptOfManyMessagesHasALimit) {
  run(R"(    if method == "prompts/get":
        send(id, {"messages": [{"role": "user", "content": {"type": "text", "text": "x" * 10000}}] * 20})
)");
  const auto prompt = servers_->get_prompt("script", "p", {}, nullptr);
  ASSERT_FALSE(prompt.ok());
  EXPECT_EQ(prompt.error().kind, ErrorKind::exhausted) << prompt.error().message;
}

TEST_F(Scripted, APromptSpeaksAsNobodyElse) {
  run(R"(    send(id, {"messages": [{"role": params["name"], "content": {"type": "text", "text": "x"}}]})
)");
  EXPECT_TRUE(servers_->get_prompt("script", "user", {}, nullptr).ok());
  EXPECT_TRUE(servers_->get_prompt("script", "assistant", {}, nullptr).ok());
  EXPECT_FALSE(servers_->get_prompt("script", "system", {}, nullptr).ok());
}

TEST_F(Scripted, APromptHasPlainNamesAndALimitOfArguments) {
  limits_.max_tools = 3;
  run(R"(    send(id, {"prompts": [{"name": "a\nb"}, {"name": "good", "arguments": [{"name": "x"}] * 10}]})
)");
  const auto prompts = servers_->prompts("script", nullptr);
  ASSERT_TRUE(prompts.ok()) << prompts.error().message;
  ASSERT_EQ(prompts->size(), 1u);
  EXPECT_EQ(prompts->front().name, "good");
  EXPECT_EQ(prompts->front().arguments.size(), 3u);
}

TEST_F(Scripted, CursorsThatGrowEndAList) {
  run(R"(    page = len(params["cursor"]) - 5000 if params else 0
    send(id, {"tools": [tool("t%d" % page)], "nextCursor": "x" * (5001 + page)})
)");
  EXPECT_EQ(names(), "t0 ");
}

TEST_F(Scripted, AResultOfManySmallBlocksHasALimit) {
  limits_.output_bytes = 1000;
  run(R"(    if method == "tools/list": send(id, {"tools": [tool("a")]})
    else: send(id, {"content": [{"type": "text", "text": "word"}] * 10000})
)");
  const CallResult result = servers_->call(first(), Json::object(), nullptr);
  EXPECT_TRUE(result.truncated);
  EXPECT_LT(result.text.size(), 1200u);
}

TEST_F(Scripted, AServerThatWasStartedAgainIsAskedForItsToolsAgain) {
  const std::string file = ::testing::TempDir() + "mcp_started_" + std::to_string(::getpid());
  run(R"(    import os
    again = os.path.exists(")" +
      file + R"(")
    if method == "tools/list": send(id, {"tools": [tool("second" if again else "first")]})
    else:
        open(")" +
      file + R"(", "w").close()
        sys.exit(1)
)");
  EXPECT_EQ(names(), "first ");
  EXPECT_TRUE(servers_->call(first(), Json::object(), nullptr).is_error);
  EXPECT_EQ(names(), "second ");
  std::filesystem::remove(file);
}

TEST_F(Scripted, WhatAServerStartedEndsWithIt) {
  const std::string file = ::testing::TempDir() + "mcp_child_" + std::to_string(::getpid());
  run(R"(    import subprocess
    if method == "tools/list": send(id, {"tools": [tool("a")]})
    else:
        child = subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        with open(")" +
      file + R"(", "w") as out: out.write(str(child.pid))
        sys.exit(1)
)");
  EXPECT_TRUE(servers_->call(first(), Json::object(), nullptr).is_error);
  int child = 0;
  std::ifstream(file) >> child;
  std::filesystem::remove(file);
  ASSERT_GT(child, 0);
  const auto state = [&] {  // a zombie may wait for its new parent
    std::string line, name = "/proc/" + std::to_string(child) + "/stat";
    std::getline(std::ifstream(name) >> std::ws, line);
    const size_t end = line.rfind(')');
    return line.empty() || end == line.npos ? 'X' : line[end + 2];
  };
  for (const double until = now_seconds() + 10 * kSlowdown;
       state() != 'X' && state() != 'Z' && now_seconds() < until;)
    ::usleep(5000);
  EXPECT_TRUE(state() == 'X' || state() == 'Z') << state();
}

// ---- our own server

TEST(StdioServer, ManyCallsAtATimeAreRefusedAndTheOthersAnswered) {
  int in[2], out[2];
  ASSERT_EQ(::pipe(in), 0);
  ASSERT_EQ(::pipe(out), 0);
  std::mutex mutex;
  std::condition_variable opened;
  bool open = false;
  const std::vector<ServedTool> tools = {
      {"wait", "", "", {{"type", "object"}}, true, [&](const ServedCall&) -> Result<std::string> {
         std::unique_lock lock(mutex);
         opened.wait(lock, [&] { return open; });
         return std::string("waited");
       }}};
  std::thread server(
      [&] { EXPECT_TRUE(serve_stdio("s", "1", tools, in[0], out[1], [] { return false; }).ok()); });
  constexpr int kCalls = 300;
  std::string calls;
  for (int i = 0; i < kCalls; ++i)
    calls += request_text(i, "tools/call", {{"name", "wait"}, {"arguments", Json::object()}}) + "\n";
  ASSERT_EQ(::write(in[1], calls.data(), calls.size()), static_cast<ssize_t>(calls.size()));
  std::string answers;
  const auto count = [&](std::string_view word) {
    int found = 0;
    for (size_t at = 0; (at = answers.find(word, at)) != answers.npos; at += word.size()) found++;
    return found;
  };
  const auto read_until = [&](const auto& condition) {
    char bytes[4096];
    while (!condition()) {
      const ssize_t got = ::read(out[0], bytes, sizeof bytes);
      if (got <= 0) break;
      answers.append(bytes, static_cast<size_t>(got));
    }
  };
  // 4 run and 64 wait.
  read_until([&] { return count("too many calls") >= kCalls - 68; });
  {
    const std::lock_guard lock(mutex);
    open = true;
  }
  opened.notify_all();
  read_until([&] { return count("too many calls") + count("waited") >= kCalls; });
  EXPECT_LE(count("waited"), 68);
  EXPECT_GE(count("waited"), 64);
  ::close(in[1]);
  server.join();
  for (const int end : {in[0], out[0], out[1]}) ::close(end);
}

// A server of one tool, and what a client sends and reads.
class Served {
 public:
  explicit Served(std::function<Result<std::string>(const ServedCall&)> run)
      : tools_{{"work", "", "", {{"type", "object"}}, true, std::move(run)}} {
    if (::pipe(in_) != 0 || ::pipe(out_) != 0) std::abort();
    server_ =
        std::thread([this] { (void)serve_stdio("s", "1", tools_, in_[0], out_[1], [] { return false; }); });
  }
  ~Served() {
    if (server_.joinable()) leave();
    for (const int end : {in_[0], out_[0], out_[1]}) ::close(end);
  }
  void leave() {
    ::close(in_[1]);
    server_.join();
  }
  void send(const std::string& message) {
    EXPECT_EQ(::write(in_[1], (message + "\n").data(), message.size() + 1),
              static_cast<ssize_t>(message.size() + 1));
  }
  std::string read_line() {
    std::string line;
    for (char c = 0; ::read(out_[0], &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }

 private:
  const std::vector<ServedTool> tools_;
  int in_[2], out_[2];
  std::thread server_;
};

std::string call_text(int id, const Json& more = Json::object()) {
  Json params = {{"name", "work"}};
  params.update(more);
  return request_text(id, "tools/call", params);
}

TEST(StdioServer, SpeaksTheVersionThatItsClientSpeaks) {
  Served served([](const ServedCall&) { return std::string("done"); });
  for (const char* version : {"2024-11-05", "2025-06-18"}) {
    served.send(request_text(1, "initialize", {{"protocolVersion", version}}));
    EXPECT_NE(served.read_line().find(version), std::string::npos);
  }
}

TEST(StdioServer, ACancelledCallHasNoAnswerAndAnIdMayBeUsedAgain) {
  std::atomic<bool> begun = false, waits = true;
  Served served([&](const ServedCall& call) {
    begun = true;
    while (waits && !call.cancelled) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    return std::string(waits ? "cancelled" : "done");
  });
  served.send(call_text(1));
  while (!begun) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  served.send(notification_text("notifications/cancelled", {{"requestId", 1}}));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  waits = false;
  for (int i = 0; i < 2; i++) {
    served.send(call_text(2));
    const std::string line = served.read_line();
    EXPECT_NE(line.find("done"), std::string::npos) << line;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

TEST(StdioServer, AClientThatLeavesCancelsItsCalls) {
  std::atomic<bool> begun = false, cancelled = false;
  Served served([&](const ServedCall& call) {
    begun = true;
    for (int i = 0; i < 1000 && !cancelled; i++) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      cancelled = call.cancelled.load();
    }
    return std::string("done");
  });
  served.send(call_text(1));
  while (!begun) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  served.leave();
  EXPECT_TRUE(cancelled);
}

TEST(StdioServer, ProgressIsToldNowAndThen) {
  Served served([](const ServedCall& call) {
    for (int i = 0; i < 1000; i++) call.progress(i, "token");
    return std::string("done");
  });
  served.send(call_text(1, {{"_meta", {{"progressToken", "p"}}}}));
  int told = 0;
  for (std::string line; (line = served.read_line()).find("\"done\"") == line.npos && told < 2000; told++)
    EXPECT_NE(line.find("notifications/progress"), line.npos) << line;
  EXPECT_GE(told, 1);
  EXPECT_LT(told, 100);
}

}  // namespace
}  // namespace anabranch::mcp
