// HTTP itself: limits, timeouts, keep-alive, pipelining, malformed and hostile input.
#include <set>

#include "server/server_fixture.h"
#include "slow.h"

namespace anabranch::server {
namespace {

using std::chrono::milliseconds;
const std::string kHi = R"({"messages":[{"role":"user","content":"hi"}]})";

class Http : public ServerTest {
 protected:
  bool healthy() { return ask(port_, "GET", "/health").status == 200; }
};

TEST_F(Http, KeepsConnectionsOpen) {
  TestClient client(port_);
  for (int i = 0; i < 3; ++i) {
    client.send(http_request("GET", "/health"));
    EXPECT_EQ(client.read_answer().status, 200);
    client.send(http_request("POST", "/v1/chat/completions", kHi));
    EXPECT_EQ(client.read_answer().status, 200);
    client.send(http_request("POST", "/v1/chat/completions", R"({"stream":true,)" + kHi.substr(1)));
    EXPECT_EQ(events(client.read_answer().body).back(), "[DONE]");
  }
}

TEST_F(Http, ClosesWhenAsked) {
  TestClient client(port_);
  client.send(http_request("GET", "/health", "", "Connection: close\r\n"));
  const HttpAnswer answer = client.read_answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("connection"), "close");
  EXPECT_TRUE(client.read_to_end());
}

TEST_F(Http, SpeaksHttp10) {
  TestClient client(port_);
  client.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_TRUE(client.read_to_end());
  TestClient stream(port_);
  const std::string body = R"({"stream":true,)" + kHi.substr(1);
  stream.send(
      fmt::format("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: {}\r\n\r\n{}", body.size(), body));
  const HttpAnswer answer = stream.read_answer();
  EXPECT_EQ(answer.headers.count("transfer-encoding"), 0u);
  EXPECT_EQ(events(answer.body).back(), "[DONE]");
}

TEST_F(Http, AnswersPipelinedRequestsInOrder) {
  TestClient client(port_);
  std::string all;
  for (int i = 0; i < 10; ++i)
    all += http_request(
        "POST", "/v1/chat/completions",
        fmt::format(R"({{"max_tokens":{},"stream":{},{})", i + 1, i % 2 ? "true" : "false", kHi.substr(1)));
  all += http_request("GET", "/v1/models");
  client.send(all);
  for (int i = 0; i < 10; ++i) {
    const HttpAnswer answer = client.read_answer();
    ASSERT_EQ(answer.status, 200);
    std::string text;
    if (i % 2) {
      for (const Json& event : events(answer.body))
        if (event.is_object() && event["choices"][0]["delta"].contains("content"))
          text += event["choices"][0]["delta"]["content"].get<std::string>();
    } else {
      text = answer.json()["choices"][0]["message"]["content"];
    }
    EXPECT_EQ(text, std::string("Hello, world.").substr(0, i + 1));
  }
  EXPECT_EQ(client.read_answer().json()["object"], "list");
}

TEST_F(Http, TakesRequestsByteByByte) {
  TestClient client(port_);
  for (char c : http_request("POST", "/v1/chat/completions", kHi)) ASSERT_TRUE(client.send({&c, 1}));
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(Http, TakesChunkedBodies) {
  TestClient client(port_);
  client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  client.send(
      fmt::format("5\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n", kHi.substr(0, 5), kHi.size() - 5, kHi.substr(5)));
  EXPECT_EQ(client.read_answer().status, 200);
}

// Some old clients send one after a body, which Content-Length does not count.
TEST_F(Http, IgnoresAnEmptyLineBetweenRequests) {
  ServerOptions options;
  options.limits.header_s = 0.1;
  start(options);
  for (const std::string line : {"\r\n", "\r"}) {
    TestClient client(port_);
    client.send(http_request("POST", "/v1/chat/completions", kHi) + line);
    EXPECT_EQ(client.read_answer().status, 200);
    std::this_thread::sleep_for(milliseconds(250));
    client.send(("\r\n" + http_request("GET", "/health")).substr(line.size()));
    EXPECT_EQ(client.read_answer().status, 200);
  }
}

TEST_F(Http, SaysContinueWhenExpected) {
  TestClient client(port_);
  client.send(
      fmt::format("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
                  "Content-Length: {}\r\n\r\n",
                  kHi.size()));
  EXPECT_EQ(client.read_answer().status, 100);
  client.send(kHi);
  EXPECT_EQ(client.read_answer().status, 200);
}

TEST_F(Http, AFinishedRequestIsAnsweredAfterTheClientsFin) {
  TestClient client(port_);
  client.send(http_request("GET", "/health") + http_request("GET", "/metrics"));
  client.shutdown_send();
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_EQ(client.read_answer().status, 200);
  EXPECT_TRUE(client.read_to_end());
}

TEST_F(Http, RefusesMalformedRequests) {
  for (const std::string bad :
       {"\r\n\r\n\r\n", "GET\r\n\r\n", "G@T / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nbad header\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 hello over TLS\r\n\r\n"}) {
    TestClient client(port_);
    client.send(bad);
    const HttpAnswer answer = client.read_answer();
    EXPECT_EQ(answer.status, 400) << bad;
    EXPECT_NE(answer.body.find("invalid_request_error"), std::string::npos) << bad;
    EXPECT_TRUE(client.read_to_end()) << bad;
  }
  EXPECT_TRUE(healthy());
}

TEST_F(Http, RefusesContentLengthBesideTransferEncoding) {
  TestClient client(port_);
  client.send(
      "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
      "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  EXPECT_EQ(client.read_answer().status, 400);
}

TEST_F(Http, RefusesCompressedBodies) {
  for (const char* coding : {"gzip", "GZIP", "gzip, identity", "zstd"}) {
    const HttpAnswer answer =
        ask(port_, "POST", "/v1/chat/completions", kHi, fmt::format("Content-Encoding: {}\r\n", coding));
    EXPECT_EQ(answer.status, 415) << coding;
    EXPECT_NE(answer.body.find("Content-Encoding"), std::string::npos);
    EXPECT_EQ(answer.headers.at("accept-encoding"), "identity");
  }
  EXPECT_EQ(ask(port_, "POST", "/v1/chat/completions", kHi, "Content-Encoding: identity\r\n").status, 200);
}

TEST_F(Http, TakesSurplusSlashes) {
  EXPECT_EQ(ask(port_, "GET", "//v1//models/").status, 200);
  EXPECT_EQ(post("/v1/chat/completions/", kHi).status, 200);
  EXPECT_EQ(post("//v1/messages", "{}").json()["type"], "error");  // still Anthropic's form
}

TEST_F(Http, EveryAnswerHasAnId) {
  const std::string stream = R"({"stream":true,)" + kHi.substr(1);
  std::set<std::string> seen;
  const auto check = [&](const HttpAnswer& answer, int status) {
    EXPECT_EQ(answer.status, status);
    ASSERT_EQ(answer.headers.count("x-request-id"), 1u) << status;
    EXPECT_EQ(answer.headers.at("x-request-id"), answer.headers.at("request-id"));
    EXPECT_TRUE(seen.insert(answer.headers.at("request-id")).second) << "twice the same id";
  };
  check(ask(port_, "GET", "/health"), 200);
  check(post("/v1/chat/completions", kHi), 200);
  check(post("/v1/chat/completions", stream), 200);
  check(post("/v1/messages", "{"), 400);
  check(ask(port_, "GET", "/nothing"), 404);
  check(ask(port_, "GET", "/health", "", "Host: again\r\n"), 400);
  TestClient client(port_);
  client.send("nonsense\r\n\r\n");
  check(client.read_answer(), 400);
  const auto id_for = [&](const std::string& own) {
    return ask(port_, "GET", "/health", "", "X-Request-Id: " + own + "\r\n").headers.at("x-request-id");
  };
  EXPECT_EQ(id_for("0b7e-4:trace.1"), "0b7e-4:trace.1");
  for (const std::string& bad : {std::string(200, 'a'), std::string("a b"), std::string("../x"),
                                 std::string("\"x\""), std::string("")})
    EXPECT_EQ(id_for(bad).substr(0, 4), "req_") << bad;
}

TEST_F(Http, LimitsHeaders) {
  TestClient client(port_);
  client.send("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(40000, 'x'));
  EXPECT_EQ(client.read_answer().status, 431);
  TestClient many(port_);
  std::string text = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 0; i < 10000; ++i) text += "a: b\r\n";
  many.send(text + "\r\n");
  EXPECT_EQ(many.read_answer().status, 431);
  TestClient target(port_);
  target.send("GET /" + std::string(100000, 'a') + " HTTP/1.1\r\n\r\n");
  EXPECT_EQ(target.read_answer().status, 431);
  EXPECT_TRUE(healthy());
}

TEST_F(Http, LimitsBodies) {
  ServerOptions options;
  options.limits.body_bytes = 1000;
  start(options);
  TestClient declared(port_);
  declared.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1001\r\n\r\n");
  HttpAnswer answer = declared.read_answer();
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.error_code(), "request_too_large");
  TestClient absurd(port_);
  absurd.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18446744073709551615\r\n\r\n");
  answer = absurd.read_answer();
  EXPECT_TRUE(answer.status == 413 || answer.status == 400) << answer.status;
  TestClient chunked(port_);
  chunked.send("POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  chunked.send(fmt::format("{:x}\r\n{}\r\n", 2000, std::string(2000, ' ')));
  EXPECT_EQ(chunked.read_answer().status, 413);
  // The answer arrives although the client is still sending.
  TestClient large(port_);
  large.send("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3000000\r\n\r\n" +
             std::string(3000000, 'x'));
  EXPECT_EQ(large.read_answer().status, 413);
  EXPECT_TRUE(healthy());
}

TEST_F(Http, LimitsConnections) {
  engine_.script = [](const Request&) {
    Script script{{"a"}, milliseconds(5)};
    script.repeat = true;
    return script;
  };
  ServerOptions options;
  options.limits.connections = 4;
  start(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 4; ++i) {
    clients.push_back(std::make_unique<TestClient>(port_));
    clients.back()->send(http_request("POST", "/v1/chat/completions", R"({"stream":true,)" + kHi.substr(1)));
    ASSERT_NE(clients.back()->read_until("assistant"), "");
  }
  TestClient extra(port_);
  extra.send(http_request("GET", "/health"));
  const HttpAnswer answer = extra.read_answer();
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.error_code(), "too_many_connections");
  EXPECT_EQ(answer.headers.count("x-request-id"), 1u);
  EXPECT_TRUE(extra.read_to_end());
  clients.clear();
  bool back = false;
  for (int i = 0; i < 50 * kWaitSeconds && !back; ++i) {
    back = healthy();
    std::this_thread::sleep_for(milliseconds(20));
  }
  EXPECT_TRUE(back);
}

TEST_F(Http, KeptConnectionsGiveWay) {
  ServerOptions options;
  options.limits.connections = 3;
  start(options);
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<TestClient>(port_));
    clients.back()->send(http_request("GET", "/health"));
    ASSERT_EQ(clients.back()->read_answer().status, 200);
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_TRUE(healthy());
  EXPECT_TRUE(clients[0]->read_to_end());  // the longest without a request
  clients[2]->send(http_request("GET", "/health"));
  EXPECT_EQ(clients[2]->read_answer().status, 200);
}

// However slowly, and however much of it, they send a request: nobody else waits for its end.
TEST_F(Http, UnfinishedRequestsGiveWay) {
  ServerOptions options;
  options.limits.connections = 3;
  options.limits.give_way_s = 1;
  start(options);
  TestClient silent(port_), head(port_), body(port_);
  head.send("GET / HT");
  body.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{");
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_EQ(ask(port_, "GET", "/health").status, 503);
  std::this_thread::sleep_for(milliseconds(1100));
  body.send(" ");
  for (int i = 0; i < 3; ++i) {
    TestClient kept(port_);
    kept.send(http_request("GET", "/health"));
    EXPECT_EQ(kept.read_answer().status, 200);
  }
  EXPECT_TRUE(silent.read_to_end());
}

TEST_F(Http, SlowRequestsTimeOut) {
  ServerOptions options;
  options.limits.header_s = 0.2;
  options.limits.body_s = 0.2;
  options.limits.idle_s = 1;
  start(options);
  TestClient header(port_);
  header.send("GET / HTTP/1.1\r\nHos");
  EXPECT_EQ(header.read_answer().status, 408);
  TestClient body(port_);  // connected only now: as an idle one it might end before
  body.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n{");
  EXPECT_EQ(body.read_answer().status, 408);
  TestClient idle(port_);
  EXPECT_TRUE(idle.read_to_end());
  EXPECT_EQ(idle.buffer(), "");
}

TEST_F(Http, ALongAnswerIsNotATimeout) {
  ServerOptions options;
  options.limits.header_s = options.limits.body_s = options.limits.idle_s = options.limits.stall_s = 0.1;
  start(options);
  engine_.script = [](const Request&) { return Script{{"a", "b", "c"}, milliseconds(200)}; };
  const HttpAnswer answer = post("/v1/chat/completions", kHi);
  EXPECT_EQ(answer.status, 200);
}

TEST_F(Http, SurvivesManyAbruptClients) {
  for (int i = 0; i < 200; ++i) {
    TestClient client(port_);
    const std::string text = http_request("POST", "/v1/chat/completions", kHi);
    client.send(text.substr(0, static_cast<size_t>(i) * text.size() / 200));
    if (i % 3 == 0) client.reset();
  }
  EXPECT_TRUE(healthy());
  EXPECT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.running == 0; }));
}

}  // namespace
}  // namespace anabranch::server
