// Many small things that together would be too much for the HTTP layer, and what must not be forgotten
// between two requests.
#include "server/http/address_limits.h"
#include "server/http/api_keys.h"
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

class HttpSums : public ServerTest {};

// A read stays pending while a request is answered, to see that the client leaves.
TEST_F(HttpSums, RequestsBehindARunningAnswerAreNotReadWithoutEnd) {
  engine_.script = [](const Request&) {
    return Script{.parts = {"a"}, .delay = std::chrono::milliseconds(5), .repeat = true};
  };
  TestClient client(port_);
  client.send(http_request("POST", "/v1/completions", R"({"prompt":"a","stream":true})"));
  ASSERT_NE(client.read_until("\"text\""), "");
  constexpr size_t kMost = 64u << 20, kSystem = 24u << 20;  // the system's own buffers take some
  EXPECT_LT(client.flood(http_request("GET", "/health"), kMost, 300), kSystem);
  EXPECT_EQ(engine_.stats().cancelled, 0u);
}

TEST_F(HttpSums, TheAnswerToHeadEndsWithItsHead) {
  TestClient client(port_);
  client.send(http_request("HEAD", "/v1/models") + http_request("GET", "/v1/models"));
  const HttpAnswer head = client.read_answer(true), whole = client.read_answer();
  EXPECT_EQ(head.status, 200);
  EXPECT_EQ(head.headers.at("content-length"), whole.headers.at("content-length"));
  EXPECT_EQ(whole.json()["object"], "list");
}

// Whatever it asked for: the end of the connection is the only end that such a stream has.
TEST_F(HttpSums, AStreamToAnHttp10ClientEndsWithItsConnection) {
  TestClient client(port_);
  const std::string body = R"({"prompt":"a","stream":true})";
  client.send(
      fmt::format("POST /v1/completions HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: {}\r\n\r\n{}",
                  body.size(), body));
  ASSERT_NE(client.read_until("[DONE]"), "");
  EXPECT_TRUE(client.read_to_end());
}

// Above 65,536 addresses all are forgotten: an attacker must neither fill the memory nor cost a look at all
// of them with each request.
TEST(AddressSums, TooManyAddressesAreForgotten) {
  AddressLimits limits(1);
  const auto address = [](int i) { return fmt::format("10.{}.{}.{}", i >> 16, i >> 8 & 255, i & 255); };
  limits.count(address(1), 0);
  EXPECT_TRUE(limits.refusal(address(1), 0));
  for (int i = 2; i < 60'000; ++i) limits.count(address(i), 0);
  EXPECT_TRUE(limits.refusal(address(1), 0));
  for (int i = 60'000; i < 70'000; ++i) limits.count(address(i), 0);
  EXPECT_FALSE(limits.refusal(address(1), 0));
  EXPECT_TRUE(limits.refusal(address(69'999), 0)) << "the latest are known";
}

TEST(ApiKeySums, AKeyThatIsReadAgainHasItsNewLimitsAndItsOldUse) {
  HttpRequest request;
  request.headers = {{"x-api-key", "k1"}};
  const auto old = *ApiKeys::make({{.key = "k1", .name = "ann", .tokens_per_minute = 60}});
  auto use = KeyUse::begin(old.find(request));
  use.add_tokens(60, 100);
  auto now = *ApiKeys::make({{.key = "k1",
                              .name = "anna",
                              .concurrent = 1,
                              .tokens_per_minute = 120,
                              .priority = 5,
                              .cache = CacheScope::key,
                              .roles = role_bit(Role::chat)},
                             {.key = "k2", .name = "bob"}});
  now.take_over(old);
  const auto key = now.find(request);
  ASSERT_TRUE(key);
  EXPECT_EQ(key->name, "anna");
  EXPECT_EQ(key->priority, 5);
  EXPECT_EQ(key->cache, CacheScope::key);
  EXPECT_FALSE(key->may(Role::admin));
  EXPECT_TRUE(key->may(Role::chat));
  EXPECT_EQ(key->running, 1);
  EXPECT_TRUE(KeyUse::refusal(key.get(), 100)) << "one runs";
  EXPECT_TRUE(KeyUse::tokens_refusal(key.get(), 100)) << "they are used";
  EXPECT_FALSE(KeyUse::tokens_refusal(key.get(), 110)) << "120 a minute come again";
  EXPECT_TRUE(KeyUse::refusal(key.get(), 110)) << "still, one runs";
  use = KeyUse();
  EXPECT_FALSE(KeyUse::refusal(key.get(), 110));
}

}  // namespace
}  // namespace anabranch::server
