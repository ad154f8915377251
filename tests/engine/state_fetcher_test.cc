// Requests whose states might come from another worker, which is slow or not there.
#include "engine/state_fetcher.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

#include "base/clock.h"
#include "engine/crowd.h"

namespace anabranch::testing {
namespace {

// A worker that takes connections and never answers, or none at all.
class DeafPeer {
 public:
  explicit DeafPeer(bool listens) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    if (listens) {
      EXPECT_EQ(::listen(socket_, 8), 0);
    }
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    url_ = fmt::format("http://127.0.0.1:{}", ntohs(address.sin_port));
  }
  ~DeafPeer() { ::close(socket_); }
  const std::string& url() const { return url_; }
  void wait_for_connection() const {
    pollfd waits{socket_, POLLIN, 0};
    EXPECT_EQ(::poll(&waits, 1, 60'000), 1);
  }

 private:
  const int socket_;
  std::string url_;
};

constexpr double kPatience =
    60;  // seconds that a prompt waits for its peers: half of that for a first answer

std::unique_ptr<Engine> engine_beside(const DeafPeer& peer, const TinyModel& model,
                                      const std::string& directory = "") {
  EngineOptions options;
  options.model_path = model.path();
  options.device.threads = 1;
  options.cache.enabled = true;
  options.cache.ram_bytes = 1ull << 28;
  options.cache.directory = directory;
  options.peers = {.urls = {peer.url()}, .api_key = "", .timeout_s = kPatience};
  return engine_with(options, false);
}

Request fetched_request(int first, int max_tokens) {
  Request request = request_of(PeerStates::kLeastGain + 80, max_tokens, 0);
  request.prompt[0] = first;
  request.speculation = SpecMode{.automatic = false, .source = DraftSource::none};
  return request;
}

TEST(StateFetcher, AClientThatLeavesDuringTheFetchGetsNoAnswer) {
  const TinyModel model("llama_tied");
  const DeafPeer peer(true);
  const auto engine = engine_beside(peer, model);
  Collector collector;
  const auto id = engine->submit(fetched_request(1, 400), collector.sink(0));
  ASSERT_TRUE(id.ok());
  peer.wait_for_connection();
  const double left = now_seconds();
  engine->cancel(*id);
  const auto got = collector.wait(0);
  EXPECT_EQ(got.last.finish, FinishReason::cancelled);
  EXPECT_EQ(got.last.usage.completion_tokens, 0);
  EXPECT_LT(now_seconds() - left, kPatience / 3) << "the fetch went on for nobody";
  EXPECT_EQ(engine->stats().steps, 0u);
  expect_idle(*engine);
}

TEST(StateFetcher, AClientMayLeaveAfterTheFetch) {
  const TinyModel model("llama_tied");
  const DeafPeer peer(false);
  const auto engine = engine_beside(peer, model);
  Collector collector;
  std::promise<RequestId> id;
  const auto leave = [&, known = id.get_future().share()] { engine->cancel(known.get()); };
  const auto submitted = engine->submit(fetched_request(1, 400), when_delivered(3, leave, collector.sink(0)));
  ASSERT_TRUE(submitted.ok());
  id.set_value(*submitted);
  const auto got = collector.wait(0);
  EXPECT_EQ(got.last.finish, FinishReason::cancelled);
  EXPECT_LT(got.tokens.size(), 400u);
  expect_idle(*engine);
}

TEST(StateFetcher, ARequestThatMustNotBeCachedAsksNobody) {
  const TinyModel model("llama_tied");
  const DeafPeer peer(true);
  const auto engine = engine_beside(peer, model);
  Request request = fetched_request(1, 4);
  request.cache = false;
  const double came = now_seconds();
  EXPECT_EQ(run(*engine, request).size(), 4u);
  EXPECT_LT(now_seconds() - came, kPatience / 3) << "it waited for a peer";
  EXPECT_EQ(engine->stats().cache->peer_lookups, 0u);
}

// The prompt is known here but for its last tokens.
TEST(StateFetcher, NobodyIsAskedForWhatIsHere) {
  const TinyModel model("llama_tied");
  const TempDir dir;
  const DeafPeer away(false), deaf(true);
  run(*engine_beside(away, model, dir.file("states")), fetched_request(1, 4));
  const auto engine = engine_beside(deaf, model, dir.file("states"));
  Request longer = fetched_request(1, 4);
  for (int i = 0; i < PeerStates::kLeastGain - 1; i++) longer.prompt.push_back(7);
  const double came = now_seconds();
  EXPECT_GT(run_to_end(*engine, longer).last.usage.cached_tokens, PeerStates::kLeastGain);
  EXPECT_LT(now_seconds() - came, kPatience / 3) << "it waited for a peer";
  EXPECT_EQ(engine->stats().cache->peer_lookups, 0u);
}

TEST(StateFetcher, APeerThatIsNotThereChangesNoAnswer) {
  const TinyModel model("llama_tied");
  const DeafPeer peer(false);
  const auto engine = engine_beside(peer, model);
  Request alone = fetched_request(1, 20);
  alone.cache = false;  // does not ask
  const auto want = run(*engine, alone);
  for (int i = 0; i < 3; i++) EXPECT_EQ(run(*engine, fetched_request(1, 20)), want) << i;
  Collector collector;
  for (int i = 0; i < 6; i++)
    ASSERT_TRUE(engine->submit(fetched_request(1 + i % 2, 20), collector.sink(i)).ok());
  for (int i = 0; i < 6; i += 2) EXPECT_EQ(collector.wait(i).tokens, want) << i;
  for (int i = 1; i < 6; i += 2) EXPECT_EQ(collector.wait(i).tokens, collector.wait(1).tokens) << i;
  expect_idle(*engine);
}

// Those that fetch, that wait for another's fetch of the same prompt, and that wait for a thread.
TEST(StateFetcher, WhenTheEngineStopsEveryRequestEndsOnce) {
  const TinyModel model("llama_tied");
  const DeafPeer peer(true);
  auto engine = engine_beside(peer, model);
  Collector collector;
  for (int i = 0; i < 12; i++)
    ASSERT_TRUE(engine->submit(fetched_request(1 + i / 2, 400), collector.sink(i)).ok());
  peer.wait_for_connection();
  const double stopped = now_seconds();
  engine.reset();
  EXPECT_LT(now_seconds() - stopped, kPatience / 3);
  for (int i = 0; i < 12; i++) {
    const auto got = collector.wait(i);
    EXPECT_EQ(got.last.finish, FinishReason::cancelled) << i;
    EXPECT_EQ(got.terminal, 1) << i;
  }
}

}  // namespace
}  // namespace anabranch::testing
