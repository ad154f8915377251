// Servers over HTTP that do what no server should.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/clock.h"
#include "fake_mcp.h"
#include "mcp/servers.h"
#include "slow.h"

namespace anabranch::mcp {
namespace {

using Asked = RawHttpServer::Request;
using Send = RawHttpServer::Send;

class McpOverHttp : public ::testing::Test {
 protected:
  Servers& servers() {
    if (!servers_) {
      ServerConfig config;
      config.name = "web";
      config.http = true;
      config.url = fake_.server().url("/mcp");
      config.headers = {{"X-Key", "secret"}};
      limits_.start_seconds = limits_.call_seconds = 10 * kSlowdown;
      servers_ = std::make_unique<Servers>(std::vector{config}, limits_);
    }
    return *servers_;
  }
  CallResult call() {
    const auto tools = servers().tools("web", nullptr);
    EXPECT_TRUE(tools.ok()) << (tools.ok() ? "" : tools.error().message);
    if (!tools || tools->empty()) return {};
    return servers().call(tools->front(), Json::object(), nullptr);
  }
  // Has calls answered with a stream that is this again and again, up to 16 MiB of it.
  void call_with_stream(const std::string& piece) {
    fake_.instead = [this, piece](const Asked&, const std::string& method, const Send& send) {
      if (method != "tools/call") return false;
      send("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/event-stream\r\n\r\n");
      while (sent_ < kMost && send(piece)) sent_ += piece.size();
      return true;
    };
  }

  static constexpr size_t kMost = 16u << 20;
  FakeMcp fake_;
  Limits limits_;
  std::atomic<size_t> sent_{0};
  std::unique_ptr<Servers> servers_;
};

TEST_F(McpOverHttp, ListsAndCalls) {
  const CallResult result = call();
  EXPECT_FALSE(result.is_error) << result.text;
  EXPECT_EQ(result.text, "done");
  EXPECT_EQ(fake_.server().requests().front().field("X-Key"), "secret");
}

TEST_F(McpOverHttp, ARedirectToAnotherHostGetsNoKey) {
  const RawHttpServer other([](const Asked&, const Send& send) { send(http_answer("{}")); });
  fake_.instead = [&](const Asked&, const std::string& method, const Send& send) {
    if (method != "tools/call") return false;
    send(http_answer("", "Location: " + other.url("/mcp") + "\r\n", "307 Temporary Redirect"));
    return true;
  };
  const CallResult result = call();
  EXPECT_TRUE(result.is_error);
  EXPECT_NE(result.text.find("redirects to"), std::string::npos) << result.text;
  EXPECT_TRUE(other.requests().empty());
}

TEST_F(McpOverHttp, RedirectsWithinTheServerAreFollowedAndEnd) {
  fake_.instead = [](const Asked& asked, const std::string&, const Send& send) {
    if (asked.target == "/mcp/v2") return false;
    send(http_answer("", "Location: /mcp/v2\r\n", "308 Permanent Redirect"));
    return true;
  };
  EXPECT_EQ(call().text, "done");
  std::atomic<int> redirects = 0;
  fake_.instead = [&](const Asked&, const std::string& method, const Send& send) {
    if (method != "tools/call" || ++redirects > 50) return false;
    send(http_answer("", "Location: /mcp/v2\r\n", "307 Temporary Redirect"));
    return true;
  };
  EXPECT_TRUE(call().is_error);
  EXPECT_LT(redirects, 10);
}

TEST_F(McpOverHttp, ASessionThatTheServerForgotIsBegunAnew) {
  fake_.session = "first";
  EXPECT_EQ(call().text, "done");
  fake_.session = "second";
  fake_.instead = [](const Asked& asked, const std::string&, const Send& send) {
    if (asked.field("Mcp-Session-Id") != "first") return false;
    send(http_answer("", "", "404 Not Found"));
    return true;
  };
  EXPECT_EQ(call().text, "done");
  EXPECT_EQ(fake_.starts, 2);
  EXPECT_EQ(fake_.calls, 2) << "none was made twice";
}

TEST_F(McpOverHttp, AServerThatForgetsEverySessionIsAskedTwice) {
  std::atomic<int> asked{0};
  fake_.session = "first";
  fake_.instead = [&](const Asked&, const std::string& method, const Send& send) {
    if (method != "tools/call" || ++asked > 20) return false;
    send(http_answer("", "", "404 Not Found"));
    return true;
  };
  EXPECT_TRUE(call().is_error);
  EXPECT_EQ(asked, 2);
}

TEST_F(McpOverHttp, SmallEventsWithoutEndEndTheCall) {
  limits_.flood_messages = 500;
  call_with_stream("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\"}\n\n");
  const CallResult result = call();
  EXPECT_NE(result.text.find("too many messages"), std::string::npos) << result.text;
  EXPECT_LT(sent_, kMost);
}

TEST_F(McpOverHttp, RequestsOfTheServerWithoutEndEndTheCall) {
  limits_.flood_messages = 100'000'000;
  call_with_stream("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n");
  const CallResult result = call();
  EXPECT_NE(result.text.find("asks too much"), std::string::npos) << result.text;
  EXPECT_LT(sent_, kMost);
}

TEST_F(McpOverHttp, AnEventOfManyLinesHasALimit) {
  limits_.message_bytes = 100'000;
  call_with_stream("data: some words\n");
  const CallResult result = call();
  EXPECT_NE(result.text.find("too long"), std::string::npos) << result.text;
  EXPECT_LT(sent_, kMost);
}

TEST_F(McpOverHttp, HeadersWithoutEndEndTheCall) {
  fake_.instead = [](const Asked& asked, const std::string& method, const Send& send) {
    if (method != "tools/call") return false;
    std::string fields = "Content-Type: application/json\r\n";
    for (int i = 0; i < 5000; ++i) fields += "X-" + std::to_string(i) + ": " + std::string(30, 'x') + "\r\n";
    const Json message = *parse_json(asked.body);
    send(http_answer(
        dump_json({{"jsonrpc", "2.0"}, {"id", message["id"]}, {"result", {{"content", Json::array()}}}}),
        fields));
    return true;
  };
  EXPECT_TRUE(call().is_error);
}

TEST_F(McpOverHttp, TheAnswerToAnotherRequestIsNone) {
  fake_.instead = [](const Asked&, const std::string& method, const Send& send) {
    if (method != "tools/call") return false;
    send(
        http_answer(R"({"jsonrpc":"2.0","id":99,"result":{"content":[{"type":"text","text":"of another"}]}})",
                    "Content-Type: application/json\r\n"));
    return true;
  };
  const CallResult result = call();
  EXPECT_TRUE(result.is_error);
  EXPECT_NE(result.text.find("ended its answer"), std::string::npos) << result.text;
}

TEST_F(McpOverHttp, ASessionIsNamedAndEnded) {
  fake_.session = "mine";
  call();
  EXPECT_NE(fake_.server().requests().back().field("MCP-Protocol-Version"), "");
  servers_.reset();
  const auto last = fake_.server().requests().back();
  EXPECT_EQ(last.method, "DELETE");
  EXPECT_EQ(last.field("Mcp-Session-Id"), "mine");
}

TEST_F(McpOverHttp, ASessionWithOddCharactersIsNone) {
  fake_.session = "a\tb";
  call();
  EXPECT_EQ(fake_.server().requests().back().field("Mcp-Session-Id"), "");
}

TEST_F(McpOverHttp, AWrongAddressIsAskedOnce) {
  std::atomic<int> count = 0;
  fake_.instead = [&](const Asked&, const std::string& method, const Send& send) {
    if (method != "tools/call") return false;
    count++;
    send(http_answer("", "", "404 Not Found"));
    return true;
  };
  EXPECT_TRUE(call().is_error);
  EXPECT_EQ(count, 1) << "there is no session that it could have forgotten";
}

TEST_F(McpOverHttp, AKeyInARedirectIsNotShown) {
  fake_.instead = [&](const Asked&, const std::string& method, const Send& send) {
    if (method != "tools/call") return false;
    send(http_answer("", "Location: http://other.example/mcp?key=hidden\r\n", "307 Temporary Redirect"));
    return true;
  };
  const std::string text = call().text;
  EXPECT_NE(text.find("http://other.example/mcp"), std::string::npos) << text;
  EXPECT_EQ(text.find("hidden"), std::string::npos) << text;
}

TEST_F(McpOverHttp, ListsAreAskedForAgainAfterAWhile) {
  limits_.list_seconds = 0;
  const size_t before = (call(), fake_.server().requests().size());
  call();
  size_t lists = 0;
  for (const Asked& asked : fake_.server().requests())
    lists += asked.body.find("tools/list") != std::string::npos;
  EXPECT_GT(fake_.server().requests().size(), before);
  EXPECT_EQ(lists, 4u) << "before each call, and within it";
}

TEST_F(McpOverHttp, ACancelledCallIsToldOf) {
  std::atomic<bool> called = false, told = false;
  fake_.instead = [&](const Asked&, const std::string& method, const Send&) {
    if (method == "notifications/cancelled") told = true;
    if (method != "tools/call") return false;
    called = true;
    for (int i = 0; i < 1000 && !told; i++) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return true;
  };
  const auto tools = servers().tools("web", nullptr);
  ASSERT_TRUE(tools.ok());
  EXPECT_TRUE(servers().call(tools->front(), Json::object(), [&] { return called.load(); }).is_error);
  for (int i = 0; i < 500 && !told; i++) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(told);
  told = true;
}

}  // namespace
}  // namespace anabranch::mcp
