// What those who run a server rely on: keys, metrics, the API's description, limits.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <set>

#include "server/api/routes.h"
#include "server/api/static_files.h"
#include "server/http/api_keys.h"
#include "server/server_fixture.h"
#include "slow.h"
#include "temp_dir.h"

namespace anabranch::server {
namespace {

class Operation : public ServerTest {
 protected:
  static constexpr const char* kHi = R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":5})";

  void start_with_keys() {
    ServerOptions options;
    options.api_keys = {{"first-key"}, {"second"}};
    start(std::move(options));
  }
  HttpAnswer chat(const std::string& headers = "") {
    return ask(port_, "POST", "/v1/chat/completions", kHi, headers);
  }
  // The value of a line of /metrics; -1: there is none.
  double metric(const std::string& series) {
    const std::string text = "\n" + ask(port_, "GET", "/metrics").body;
    const size_t at = text.find("\n" + series + " ");
    return at == text.npos ? -1 : std::strtod(text.c_str() + at + series.size() + 2, nullptr);
  }
};

TEST_F(Operation, WithoutKeysNobodyIsAsked) {
  EXPECT_EQ(chat("Authorization: Bearer anything\r\n").status, 200);
}

TEST_F(Operation, OnlyAKnownKeyIsTaken) {
  start_with_keys();
  for (const char* good : {"Authorization: Bearer first-key\r\n", "authorization: bearer   second\r\n",
                           "x-api-key: second\r\n", "Authorization: Bearer no\r\nX-Api-Key: second\r\n"})
    EXPECT_EQ(chat(good).status, 200) << good;
  for (const char* bad : {"", "Authorization: Bearer first-ke\r\n", "Authorization: Bearer first-key2\r\n",
                          "Authorization: first-key\r\n", "Authorization: Basic first-key\r\n",
                          "Authorization: Bearer \r\n", "x-api-key: \r\n", "x-api-key: first-key,second\r\n",
                          "Authorization: Bearer\r\n", "Cookie: first-key\r\n"}) {
    const HttpAnswer answer = chat(bad);
    EXPECT_EQ(answer.status, 401) << bad;
    EXPECT_EQ(answer.error_code(), "invalid_api_key");
    EXPECT_EQ(answer.headers.at("www-authenticate"), "Bearer");
  }
}

TEST_F(Operation, AKeyGuardsEveryRouteThatTellsSomething) {
  start_with_keys();
  for (const char* path : {"/", "/v1/models", "/v1/models/fake-1b", "/metrics", "/nothing"})
    EXPECT_EQ(ask(port_, "GET", path).status, 401) << path;
  for (const char* path : {"/docs", "/openapi.json", "/status", "/web/main.js"})
    EXPECT_EQ(ask(port_, "GET", path).status, 200) << path;
  EXPECT_EQ(ask(port_, "GET", "/", "", "Accept: text/html\r\n").status, 200);  // the page asks for the key
  EXPECT_EQ(ask(port_, "GET", "/health").body, R"({"status":"ok"})");
  EXPECT_TRUE(ask(port_, "GET", "/health", "", "x-api-key: second\r\n").json().contains("engine"));
  const HttpAnswer message = post("/v1/messages", kHi);
  EXPECT_EQ(message.status, 401);
  EXPECT_EQ(message.json()["error"]["type"], "authentication_error");
}

// Else whoever has no key could still have 32 MB read for each of their connections.
TEST_F(Operation, WithoutAKeyNoBodyIsRead) {
  start_with_keys();
  const auto head = [](const char* more) {
    return fmt::format(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n{}\r\n", more);
  };
  TestClient stranger(port_);
  stranger.send(head(""));
  const HttpAnswer refused = stranger.read_answer();
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.headers.at("connection"), "close");
  TestClient polite(port_);
  polite.send(head("Expect: 100-continue\r\n"));
  EXPECT_EQ(polite.read_answer().status, 401);
  TestClient known(port_);
  known.send(head("Expect: 100-continue\r\nx-api-key: second\r\n"));
  EXPECT_EQ(known.read_answer().status, 100);
}

TEST_F(Operation, KeysCanBeReplaced) {
  start_with_keys();
  EXPECT_FALSE(server_->set_api_keys({ApiKey{"two words"}}).ok());
  EXPECT_EQ(chat("x-api-key: second\r\n").status, 200);
  ASSERT_TRUE(server_->set_api_keys({ApiKey{"third"}}).ok());
  EXPECT_EQ(chat("x-api-key: second\r\n").status, 401);
  EXPECT_EQ(chat("x-api-key: third\r\n").status, 200);
}

// --- browsers ---

TEST_F(Operation, PagesOfOtherPortsGetNothing) {
  const std::string page = "Origin: http://localhost:3000\r\n";
  EXPECT_EQ(chat(page).error_code(), "origin_not_allowed");
  EXPECT_EQ(chat("Sec-Fetch-Site: same-site\r\n").error_code(), "origin_not_allowed");
  const HttpAnswer asked =
      ask(port_, "OPTIONS", "/v1/models", "", page + "Access-Control-Request-Method: POST\r\n");
  EXPECT_EQ(asked.status, 403);
  EXPECT_EQ(asked.headers.count("access-control-allow-origin"), 0u);
}

// Browsers keep no answer, take it for nothing else than it is, and give it to no other site's page.
TEST_F(Operation, EveryAnswerSaysHowBrowsersMustTreatIt) {
  const std::string stream = R"({"messages":[{"role":"user","content":"hi"}],"stream":true})";
  for (const HttpAnswer& answer :
       {chat(), post("/v1/chat/completions", stream), post("/v1/chat/completions", "{"),
        ask(port_, "GET", "/v1/models"), ask(port_, "GET", "/health"), ask(port_, "GET", "/v1/nothing"),
        ask(port_, "DELETE", "/v1/sessions/none"), chat("Origin: http://localhost:3000\r\n")}) {
    EXPECT_EQ(answer.headers.at("x-content-type-options"), "nosniff") << answer.body;
    EXPECT_EQ(answer.headers.at("cross-origin-resource-policy"), "same-origin") << answer.body;
    EXPECT_EQ(answer.headers.at("cache-control"), "no-store") << answer.body;
  }
}

// What a form can send, a page could send without being asked first.
TEST_F(Operation, PagesMustSendJson) {
  const auto send = [&](const std::string& type, const std::string& headers) {
    return ask(port_, "POST", "/v1/chat/completions", "",
               fmt::format("{}{}Content-Length: 0\r\n", type.empty() ? "" : "Content-Type: " + type + "\r\n",
                           headers))
        .status;
  };
  const std::string own = fmt::format("Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n");
  for (const char* type :
       {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""})
    EXPECT_EQ(send(type, own), 415) << type;
  EXPECT_EQ(send("application/json; charset=utf-8", own), 400);
  EXPECT_EQ(send("application/x-www-form-urlencoded", ""), 400);  // curl -d
  EXPECT_EQ(send("", ""), 400);
  // An application names itself, and sends texts as a browser does.
  EXPECT_EQ(send("text/plain;charset=UTF-8", "Origin: app://notes.example\r\n"), 400);
  EXPECT_EQ(send("multipart/form-data; boundary=x", "Origin: app://notes.example\r\n"), 415);
  EXPECT_EQ(send("text/plain;charset=UTF-8", "Origin: file://\r\n"), 403);
  EXPECT_EQ(send("text/plain;charset=UTF-8", ""), 415);
}

TEST_F(Operation, AllowedOriginsGetCors) {
  ServerOptions options;
  options.cors_origins = {"http://localhost:3000"};
  options.api_keys = {{"key"}};
  start(options);
  const std::string page = "Origin: http://localhost:3000\r\nSec-Fetch-Site: same-site\r\n";
  const HttpAnswer asked = ask(port_, "OPTIONS", "/v1/chat/completions", "",
                               page +
                                   "Access-Control-Request-Method: POST\r\n"
                                   "Access-Control-Request-Headers: authorization,content-type\r\n");
  EXPECT_EQ(asked.status, 204);
  EXPECT_EQ(asked.headers.at("access-control-allow-origin"), "http://localhost:3000");
  EXPECT_EQ(asked.headers.at("access-control-allow-headers"), "authorization,content-type");
  EXPECT_NE(asked.headers.at("access-control-allow-methods").find("POST"), std::string::npos);
  EXPECT_EQ(asked.headers.count("content-length"), 0u);
  // Answers, streams and errors can be read.
  const std::string stream = R"({"messages":[{"role":"user","content":"hi"}],"stream":true})";
  for (const HttpAnswer& answer :
       {chat(page + "x-api-key: key\r\n"), chat(page), ask(port_, "GET", "/nothing", "", page),
        ask(port_, "POST", "/v1/chat/completions", stream, page + "x-api-key: key\r\n")}) {
    EXPECT_EQ(answer.headers.count("access-control-allow-origin"), 1u) << answer.status;
    EXPECT_EQ(answer.headers.at("vary"), "Origin");
  }
  const HttpAnswer other = chat("Origin: http://localhost:4000\r\nx-api-key: key\r\n");
  EXPECT_EQ(other.status, 403);
  EXPECT_EQ(other.headers.count("access-control-allow-origin"), 0u);
  options.cors_origins = {"*"};
  start(options);
  EXPECT_EQ(
      chat("Origin: https://any.example\r\nx-api-key: key\r\n").headers.at("access-control-allow-origin"),
      "*");
  options.cors_origins = {"localhost:3000"};
  EXPECT_FALSE(Server::start(served_by(engine_), options).ok());
}

TEST(ApiKeys, MustBeWhatAHeaderCanHold) {
  for (const char* bad : {"", "two words", "tab\t", "\xc3\xa9"})
    EXPECT_FALSE(ApiKeys::make({ApiKey{bad}}).ok()) << bad;
  FakeEngine engine;
  ServerOptions options;
  options.port = 0;
  options.api_keys = {{"good"}, {""}};
  EXPECT_FALSE(Server::start(served_by(engine), options).ok());
}

TEST(ApiKeys, ComeFromAFile) {
  const std::string path = anabranch::testing::temp_path("keys.txt");
  const auto read = [&](const std::string& text) {
    std::ofstream(path) << text;
    return read_key_file(path);
  };
  const auto two = *read("# mine\n\n  first \r\nsecond");
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].key, "first");
  EXPECT_EQ(two[1].key, "second");
  EXPECT_EQ(two[1].name, "");
  EXPECT_EQ(read("# none\n").error().kind, ErrorKind::invalid);
  EXPECT_EQ(read_key_file("/no/such/file").error().kind, ErrorKind::not_found);
  // Neither without an end, nor too much, nor what would have to be waited for.
  EXPECT_EQ(read_key_file("/dev/zero").error().kind, ErrorKind::invalid);
  EXPECT_EQ(read(std::string((1u << 20) + 1, 'k')).error().kind, ErrorKind::exhausted);
  const std::string fifo = anabranch::testing::temp_path("keys.fifo");
  ::unlink(fifo.c_str());
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(read_key_file(fifo).error().kind, ErrorKind::invalid);
}

TEST(Tls, FilesThatCannotBeUsedAreNamed) {
  FakeEngine engine;
  ServerOptions options;
  options.port = 0;
  options.tls = {"/no/such/certificate.pem", "/no/such/key.pem"};
  const auto server = Server::start(served_by(engine), options);
  ASSERT_FALSE(server.ok());
  EXPECT_NE(server.error().message.find("/no/such/certificate.pem"), std::string::npos);
}

TEST_F(Operation, MetricsCountWhatHappened) {
  engine_.script = [](const Request&) { return Script{{"a", "b", "c"}, std::chrono::milliseconds(20)}; };
  ASSERT_EQ(chat().status, 200);
  ASSERT_EQ(post("/v1/completions", R"({"prompt":"a","n":2})").status, 200);
  ASSERT_EQ(post("/v1/completions", "{").status, 400);
  ASSERT_EQ(ask(port_, "GET", "/no/such/route").status, 404);
  TestClient broken(port_);
  broken.send("nonsense\r\n\r\n");
  ASSERT_EQ(broken.read_answer().status, 400);
  EXPECT_EQ(metric(R"(anabranch_http_responses_total{route="/v1/chat/completions",status="200"})"), 1);
  EXPECT_EQ(metric(R"(anabranch_http_responses_total{route="/v1/completions",status="400"})"), 1);
  EXPECT_EQ(metric(R"(anabranch_http_responses_total{route="other",status="404"})"), 1);
  EXPECT_EQ(metric(R"(anabranch_http_responses_total{route="other",status="400"})"), 1);
  EXPECT_EQ(metric(R"(anabranch_answers_total{finish="stop",kind="chat"})"), 1);
  EXPECT_EQ(metric(R"(anabranch_answers_total{finish="stop",kind="completion"})"), 2);
  EXPECT_EQ(metric(R"(anabranch_time_to_first_token_seconds_count{kind="completion"})"), 2);
  EXPECT_EQ(metric("anabranch_queue_wait_seconds_count"), 3);
  EXPECT_EQ(metric("anabranch_time_per_output_token_seconds_count"), 3);
  EXPECT_EQ(metric(R"(anabranch_device_busy_seconds_total{model="fake-1b"})"), 0);
  EXPECT_EQ(metric(R"(anabranch_expert_rows_total{model="fake-1b",mixture="0"})"), 8);
  EXPECT_EQ(metric(R"(anabranch_busiest_expert_rows_total{model="fake-1b",mixture="0"})"), 5);
  EXPECT_EQ(metric(R"(anabranch_experts_unused{model="fake-1b",mixture="0"})"), 2);
  EXPECT_EQ(metric(R"(anabranch_expert_rows_total{model="fake-1b",mixture="1"})"), 4);
  // Three answers of three deliveries each, the last of which has the end of the turn, too.
  EXPECT_EQ(metric("anabranch_token_gap_seconds_count"), 6);
  // Each gap is 20 ms, but the first delivery of an answer may be taken late.
  EXPECT_GE(metric("anabranch_token_gap_seconds_sum"), 6 * 0.010);
  EXPECT_EQ(metric(R"(anabranch_requests_running{model="fake-1b"})"), 0);
  EXPECT_EQ(metric(R"(vllm:num_requests_running{model_name="fake-1b"})"), 0);
  EXPECT_EQ(metric(R"(vllm:num_requests_waiting{model_name="fake-1b"})"), 0);
  EXPECT_EQ(metric(R"(vllm:kv_cache_usage_perc{model_name="fake-1b"})"), 0);
  EXPECT_EQ(metric(R"(vllm:cache_config_info{model_name="fake-1b",block_size="256",num_gpu_blocks="0"})"), 1);
  EXPECT_GT(metric("process_resident_memory_bytes"), 1e6);
  EXPECT_EQ(metric(R"(anabranch_drafted_tokens_total{model="fake-1b",source="mtp"})"), 0);
  const HttpAnswer answer = ask(port_, "GET", "/metrics");
  EXPECT_EQ(answer.headers.at("content-type"), "text/plain; version=0.0.4; charset=utf-8");
}

TEST_F(Operation, SessionsOfRoutersAreRepeated) {
  const auto session = [&](const std::string& id) {
    const HttpAnswer answer = ask(port_, "GET", "/v1/models", "", "X-Session-ID: " + id + "\r\n");
    return answer.headers.count("x-session-id") ? answer.headers.at("x-session-id") : "none";
  };
  EXPECT_EQ(session("user-7:a"), "user-7:a");
  EXPECT_EQ(session("a b"), "none");
  EXPECT_EQ(session(std::string(129, 'a')), "none");
  EXPECT_EQ(ask(port_, "GET", "/v1/models").headers.count("x-session-id"), 0u);
  EXPECT_EQ(ask(port_, "GET", "/model_info").json()["model_path"], "fake-1b");
  EXPECT_EQ(ask(port_, "GET", "/server_info").json()["served_model_name"], "fake-1b");
}

TEST_F(Operation, HealthTellsOfMemory) {
  const Json memory = ask(port_, "GET", "/health").json()["memory"];
  EXPECT_GT(memory["machine"]["total_bytes"], memory["machine"]["available_bytes"]);
  EXPECT_GT(memory["process"]["resident_bytes"], 1'000'000);
  EXPECT_TRUE(memory["device"].is_null());
  engine_.on_card = true;
  EXPECT_EQ(ask(port_, "GET", "/health").json()["memory"]["device"],
            Json({{"name", "Fake card"}, {"total_bytes", 1000}, {"free_bytes", 300}}));
}

TEST_F(Operation, MetricsCountClientsThatLeave) {
  engine_.script = [](const Request&) {
    Script script{{"a"}, std::chrono::milliseconds(1)};
    script.repeat = true;
    return script;
  };
  {
    TestClient client(port_);
    client.send(http_request("POST", "/v1/completions", R"({"prompt":"a","n":2,"stream":true})"));
    EXPECT_NE(client.read_until("\"text\""), "");
  }
  ASSERT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.cancelled == 2; }));
  EXPECT_EQ(metric(R"(anabranch_answers_total{finish="cancelled",kind="completion"})"), 2);
}

// All {"$ref": ...} under a node.
void collect_references(const Json& node, std::set<std::string>& references) {
  if (node.is_object() && node.contains("$ref")) references.insert(node["$ref"].get<std::string>());
  for (const Json& child : node)
    if (child.is_structured()) collect_references(child, references);
}

TEST_F(Operation, TheDescriptionIsWholeAndServed) {
  const HttpAnswer answer = ask(port_, "GET", "/openapi.json");
  ASSERT_EQ(answer.status, 200);
  const Json api = answer.json();
  EXPECT_EQ(api["info"]["version"], ask(port_, "GET", "/health").json()["version"]);
  std::set<std::string> references;
  collect_references(api, references);
  for (const std::string& reference : references)
    EXPECT_TRUE(api.contains(Json::json_pointer(reference.substr(1)))) << reference;
  std::set<std::string> described, expected;
  for (const auto& [path, methods] : api["paths"].items())
    for (const auto& [method, what] : methods.items()) described.insert(method + " " + path);
  for (const Route& route : routes())
    if (route.described)
      expected.insert((route.method == "POST"     ? "post "
                       : route.method == "DELETE" ? "delete "
                                                  : "get ") +
                      std::string(route.path));
  EXPECT_EQ(described, expected);
  const std::string stored = post("/v1/responses", R"({"input":"hi"})").json()["id"];
  for (const auto& [path, methods] : api["paths"].items())
    for (const auto& [method, what] : methods.items()) {
      std::string target = path;
      const std::string session = post("/v1/sessions", "{}").json()["id"];
      const Json conversation =
          post("/v1/conversations", R"({"items":[{"role":"user","content":"hi"}]})").json();
      if (const size_t at = target.find("{id}"); at != target.npos)
        target.replace(at, 4,
                       target.starts_with("/v1/models")          ? "fake-1b"
                       : target.starts_with("/v1/sessions")      ? session
                       : target.starts_with("/v1/conversations") ? conversation["id"].get<std::string>()
                                                                 : stored);
      const bool refused = target.starts_with("/v1/states");  // this server shares none
      if (const size_t at = target.find("{item}"); at != target.npos)
        target.replace(
            at, 6,
            refused ? "x"
                    : ask(port_, "GET", target.substr(0, at - 1)).json()["first_id"].get<std::string>());
      const HttpAnswer got = method == "post"  ? post(target, path == "/lora-adapters" ? "{}" : "[]")
                             : method == "get" ? ask(port_, "GET", target)
                                               : ask(port_, "DELETE", target);
      const bool absent = refused || path.ends_with("/cancel");  // nothing runs
      const bool off = path == "/slots/{id}";                    // this server keeps none
      EXPECT_EQ(got.status, off ? 501 : absent ? 404 : method == "post" ? 400 : 200) << path;
      EXPECT_TRUE(what["responses"].contains(std::to_string(got.status))) << path;
    }
  const HttpAnswer page = ask(port_, "GET", "/docs");
  EXPECT_EQ(page.headers.at("content-type"), "text/html; charset=utf-8");
  EXPECT_NE(page.headers.at("content-security-policy").find("default-src 'none'"), std::string::npos);
  EXPECT_EQ(page.body.find("http"), std::string::npos) << "the page loads something from elsewhere";
}

TEST_F(Operation, AllBodiesTogetherAreLimited) {
  ServerOptions options;
  options.limits.all_body_bytes = 10000;
  start(std::move(options));
  const std::string half(4000, ' ');
  TestClient first(port_);
  first.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4100\r\n\r\n" + half);
  // Once the first one's bytes have been read, there is no room for the second's.
  HttpAnswer second;
  for (int i = 0; i < 100 * kWaitSeconds && second.status != 503; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    second = ask(port_, "POST", "/v1/completions", half);
  }
  EXPECT_EQ(second.status, 503);
  EXPECT_EQ(second.error_code(), "overloaded");
  EXPECT_EQ(second.headers.at("retry-after"), "5");
  first.close();
  for (int i = 0; i < 100 * kWaitSeconds && second.status != 400; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    second = ask(port_, "POST", "/v1/completions", half);
  }
  EXPECT_EQ(second.status, 400) << "the room of a client that left was not given back";
}

// A client that was refused in the midst of its body may keep its connection open for a while.
TEST_F(Operation, ARefusedBodyLeavesTheLimitAtOnce) {
  ServerOptions options;
  options.limits.all_body_bytes = 10000;
  start(std::move(options));
  const std::string half(4000, ' ');
  TestClient first(port_);
  first.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" +
             fmt::format("{:x}\r\n{}\r\n", half.size(), half));
  ASSERT_EQ(ask(port_, "GET", "/health").status, 200);  // came later, so the chunk has been read
  first.send("no size\r\n");
  ASSERT_EQ(first.read_answer().error_code(), "bad_request");
  EXPECT_EQ(ask(port_, "POST", "/v1/completions", half).error_code(), "invalid_json");
}

TEST_F(Operation, LargeBodiesDoNotKeepSmallOnesOut) {
  ServerOptions options;
  options.limits.all_body_bytes = 1u << 20;
  start(std::move(options));
  TestClient first(port_);
  first.send("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 524288\r\n\r\n" +
             std::string(524280, ' '));
  HttpAnswer large;
  for (int i = 0; i < 100 * kWaitSeconds && large.status != 503; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    large = ask(port_, "POST", "/v1/completions", std::string(3000, ' '));
  }
  EXPECT_EQ(large.status, 503);
  EXPECT_EQ(chat().status, 200);
}

TEST_F(Operation, WhatArrivesWhileItDrainsIsRefused) {
  for (const std::string path : {"/v1/chat/completions", "/v1/messages"}) {
    start({});
    TestClient late(port_);
    const std::string text = http_request("POST", path, kHi);
    late.send(text.substr(0, text.size() - 5));
    ASSERT_EQ(ask(port_, "GET", "/health").status, 200);  // came later, so the first has been read
    server_->stop();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    late.send(text.substr(text.size() - 5));
    const HttpAnswer answer = late.read_answer();
    EXPECT_EQ(answer.status, path == "/v1/messages" ? 529 : 503) << answer.body;
    EXPECT_EQ(answer.headers.at("retry-after"), "5");
    EXPECT_EQ(answer.headers.at("connection"), "close");
    server_->run();  // and it ends
  }
}

TEST_F(Operation, WithoutItsDeviceNothingIsTaken) {
  ServerOptions patient;
  patient.device_check_s = 1000;
  start(patient);
  engine_.script = [](const Request&) {
    return Script{.parts = {}, .finish = FinishReason::error, .error = "CUDA: work on the device failed"};
  };
  EXPECT_EQ(post("/v1/chat/completions", kHi).status, 500);
  engine_.lost = true;
  for (const char* path : {"/v1/chat/completions", "/v1/completions", "/v1/messages"}) {
    const HttpAnswer answer = post(path, kHi);
    EXPECT_EQ(answer.status, path == std::string_view("/v1/messages") ? 529 : 503) << answer.body;
    EXPECT_NE(answer.body.find("must be started again"), std::string::npos) << answer.body;
  }
  const HttpAnswer health = ask(port_, "GET", "/health");
  EXPECT_EQ(health.status, 503);
  EXPECT_EQ(health.json()["status"], "device_lost");
  EXPECT_EQ(ask(port_, "GET", "/metrics").status, 200);
  patient.api_keys = {{"key"}};
  start(patient);
  const HttpAnswer stranger = ask(port_, "GET", "/health");
  EXPECT_EQ(stranger.status, 503);
  EXPECT_EQ(stranger.body, R"({"status":"device_lost"})");
}

TEST_F(Operation, TheServerEndsWithItsDevice) {
  ServerOptions options;
  options.device_check_s = 0.01;
  start(options);
  engine_.script = [](const Request&) {
    return Script{.parts = {"a", "b"},
                  .delay = std::chrono::milliseconds(300),
                  .finish = FinishReason::error,
                  .error = "CUDA: work on the device failed"};
  };
  TestClient client(port_), idle(port_);
  client.send(http_request("POST", "/v1/completions", R"({"prompt":"a"})"));
  ASSERT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.running == 1; }));
  engine_.lost = true;
  const HttpAnswer answer = client.read_answer();
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.error_code(), "engine_error");
  EXPECT_EQ(server_->run(), ServerEnd::device_lost);
  // An engine whose requests do not even fail does not keep the server.
  engine_.lost = false;
  engine_.script = [](const Request&) {
    return Script{.parts = {"a"}, .delay = std::chrono::milliseconds(5), .repeat = true};
  };
  start(options);
  TestClient stuck(port_);
  stuck.send(http_request("POST", "/v1/completions", R"({"prompt":"a"})"));
  ASSERT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.running == 1; }));
  engine_.lost = true;
  EXPECT_EQ(stuck.read_answer().error_code(), "shutting_down");
  EXPECT_EQ(server_->run(), ServerEnd::device_lost);
  engine_.lost = false;
  start(options);
  server_->stop();
  EXPECT_EQ(server_->run(), ServerEnd::stopped);
}

}  // namespace
}  // namespace anabranch::server
