// Clients that take much, beside one that takes little.
#include <set>

#include "base/clock.h"
#include "server/http/request_reader.h"
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

constexpr const char* kHi = R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":5})";

// A server that fetches images: those of the host "slow" come when nobody waits for them any more.
class SlowImages : public ServerTest {
 protected:
  void SetUp() override {
    engine_.mutable_info().images = true;
    ServerModels models = served_by(engine_);
    models.fetch_image = [this](const std::string& url, size_t, double seconds,
                                const std::function<bool()>& cancelled) -> Result<std::string> {
      {
        std::lock_guard lock(mutex_);
        asked_.push_back(url);
      }
      EXPECT_GT(seconds, 0);
      if (url.find("gone") != std::string::npos) return make_error(ErrorKind::io, "HTTP 404");
      if (url.find("//slow/") == std::string::npos) return std::string("AA");
      ++waiting_;
      while (!cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      --waiting_;
      return make_error(ErrorKind::busy, "nobody waits");
    };
    start(std::move(models), {});
  }
  void TearDown() override {
    clients_.clear();
    ServerTest::TearDown();
  }

  static std::string body(const std::vector<std::string>& urls) {
    Json parts = Json::array();
    for (const std::string& url : urls)
      parts.push_back({{"type", "image_url"}, {"image_url", {{"url", url}}}});
    return Json({{"messages", {{{"role", "user"}, {"content", parts}}}}, {"max_tokens", 5}}).dump();
  }
  void begin(const std::vector<std::string>& urls) {
    clients_.push_back(std::make_unique<TestClient>(port_));
    clients_.back()->send(http_request("POST", "/v1/chat/completions", body(urls)));
  }
  HttpAnswer images(const std::vector<std::string>& urls) { return post("/v1/chat/completions", body(urls)); }
  std::multiset<std::string> asked() {
    std::lock_guard lock(mutex_);
    return {asked_.begin(), asked_.end()};
  }
  bool wait_for(int waiting) {
    for (int i = 0; i < 2000 && waiting_ != waiting; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return waiting_ == waiting;
  }

  std::mutex mutex_;
  std::vector<std::string> asked_;
  std::atomic<int> waiting_ = 0;
  std::vector<std::unique_ptr<TestClient>> clients_;
};

TEST_F(SlowImages, KeepNobodyElseWaiting) {
  for (int i = 0; i < 12; ++i) begin({fmt::format("http://slow/{}", i)});
  ASSERT_TRUE(wait_for(4)) << "one host takes no more threads";
  const double start = now_seconds();
  EXPECT_EQ(post("/v1/chat/completions", kHi).status, 200);
  // The fake model has no tower, which the server notices when it has the image.
  EXPECT_EQ(images({"data:image/png;base64,QUE="}).error_code(), "images_unsupported");
  EXPECT_EQ(images({"http://quick/a"}).error_code(), "images_unsupported");
  EXPECT_LT(now_seconds() - start, kWaitSeconds);
  EXPECT_EQ(waiting_, 4);
}

TEST_F(SlowImages, EndWithTheirClient) {
  for (int i = 0; i < 6; ++i) begin({fmt::format("http://slow/{}", i)});
  ASSERT_TRUE(wait_for(4));
  clients_.clear();
  EXPECT_TRUE(wait_for(0));
  EXPECT_EQ(images({"http://quick/a"}).error_code(), "images_unsupported");
}

TEST_F(SlowImages, EndWithTheServer) {
  begin({"http://slow/a"});
  ASSERT_TRUE(wait_for(1));
  const double start = now_seconds();
  server_.reset();
  EXPECT_LT(now_seconds() - start, kWaitSeconds);
}

TEST_F(SlowImages, EachAddressIsFetchedOnce) {
  EXPECT_EQ(images({"http://quick/a", "http://other/b", "http://quick/a"}).error_code(),
            "images_unsupported");
  EXPECT_EQ(asked(), (std::multiset<std::string>{"http://quick/a", "http://other/b"}));
  const HttpAnswer gone = images({"http://quick/a", "http://quick/gone"});
  EXPECT_EQ(gone.status, 400);
  EXPECT_EQ(gone.error_code(), "image_not_fetched");
  EXPECT_EQ(gone.error_param(), "messages[0].content[1]");
}

class Hostile : public ServerTest {};

// Texts beyond what anybody can use are not read to their end.
TEST_F(Hostile, EveryRouteStopsReadingAtItsLimit) {
  engine_.mutable_info().pooling = Pooling::mean;
  const std::string text(3u << 20, 'x');
  const std::vector<std::pair<std::string, Json>> requests = {
      {"/tokenize", {{"content", text}}},
      {"/completion", {{"prompt", text}}},
      {"/completion", {{"prompt", {text, "a"}}}},
      {"/completion", {{"prompt", {1, text, 2, text}}}},
      {"/completion", {{"prompt", {{"prompt_string", text}}}}},
      {"/v1/completions", {{"prompt", text}}},
      {"/v1/messages/count_tokens", {{"messages", {{{"role", "user"}, {"content", text}}}}}},
      {"/apply-template", {{"messages", {{{"role", "user"}, {"content", text}}}}}},
      {"/v1/embeddings", {{"input", text}}},
      {"/api/embed", {{"input", text}}},
      {"/v1/rerank", {{"query", text}, {"documents", {"a"}}}}};
  for (const auto& [path, body] : requests) {
    const HttpAnswer answer = post(path, body.dump());
    EXPECT_EQ(answer.status, 400) << path;
    EXPECT_NE(answer.body.find("more than"), std::string::npos) << path << ": " << answer.body.substr(0, 300);
  }
  // As many as are counted.
  const HttpAnswer fits = post("/tokenize", Json({{"content", std::string(256u << 10, 'x')}}).dump());
  EXPECT_EQ(fits.json()["tokens"].size(), 256u << 10);
}

TEST(BodyTotals, LeaveRoomForOthers) {
  constexpr size_t kLimit = 6400;
  BodyTotals totals;
  EXPECT_TRUE(totals.add("a", 3200, 3200, kLimit));
  EXPECT_FALSE(totals.add("a", 1, 1, kLimit)) << "a client has half";
  totals.remove("a", 1);
  totals.remove("a", 1000);
  EXPECT_FALSE(totals.add("a", 1001, 1001, kLimit)) << "its other bodies are still there";
  totals.remove("a", 1001);
  EXPECT_TRUE(totals.add("a", 1000, 1000, kLimit));
  EXPECT_TRUE(totals.add("b", 1600, 1600, kLimit)) << "another's large bodies have room";
  EXPECT_FALSE(totals.add("c", 101, 101, kLimit)) << "up to three quarters";
  totals.remove("c", 101);
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(totals.add("c", 100, 100, kLimit)) << i;
  EXPECT_FALSE(totals.add("c", 1, 1, kLimit)) << "the limit";
  totals.remove("c", 1601);
  totals.remove("a", 3200);
  totals.remove("b", 1600);
  EXPECT_TRUE(totals.add("c", 3200, 3200, kLimit)) << "what left takes nothing";
}

}  // namespace
}  // namespace anabranch::server
