// Streams: their shape, and clients that leave, stall, or come in numbers.
#include "server/server_fixture.h"
#include "slow.h"

namespace anabranch::server {
namespace {

using std::chrono::milliseconds;

std::string chat_body(const std::string& extra) {
  return R"({"messages":[{"role":"user","content":"hi"}])" + extra + "}";
}
const std::string kStream = R"(,"stream":true)";

class Stream : public ServerTest {
 protected:
  void SetUp() override {}
  void start(ServerOptions options = {}) { ServerTest::start(std::move(options)); }
  // An answer that never ends by itself.
  void endless(milliseconds delay = milliseconds(2), std::string part = "tick ") {
    engine_.script = [=](const Request&) {
      Script script{{part}, delay};
      script.repeat = true;
      return script;
    };
  }
  // Neither a heartbeat nor a stall tells the server of a client that has left.
  static ServerOptions patient() {
    ServerOptions options;
    options.limits.heartbeat_s = options.limits.stall_s = 10'000;
    return options;
  }
  std::string request(const std::string& extra) {
    return http_request("POST", "/v1/chat/completions", chat_body(extra));
  }
};

TEST_F(Stream, HasOpenAisShape) {
  start();
  const HttpAnswer answer =
      post("/v1/chat/completions", chat_body(kStream + R"(,"stream_options":{"include_usage":true})"));
  ASSERT_EQ(answer.status, 200);
  EXPECT_EQ(answer.headers.at("content-type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(answer.headers.at("cache-control"), "no-store");
  const auto list = events(answer.body);
  ASSERT_GE(list.size(), 5u);
  EXPECT_EQ(list[0]["choices"][0]["delta"].dump(), R"({"role":"assistant","content":""})");
  std::string text;
  for (size_t i = 0; i + 1 < list.size(); ++i) {
    EXPECT_EQ(list[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(list[i]["id"], list[0]["id"]);
    EXPECT_TRUE(list[i].contains("usage"));
    for (const Json& choice : list[i]["choices"])
      if (choice["delta"].contains("content")) text += choice["delta"]["content"].get<std::string>();
  }
  EXPECT_EQ(text, "Hello, world.");
  const Json& finish = list[list.size() - 3];
  EXPECT_EQ(finish["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(finish["choices"][0]["delta"].dump(), "{}");
  EXPECT_TRUE(finish["usage"].is_null());
  const Json& usage = list[list.size() - 2];
  EXPECT_TRUE(usage["choices"].empty());
  EXPECT_EQ(usage["usage"]["completion_tokens"], 13);
  EXPECT_EQ(list.back(), "[DONE]");
}

TEST_F(Stream, HasNoUsageUnlessAsked) {
  start();
  const auto list = events(post("/v1/chat/completions", chat_body(kStream)).body);
  for (const Json& event : list) EXPECT_FALSE(event.is_object() && event.contains("usage"));
  EXPECT_EQ(list[list.size() - 2]["choices"][0]["finish_reason"], "stop");
}

TEST_F(Stream, TextCompletions) {
  start();
  const auto list = events(post("/v1/completions", R"({"prompt":"a","stream":true,"max_tokens":5})").body);
  std::string text;
  for (size_t i = 0; i + 1 < list.size(); ++i) {
    EXPECT_EQ(list[i]["object"], "text_completion");
    text += list[i]["choices"][0]["text"].get<std::string>();
  }
  EXPECT_EQ(text, "Hello");
  EXPECT_EQ(list[list.size() - 2]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(list.back(), "[DONE]");
}

TEST_F(Stream, NeverSendsHalfACodePoint) {
  const std::string text = "gr\xc3\xbc\xc3\x9f \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80!";
  engine_.script = [&](const Request&) {
    Script script;
    for (char c : text) script.parts.emplace_back(1, c);
    return script;
  };
  start();
  std::string joined;
  for (const Json& event : events(post("/v1/chat/completions", chat_body(kStream)).body))
    if (event.is_object() && event["choices"][0]["delta"].contains("content")) {
      const auto piece = event["choices"][0]["delta"]["content"].get<std::string>();
      EXPECT_EQ(piece.find("\xef\xbf\xbd"), std::string::npos);
      joined += piece;
    }
  EXPECT_EQ(joined, text);
}

TEST_F(Stream, ACutCodePointBecomesAReplacementCharacter) {
  engine_.script = [&](const Request&) { return Script{{"a\xe4\xbd"}}; };
  start();
  const auto body = post("/v1/chat/completions", chat_body("")).json();
  EXPECT_EQ(body["choices"][0]["message"]["content"].get<std::string>().rfind("a\xef\xbf\xbd", 0), 0u);
}

TEST_F(Stream, StopStringsAcrossTokensAreHeldBack) {
  engine_.script = [](const Request&) { return Script{{"a", "b", "E", "N", "x", "E", "N", "D", "z"}}; };
  start();
  std::string text;
  for (const Json& event :
       events(post("/v1/chat/completions", chat_body(kStream + R"(,"stop":["END"])")).body))
    if (event.is_object() && event["choices"][0]["delta"].contains("content"))
      text += event["choices"][0]["delta"]["content"].get<std::string>();
  EXPECT_EQ(text, "abENx");
}

// As the official client puts them together: by index, id and name first, then the arguments' pieces.
TEST_F(Stream, ToolCallsComeInDeltas) {
  engine_.script = [](const Request&) {
    return Script{{"Look", "ing.\n", "<tool_call>", "{\"name\": \"f\", \"argu",
                   "ments\": {\"a\": 1.0}}</tool_call>\n", "<tool_call><function=g></function></tool_call>"}};
  };
  start();
  const auto list =
      events(post("/v1/chat/completions",
                  chat_body(kStream + R"(,"tools":[{"type":"function","function":{"name":"f"}}])"))
                 .body);
  std::string content;
  Json calls = Json::array();
  for (const Json& event : list) {
    if (!event.is_object()) continue;
    const Json& delta = event["choices"][0]["delta"];
    if (delta.contains("content")) content += delta["content"].get<std::string>();
    if (!delta.contains("tool_calls")) continue;
    ASSERT_EQ(delta["tool_calls"].size(), 1u);
    const Json& piece = delta["tool_calls"][0];
    if (piece.contains("id")) {
      EXPECT_EQ(piece["index"], calls.size());
      EXPECT_EQ(piece["type"], "function");
      calls.push_back(piece);
    } else {
      calls[piece["index"].get<size_t>()]["function"]["arguments"].get_ref<std::string&>() +=
          piece["function"]["arguments"].get<std::string>();
    }
  }
  EXPECT_EQ(content, "Looking.");
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0]["function"].dump(), R"({"name":"f","arguments":"{\"a\": 1.0}"})");
  EXPECT_EQ(calls[1]["function"].dump(), R"({"name":"g","arguments":"{}"})");
  EXPECT_EQ(list[list.size() - 2]["choices"][0]["finish_reason"], "tool_calls");
}

TEST_F(Stream, ReasoningComesInItsOwnDeltas) {
  engine_.script = [](const Request&) { return Script{{"let me ", "see", "</think>", "42"}}; };
  start();
  std::string content, reasoning;
  for (const Json& event :
       events(post("/v1/chat/completions", chat_body(kStream + R"(,"enable_thinking":true)")).body)) {
    if (!event.is_object()) continue;
    const Json& delta = event["choices"][0]["delta"];
    if (delta.contains("content")) content += delta["content"].get<std::string>();
    if (delta.contains("reasoning_content")) {
      EXPECT_FALSE(delta.contains("reasoning"));
      reasoning += delta["reasoning_content"].get<std::string>();
    }
  }
  EXPECT_EQ(content, "42");
  EXPECT_EQ(reasoning, "let me see");
}

TEST_F(Stream, FirstBytesComeBeforeTheFirstToken) {
  engine_.script = [](const Request&) { return Script{{"", "never"}, std::chrono::hours(1)}; };
  start();
  TestClient client(port_);
  client.send(request(kStream));
  EXPECT_NE(client.read_until("assistant"), "");
}

TEST_F(Stream, SilenceIsFilledWithComments) {
  engine_.script = [](const Request&) { return Script{{"", "late"}, milliseconds(500)}; };
  ServerOptions options;
  options.limits.heartbeat_s = 0.1;
  start(options);
  const HttpAnswer answer = post("/v1/chat/completions", chat_body(kStream));
  EXPECT_NE(answer.body.find(": still working\n\n"), std::string::npos);
  EXPECT_NE(answer.body.find("late"), std::string::npos);
}

TEST_F(Stream, AnEngineErrorIsAnEventAndCloses) {
  engine_.script = [](const Request&) {
    return Script{{"a", "b"}, milliseconds(5), FinishReason::error, "broken"};
  };
  start();
  TestClient client(port_);
  client.send(request(kStream));
  const HttpAnswer answer = client.read_answer();
  EXPECT_EQ(answer.status, 200);
  const auto list = events(answer.body);
  EXPECT_EQ(list.back()["error"]["code"], "engine_error");
  EXPECT_EQ(list.back()["error"]["type"], "server_error");
  EXPECT_TRUE(client.read_to_end());
}

// --- clients that leave ---

TEST_F(Stream, LeavingAStreamCancels) {
  endless();
  start(patient());
  for (int how = 0; how < 3; ++how) {
    TestClient client(port_);
    client.send(request(kStream));
    ASSERT_NE(client.read_until("tick"), "");
    if (how == 0) client.close();
    if (how == 1) client.reset();
    if (how == 2) client.shutdown_send();
    EXPECT_TRUE(engine_.wait_for([&](const EngineStats& s) { return s.cancelled == uint64_t(how + 1); }))
        << how;
  }
  EXPECT_EQ(engine_.stats().running, 0);
}

TEST_F(Stream, LeavingWithoutStreamingCancels) {
  endless();
  start(patient());
  for (int how = 0; how < 2; ++how) {
    TestClient client(port_);
    client.send(request(""));
    ASSERT_TRUE(engine_.wait_for([&](const EngineStats& s) { return s.running == 1; }));
    if (how == 0) client.close();
    if (how == 1) client.reset();
    EXPECT_TRUE(engine_.wait_for([&](const EngineStats& s) { return s.cancelled == uint64_t(how + 1); }))
        << how;
  }
}

TEST_F(Stream, LeavingCancelsEmbeddings) {
  engine_.mutable_info().pooling = Pooling::mean;
  endless();
  start(patient());
  TestClient client(port_);
  client.send(http_request("POST", "/v1/embeddings", R"({"input":"hi"})"));
  ASSERT_TRUE(engine_.wait_for([&](const EngineStats& s) { return s.running == 1; }));
  client.close();
  EXPECT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.cancelled == 1; }));
}

TEST_F(Stream, CancelsWithinAStepOfTheLeaving) {
  endless(milliseconds(1));
  start(patient());
  TestClient client(port_);
  client.send(request(kStream));
  ASSERT_NE(client.read_until("tick"), "");
  client.close();
  EXPECT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.cancelled == 1; }));
}

TEST_F(Stream, AClientThatDoesNotReadIsDropped) {
  endless(milliseconds(1), std::string(8000, 'x'));
  ServerOptions options;
  options.limits.output_queue_bytes = 200000;
  options.limits.stall_s = 3600;  // so that only the queue's size ends it
  start(options);
  TestClient client(port_, 4096);
  client.send(request(kStream));
  EXPECT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.cancelled == 1; }));
  EXPECT_TRUE(client.read_to_end());
}

TEST_F(Stream, AClientThatStopsReadingIsDroppedAfterATime) {
  endless(milliseconds(kSlowdown), std::string(8000, 'x'));
  ServerOptions options;
  options.limits.output_queue_bytes = 1u << 30;
  options.limits.stall_s = 0.3;
  start(options);
  TestClient client(port_, 4096);
  client.send(request(kStream));
  EXPECT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.cancelled == 1; }));
  EXPECT_TRUE(client.read_to_end());
}

// The same rule for streams and whole answers, for fast models and slow ones.
TEST_F(Stream, AClientThatTricklesIsDroppedAfterATime) {
  ServerOptions options;
  options.limits.stall_s = 2;  // a busy machine may hold up the client for a while
  for (const auto& [delay, part] : {std::pair{1, 4000}, {10, 500}, {0, 0}}) {
    if (delay)
      endless(milliseconds(delay * kSlowdown), std::string(part, 'x'));
    else
      engine_.script = [](const Request&) { return Script{{std::string(12u << 20, 'x')}}; };
    start(options);
    const uint64_t cancelled = engine_.stats().cancelled;
    TestClient client(port_, 4096);
    client.send(request(delay ? kStream : R"(,"stream":false)"));
    ASSERT_EQ(client.read_until("\r\n"), "HTTP/1.1 200 OK\r\n");
    // A byte now and then, for ten seconds at most.
    for (int i = 0; i < 500 && !client.is_reset(); ++i) {
      client.read_bytes(1);
      std::this_thread::sleep_for(milliseconds(20));
    }
    EXPECT_TRUE(client.is_reset());
    if (delay) {
      EXPECT_TRUE(engine_.wait_for([&](const EngineStats& s) { return s.cancelled > cancelled; }));
    }
    EXPECT_TRUE(client.read_to_end());  // what the client's system holds, then the end
    EXPECT_LT(client.buffer().size(), 12u << 20);
  }
}

TEST_F(Stream, AClientThatTakesEnoughIsKept) {
  endless(milliseconds(1), std::string(400, 'x'));
  ServerOptions options;
  options.limits.stall_s = 2;  // a busy machine may hold up the client for a while
  options.limits.stall_bytes = 1000;
  start(options);
  TestClient client(port_, 4096);
  client.send(request(kStream));
  for (int i = 0; i < 120; ++i) {  // slower than the stream: bytes wait all the time
    ASSERT_TRUE(client.read_bytes(4000));
    std::this_thread::sleep_for(milliseconds(25));
  }
  EXPECT_EQ(engine_.stats().cancelled, 0u);
}

TEST_F(Stream, OthersAreServedWhileOneStalls) {
  endless(milliseconds(kSlowdown), std::string(2000, 'x'));
  start(patient());
  TestClient stalled(port_, 4096);
  stalled.send(request(kStream));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(ask(port_, "GET", "/health").status, 200);
}

TEST_F(Stream, FiftyAtOnce) {
  engine_.script = [](const Request& r) {
    Script script;
    script.delay = milliseconds(5);
    for (int i = 0; i < 20; ++i) script.parts.push_back(fmt::format("{}.{} ", r.sampling.seed, i));
    return script;
  };
  start();
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 50; ++i) {
    clients.push_back(std::make_unique<TestClient>(port_));
    clients.back()->send(request(kStream + fmt::format(R"(,"seed":{})", i)));
  }
  for (int i = 0; i < 50; ++i) {
    std::string text, expected;
    for (int k = 0; k < 20; ++k) expected += fmt::format("{}.{} ", i, k);
    for (const Json& event : events(clients[i]->read_answer().body))
      if (event.is_object() && event["choices"][0]["delta"].contains("content"))
        text += event["choices"][0]["delta"]["content"].get<std::string>();
    EXPECT_EQ(text, expected);
  }
  EXPECT_EQ(engine_.stats().finished, 50u);
}

// --- stopping ---

TEST_F(Stream, StopLetsAnswersFinish) {
  engine_.script = [](const Request&) { return Script{{"a", "b", "c", "d", "e", "f"}, milliseconds(300)}; };
  start();
  TestClient streaming(port_), plain(port_), idle(port_);
  idle.send(http_request("GET", "/health"));
  EXPECT_EQ(idle.read_answer().status, 200);
  streaming.send(request(kStream));
  plain.send(request(""));
  ASSERT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.running == 2; }));
  std::thread waiter([&] { server_->run(); });
  server_->stop();
  EXPECT_TRUE(idle.read_to_end());
  EXPECT_EQ(events(streaming.read_answer().body).back(), "[DONE]");
  EXPECT_EQ(plain.read_answer().json()["choices"][0]["message"]["content"], "abcdef");
  EXPECT_TRUE(streaming.read_to_end());
  EXPECT_TRUE(plain.read_to_end());
  waiter.join();
  EXPECT_THROW(TestClient(port_, 0), std::runtime_error);
}

TEST_F(Stream, StopCutsOffWhatTakesTooLong) {
  endless();
  ServerOptions options;
  options.stop_grace_s = 0.2;
  start(options);
  TestClient streaming(port_), plain(port_);
  streaming.send(request(kStream));
  plain.send(request(""));
  ASSERT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.running == 2; }));
  const auto before = std::chrono::steady_clock::now();
  server_->stop();
  EXPECT_EQ(events(streaming.read_answer().body).back()["error"]["code"], "shutting_down");
  EXPECT_EQ(plain.read_answer().status, 503);
  streaming.close();
  plain.close();
  server_->run();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(20))
      << "less than the usual grace";
  EXPECT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.cancelled == 2; }));
}

TEST_F(Stream, ASecondStopDoesNotWait) {
  endless();
  ServerOptions options;
  options.stop_grace_s = 60;
  start(options);
  TestClient client(port_);
  client.send(request(kStream));
  ASSERT_NE(client.read_until("tick"), "");
  const auto before = std::chrono::steady_clock::now();
  server_->stop();
  server_->stop();
  EXPECT_TRUE(client.read_to_end());
  client.close();
  server_->run();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(30));
}

TEST_F(Stream, DestroyingTheServerCutsOff) {
  endless();
  start();
  TestClient client(port_);
  client.send(request(kStream));
  ASSERT_NE(client.read_until("tick"), "");
  server_.reset();
  EXPECT_TRUE(client.read_to_end());
  EXPECT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.cancelled == 1; }));
}

}  // namespace
}  // namespace anabranch::server
