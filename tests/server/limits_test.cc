// What a key, an address and a request may use, and the log of all requests.
#include <sys/stat.h>

#include <fstream>

#include "server/http/address_limits.h"
#include "server/http/api_keys.h"
#include "server/http/client_address.h"
#include "server/http/rate_limit.h"
#include "server/server_fixture.h"
#include "slow.h"
#include "temp_dir.h"

namespace anabranch::server {
namespace {

constexpr const char* kHi = R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":5})";

class Limits : public ServerTest {
 protected:
  HttpAnswer chat(const std::string& headers = "", const std::string& body = kHi) {
    return ask(port_, "POST", "/v1/chat/completions", body, headers);
  }
  // An answer that does not end by itself.
  void answer_for_ever() {
    engine_.script = [](const Request&) {
      Script script{{"a"}, std::chrono::milliseconds(2)};
      script.repeat = true;
      return script;
    };
  }
  // Lines of the access log, once there are so many.
  std::vector<Json> lines(const std::string& path, size_t count) {
    std::vector<Json> found;
    for (int i = 0; i < 100 * kWaitSeconds; ++i) {
      found.clear();
      std::ifstream file(path);
      for (std::string line; std::getline(file, line);) found.push_back(*parse_json(line));
      if (found.size() >= count) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return found;
  }
};

TEST(RateLimit, AClockThatGoesBackTakesNothing) {
  RateLimit limit(60);
  limit.take(1, 100);
  EXPECT_EQ(limit.wait_for(1, 30), 0);
}

TEST(RateLimit, RefillsSteadily) {
  RateLimit limit(60);
  EXPECT_EQ(limit.wait_for(60, 100), 0);
  limit.take(60, 100);
  EXPECT_DOUBLE_EQ(limit.wait_for(1, 100), 1);
  EXPECT_DOUBLE_EQ(limit.wait_for(10, 104), 6);
  limit.take(14, 104);  // may be more than there is
  EXPECT_DOUBLE_EQ(limit.wait_for(1, 104), 11);
  EXPECT_FALSE(limit.full(160));
  EXPECT_TRUE(limit.full(1000));
  EXPECT_EQ(limit.wait_for(1000, 1000), 0) << "what can never be there must not be waited for";
  limit.take(60, 1000);
  limit.change(RateLimit(60));
  EXPECT_EQ(limit.wait_for(1, 1000), 1) << "what was used stays used";
  limit.change(RateLimit(0));
  EXPECT_EQ(limit.wait_for(1, 1000), 0);
  limit.change(RateLimit(30));
  EXPECT_EQ(limit.wait_for(30, 1000), 0);
  RateLimit none;
  none.take(1e9, 0);
  EXPECT_EQ(none.wait_for(1e9, 0), 0);
}

TEST(ApiKeys, HaveNamesAndLimits) {
  const std::string path = anabranch::testing::temp_path("limited.keys");
  const auto read = [&](const std::string& text) {
    std::ofstream(path) << text;
    return read_key_file(path);
  };
  const auto keys = *read("plain\nalice k1\nbob  k2 concurrent=2 tokens_per_minute=600 priority=-3\n");
  ASSERT_EQ(keys.size(), 3u);
  EXPECT_EQ(keys[1].name, "alice");
  EXPECT_EQ(keys[1].key, "k1");
  EXPECT_EQ(keys[1].concurrent, 0);
  EXPECT_EQ(keys[2].concurrent, 2);
  EXPECT_EQ(keys[2].tokens_per_minute, 600);
  EXPECT_EQ(keys[2].priority, -3);
  for (const char* bad :
       {"bob k2 concurrent", "bob k2 concurrent=", "bob k2 concurrent=0", "bob k2 concurrent=2x",
        "bob k2 speed=2", "bob k2 concurrent=99999999999", "\xc3\xa9 k2", "k2 concurrent=4", "k2 # mine"}) {
    const auto result = read(std::string("plain\n") + bad);
    ASSERT_FALSE(result.ok()) << bad;
    EXPECT_NE(result.error().message.find("line 2"), std::string::npos);
    EXPECT_EQ(result.error().message.find("k2"), std::string::npos) << "a key in a message";
  }
  EXPECT_FALSE(ApiKeys::make({{"k1", "alice"}, {"k2", "alice"}}).ok());
}

// Whose prefixes the requests of a key find.
TEST(ApiKeys, HaveASpaceOfTheCacheWhenThereAreSeveral) {
  const auto space = [](const std::vector<ApiKey>& keys, const std::string& key,
                        std::optional<CacheScope> scope = {}) {
    HttpRequest request;
    request.headers = {{"x-api-key", key}};
    return KeyUse::begin(ApiKeys::make(keys, scope)->find(request)).cache_space();
  };
  const ApiKey ann{"k1", "ann"}, bob{"k2", "bob"},
      worker{.key = "k3", .name = "worker", .cache = CacheScope::all};
  EXPECT_EQ(space({ann}, "k1"), "");
  EXPECT_EQ(space({ann, bob}, "k1"), "ann");
  EXPECT_EQ(space({ann, bob}, "k2"), "bob");
  EXPECT_EQ(space({ann, worker}, "k1"), "ann");
  EXPECT_EQ(space({ann, worker}, "k3"), "");
  EXPECT_EQ(space({ann, bob}, "k1", CacheScope::all), "");
  EXPECT_EQ(space({ann}, "k1", CacheScope::key), "ann");
  EXPECT_EQ(space({ann, bob}, "wrong"), "");
  EXPECT_EQ(space({ann, {"k9", "bob"}}, "k9"), "bob") << "a new key of the same name";
  EXPECT_NE(space({{"k1"}, {"k2"}}, "k1"), space({{"k1"}, {"k2"}}, "k2"));
  EXPECT_FALSE(parse_cache_scope("none"));
}

TEST(ApiKeys, SayTheirScopeInTheFile) {
  const std::string path = anabranch::testing::temp_path("scopes.keys");
  const auto read = [&](const std::string& text) {
    std::ofstream(path) << text;
    return read_key_file(path);
  };
  const auto keys = *read("ann k1 cache=key\nbob k2 priority=1 cache=all\ncarol k3\n");
  EXPECT_EQ(keys[0].cache, CacheScope::key);
  EXPECT_EQ(keys[1].cache, CacheScope::all);
  EXPECT_EQ(keys[2].cache, std::nullopt);
  // A field is no key, and none counts twice.
  for (const char* bad :
       {"k1 roles=\n", "k1 cache=\n", "roles=chat\n", "roles= k1\n", "ann k1 cache=key cache=all\n",
        "ann k1 roles=chat roles=admin\n", "ann k1 priority=1 priority=1\n"})
    EXPECT_FALSE(read(bad).ok()) << bad;
  EXPECT_TRUE(read("ann a2V5cw==\nYWJj=\n").ok()) << "keys may end with =";
  for (const char* bad : {"cache=", "cache", "cache=off", "cache=2"})
    EXPECT_FALSE(read(std::string("ann k1 ") + bad).ok()) << bad;
}

// The engine gets a salt that no client can name.
TEST_F(Limits, RequestsOfAKeyHaveASaltOfTheirOwn) {
  ServerOptions options;
  options.api_keys = {
      {"one", "ann"}, {"two", "bob"}, {.key = "three", .name = "all", .cache = CacheScope::all}};
  start(options);
  std::mutex mutex;
  std::string salt;
  engine_.script = [&](const Request& request) {
    const std::lock_guard lock(mutex);
    salt = request.cache_salt;
    return Script{{"a"}, std::chrono::milliseconds(1)};
  };
  const auto salt_of = [&](const std::string& key, const char* path, const std::string& body) {
    EXPECT_EQ(ask(port_, "POST", path, body, "x-api-key: " + key + "\r\n").status, 200) << path << body;
    const std::lock_guard lock(mutex);
    return salt;
  };
  const std::string messages = R"("messages":[{"role":"user","content":"a"}])";
  const std::pair<const char*, std::string> requests[] = {
      {"/v1/completions", R"({"prompt":"a")"},
      {"/v1/chat/completions", "{" + messages},
      {"/v1/responses", R"({"input":"a")"},
      {"/v1/messages", R"({"max_tokens":3,)" + messages},
      {"/completion", R"({"prompt":"a")"},
      {"/v1/generate", R"({"prompt_token_ids":[97])"},
      {"/api/chat", R"({"stream":false,)" + messages},
      {"/api/generate", R"({"stream":false,"prompt":"a")"}};
  for (const auto& [path, body] : requests) {
    const std::string ann = salt_of("one", path, body + "}"), bob = salt_of("two", path, body + "}");
    EXPECT_NE(ann, bob) << path;
    EXPECT_NE(ann, "") << path;
    EXPECT_EQ(salt_of("three", path, body + "}"), "") << path;
    EXPECT_EQ(salt_of("one", path, body + "}"), ann) << path;
  }
  const auto with = [&](const char* key, const char* text) {
    return salt_of(key, "/v1/completions", std::string(R"({"prompt":"a","cache_salt":")") + text + "\"}");
  };
  EXPECT_EQ(with("three", "x"), "x");
  EXPECT_NE(with("one", "x"), with("two", "x"));
  EXPECT_NE(with("one", "x"), with("one", "y"));
  // Not even a client of all states can spell another's: bytes that are no UTF-8 are refused.
  EXPECT_EQ(ask(port_, "POST", "/v1/completions",
                "{\"prompt\":\"a\",\"cache_salt\":\"\xff"
                "ann\xff\"}",
                "x-api-key: three\r\n")
                .status,
            400);
}

// A worker that asks what is kept could ask for others' texts.
TEST_F(Limits, OnlyKeysOfAllStatesMayAskForStates) {
  ServerOptions options;
  options.share_states = true;
  options.api_keys = {{"one", "ann"}, {.key = "two", .name = "worker", .cache = CacheScope::all}};
  start(options);
  const auto asks = [&](const char* key, const char* method, const char* path) {
    return ask(port_, method, path, "{}", std::string("x-api-key: ") + key + "\r\n");
  };
  for (const auto& [method, path] :
       {std::pair("POST", "/v1/states/lookup"), std::pair("GET", "/v1/states/a/b")}) {
    EXPECT_EQ(asks("one", method, path).error_code(), "states_of_other_keys");
    EXPECT_EQ(asks("two", method, path).status, 400) << "a question that says nothing";
  }
}

TEST_F(Limits, AKeyMayHaveSoManyRequestsAtATime) {
  ServerOptions options;
  options.api_keys = {{.key = "one", .name = "alice", .concurrent = 1}, {.key = "two", .name = "bob"}};
  start(options);
  answer_for_ever();
  TestClient first(port_);
  first.send(
      http_request("POST", "/v1/completions", R"({"prompt":"a","stream":true})", "x-api-key: one\r\n"));
  ASSERT_NE(first.read_until("\"text\""), "");
  const HttpAnswer second = chat("x-api-key: one\r\n");
  EXPECT_EQ(second.status, 429);
  EXPECT_EQ(second.error_code(), "rate_limit_exceeded");
  EXPECT_EQ(second.headers.at("retry-after"), "1");
  EXPECT_NE(second.body.find("alice"), std::string::npos);
  const HttpAnswer message =
      ask(port_, "POST", "/v1/messages",
          R"({"model":"m","max_tokens":3,"messages":[{"role":"user","content":"a"}]})", "x-api-key: one\r\n");
  EXPECT_EQ(message.status, 429);
  EXPECT_EQ(message.json()["error"]["type"], "rate_limit_error");
  EXPECT_EQ(ask(port_, "GET", "/v1/models", "", "x-api-key: one\r\n").status, 200);
  // A reload keeps what is used.
  ASSERT_TRUE(server_->set_api_keys(options.api_keys).ok());
  EXPECT_EQ(chat("x-api-key: one\r\n").status, 429);
  engine_.script = [](const Request&) { return Script{{"a"}, std::chrono::milliseconds(1)}; };
  EXPECT_EQ(chat("x-api-key: two\r\n").status, 200);
  first.close();
  ASSERT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.cancelled == 1; }));
  EXPECT_EQ(chat("x-api-key: one\r\n").status, 200);
}

TEST_F(Limits, AKeyMayUseSoManyTokensAMinute) {
  ServerOptions options;
  options.api_keys = {{.key = "one", .tokens_per_minute = 3, .priority = 7}};
  start(options);
  std::atomic<int> priority = 0;
  engine_.script = [&](const Request& request) {
    priority = request.priority;
    return Script{{"a", "b", "c"}, std::chrono::milliseconds(1)};
  };
  EXPECT_EQ(
      chat("x-api-key: one\r\n", R"({"messages":[{"role":"user","content":"hi"}],"priority":-9})").status,
      200);
  EXPECT_EQ(priority, 7) << "the key's, whatever the request says";
  const HttpAnswer second = chat("x-api-key: one\r\n");
  EXPECT_EQ(second.status, 429);
  EXPECT_GT(std::stoi(second.headers.at("retry-after")), 20);  // 3 a minute, and the prompt counts, too
  EXPECT_NE(second.body.find("'key-7692c3ad'"), std::string::npos) << "named by its digest: " << second.body;
}

TEST(AddressLimits, CountEachAddress) {
  AddressLimits limits(2), none(0);
  const auto ask = [](AddressLimits& of, const std::string& address, double now) {
    auto error = of.refusal(address, now);
    if (!error) of.count(address, now);
    return error ? error->retry_after_s : 0;
  };
  EXPECT_EQ(ask(limits, "10.0.0.1", 0), 0);
  EXPECT_EQ(ask(limits, "10.0.0.1", 0), 0);
  EXPECT_EQ(ask(limits, "10.0.0.1", 0), 30);
  EXPECT_EQ(limits.refusal("10.0.0.1", 0)->status, 429);
  EXPECT_EQ(ask(limits, "10.0.0.2", 0), 0);
  EXPECT_EQ(ask(limits, "10.0.0.1", 31), 0);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(ask(limits, "127.0.0.1", 0), 0);
  for (int i = 0; i < 9; ++i) EXPECT_EQ(ask(none, "10.0.0.1", 0), 0);
  // One network of IPv6 is one client.
  EXPECT_EQ(ask(limits, "2001:db8::1", 0), 0);
  EXPECT_EQ(ask(limits, "2001:db8::2", 0), 0);
  EXPECT_EQ(ask(limits, "2001:db8::3", 0), 30);
}

TEST(TrustedProxies, TellTheClientsAddress) {
  const auto proxies = *TrustedProxies::make({"127.0.0.1", "10.0.0.0/8", "fd00::/8"});
  const auto client = [&](const std::string& remote, std::vector<std::string> forwarded) {
    HttpRequest head;
    for (std::string& value : forwarded) head.headers.emplace_back("x-forwarded-for", std::move(value));
    return proxies.client_of(remote, head);
  };
  EXPECT_EQ(client("127.0.0.1", {"203.0.113.9"}), "203.0.113.9");
  EXPECT_EQ(client("127.0.0.1", {"1.2.3.4, 203.0.113.9 , 10.1.1.1"}), "203.0.113.9");
  EXPECT_EQ(client("fd00::7", {"1.2.3.4", "2001:db8::9,10.1.1.1"}), "2001:db8::9");
  EXPECT_EQ(client("::ffff:10.0.0.3", {"203.0.113.9"}), "203.0.113.9");
  EXPECT_EQ(client("11.0.0.1", {"203.0.113.9"}), "11.0.0.1") << "anybody may write the header";
  EXPECT_EQ(client("127.0.0.1", {}), "127.0.0.1");
  EXPECT_EQ(client("127.0.0.1", {"unknown"}), "127.0.0.1");
  EXPECT_EQ(client("127.0.0.1", {"203.0.113.9:5123"}), "203.0.113.9");
  EXPECT_EQ(client("127.0.0.1", {"[2001:DB8::9]:443, [fd00::1]"}), "2001:db8::9");
  EXPECT_EQ(client("127.0.0.1", {"fe80::1%" + std::string(1000, 'x')}), "fe80::1");
  EXPECT_EQ(client("127.0.0.1", {"::ffff:203.0.113.9"}), "203.0.113.9");
  EXPECT_EQ(client("127.0.0.1", {"["}), "127.0.0.1");
  EXPECT_EQ(client("127.0.0.1", {"10.0.0.1"}), "127.0.0.1");
  for (const char* bad : {"", "localhost", "10.0.0.0/33", "10.0.0.0/", "::/129", "10.0.0.0/-1", "1.2.3.4/8x"})
    EXPECT_FALSE(TrustedProxies::make({bad}).ok()) << bad;
  EXPECT_TRUE(TrustedProxies::make({"0.0.0.0/0"})->contains("9.9.9.9"));
  EXPECT_FALSE(TrustedProxies::make({"0.0.0.0/0"})->contains("2001:db8::1"));
}

TEST_F(Limits, TheAddressBehindAProxyIsLimited) {
  ServerOptions options;
  options.requests_per_minute = 2;
  options.limits.proxies = *TrustedProxies::make({"127.0.0.1"});
  start(options);
  const auto from = [&](const std::string& address) {
    return chat("X-Forwarded-For: " + address + "\r\n").status;
  };
  EXPECT_EQ(from("203.0.113.1"), 200);
  EXPECT_EQ(from("203.0.113.1"), 200);
  EXPECT_EQ(from("203.0.113.1"), 429);
  EXPECT_EQ(from("203.0.113.2"), 200);
  EXPECT_EQ(ask(port_, "GET", "/health", "", "X-Forwarded-For: 203.0.113.1\r\n").status, 200);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(chat().status, 200) << "this machine has no limit";
}

TEST_F(Limits, RequestsEndWhenTheirTimeIsOver) {
  answer_for_ever();
  const std::string ask_for =
      R"("messages":[{"role":"user","content":"hi"}],"max_tokens":100000,"timeout":0.5})";
  const HttpAnswer whole = chat("", "{" + ask_for);
  EXPECT_EQ(whole.status, 504);
  EXPECT_EQ(whole.error_code(), "timeout");
  EXPECT_NE(whole.body.find("0.5 seconds"), std::string::npos);
  const HttpAnswer stream = chat("", R"({"stream":true,)" + ask_for);
  EXPECT_EQ(stream.status, 200);
  EXPECT_NE(stream.body.find("\"code\":\"timeout\""), std::string::npos);
  const HttpAnswer message = ask(port_, "POST", "/v1/messages", R"({"model":"m",)" + ask_for);
  EXPECT_EQ(message.status, 504);
  EXPECT_EQ(message.json()["error"]["type"], "timeout_error");
  EXPECT_EQ(post("/api/chat", R"({"model":"m","stream":false,)" + ask_for).status, 504);
  EXPECT_EQ(post("/completion", R"({"prompt":"a","timeout":0.5})").status, 504);
  ASSERT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.cancelled == 5; }));
  for (const char* bad : {"0", "-1", "\"1\"", "100000"})
    EXPECT_EQ(chat("", fmt::format(R"({{"messages":[{{"role":"user","content":"hi"}}],"timeout":{}}})", bad))
                  .status,
              400)
        << bad;
  ServerOptions options;
  options.request_timeout_s = 2;
  start(options);
  EXPECT_EQ(chat("", R"({"timeout":60,"messages":[{"role":"user","content":"hi"}]})").status, 504)
      << "a request may ask for less, not for more";
  engine_.script = [](const Request&) { return Script{{"a"}, std::chrono::milliseconds(1)}; };
  EXPECT_EQ(chat().status, 200);
}

TEST_F(Limits, BodiesMayBeLargerOrSmaller) {
  ServerOptions options;
  options.limits.body_bytes = 40u << 20;
  start(options);
  const std::string large = R"({"messages":[{"role":"user","content":"hi"}],"metadata":{"a":")" +
                            std::string(33u << 20, 'x') + R"("}})";
  EXPECT_EQ(chat("", large).status, 200);
  options.limits.body_bytes = 2000;
  start(options);
  EXPECT_EQ(chat("", large.substr(0, 3000)).status, 413);
}

TEST_F(Limits, TheAccessLogHasALineForEachRequest) {
  const std::string path = anabranch::testing::temp_path("access.log");
  std::remove(path.c_str());
  ServerOptions options;
  options.access_log = path;
  options.api_keys = {{.key = "one", .name = "alice"}};
  options.limits.proxies = *TrustedProxies::make({"127.0.0.1"});
  start(options);
  engine_.script = [](const Request&) { return Script{{"a", "b", "c"}, std::chrono::milliseconds(1)}; };
  ASSERT_EQ(chat("x-api-key: one\r\nx-request-id: mine\r\nX-Forwarded-For: 203.0.113.1\r\n").status, 200);
  auto all = lines(path, 1);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0]["request_id"], "mine");
  EXPECT_EQ(all[0]["address"], "203.0.113.1");
  EXPECT_EQ(all[0]["key"], "alice");
  EXPECT_EQ(all[0]["method"], "POST");
  EXPECT_EQ(all[0]["path"], "/v1/chat/completions");
  EXPECT_EQ(all[0]["status"], 200);
  EXPECT_EQ(all[0]["cut_off"], false);
  EXPECT_EQ(all[0]["model"], "fake-1b");
  EXPECT_GT(all[0]["prompt_tokens"], 0);
  EXPECT_EQ(all[0]["completion_tokens"], 3);
  EXPECT_EQ(all[0]["time"].get<std::string>().back(), 'Z');
  EXPECT_EQ(ask(port_, "GET", "/v1/models?key=secret", "", "x-api-key: wrong\r\n").status, 401);
  all = lines(path, 2);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1]["status"], 401);
  EXPECT_EQ(all[1]["key"], Json());
  EXPECT_EQ(all[1]["path"], "/v1/models");
  EXPECT_FALSE(all[1].contains("model"));
  // A client that leaves: what it was given so far.
  answer_for_ever();
  {
    TestClient client(port_);
    client.send(
        http_request("POST", "/v1/completions", R"({"prompt":"a","stream":true})", "x-api-key: one\r\n"));
    ASSERT_NE(client.read_until("\"text\""), "");
  }
  all = lines(path, 3);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[2]["cut_off"], true);
  EXPECT_GT(all[2]["completion_tokens"], 0);
  {
    TestClient client(port_);  // and one that leaves before its body has come
    client.send(
        "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nx-api-key: one\r\nContent-Length: 50\r\n\r\n{");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  all = lines(path, 4);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[3]["status"], Json());
  EXPECT_EQ(all[3]["key"], "alice");
  // Moved away and opened again.
  std::rename(path.c_str(), (path + ".moved").c_str());
  ASSERT_TRUE(server_->reopen_access_log().ok());
  EXPECT_EQ(ask(port_, "GET", "/health").status, 200);
  EXPECT_EQ(lines(path, 1).size(), 1u);
}

TEST_F(Limits, TheAccessLogBeginsAnewWhenItIsFull) {
  const std::string path = anabranch::testing::temp_path("small.log"),
                    old = anabranch::testing::temp_path("small.1.log");
  for (const std::string& file : {path, old}) std::remove(file.c_str());
  ServerOptions options;
  options.access_log = path;
  options.access_log_bytes = 1000;
  start(options);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(ask(port_, "GET", "/health").status, 200);
  const auto size = [](const std::string& file) {
    return static_cast<long>(std::ifstream(file, std::ios::ate | std::ios::binary).tellg());
  };
  for (int i = 0; i < 100 * kWaitSeconds && size(old) < 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_GT(size(old), 0);
  EXPECT_LE(size(old), 1000);
  struct stat about {};
  ASSERT_EQ(::stat(path.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  options.access_log = "/dev/null/access.log";
  EXPECT_EQ(Server::start(served_by(engine_), options).error().kind, ErrorKind::io);
}

}  // namespace
}  // namespace anabranch::server
