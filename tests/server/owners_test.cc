// What a key must not do with what belongs to another, and what it must pay for.
#include <condition_variable>

#include "cache/shared_states.h"
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

class Owners : public ServerTest {
 protected:
  void SetUp() override {
    ServerOptions options;
    options.api_keys = {{.key = "ann", .name = "ann"}, {.key = "bob", .name = "bob"}};
    start(options);
  }
  HttpAnswer as(const std::string& key, const std::string& method, const std::string& path,
                const Json& body = {}) {
    return ask(port_, method, path, body.is_null() ? "" : body.dump(), "x-api-key: " + key + "\r\n");
  }
  Json made(const std::string& key, const char* path, const Json& body) {
    return as(key, "POST", path, body).json();
  }
};

TEST_F(Owners, NoRouteReachesAnothersConversations) {
  const Json message = Json::array({{{"role", "user"}, {"content", "mine"}}});
  const std::string session = made("ann", "/v1/sessions", {{"messages", message}})["id"];
  const std::string head = as("ann", "GET", "/v1/sessions/" + session).json()["head"];
  const std::string conversation = made("ann", "/v1/conversations", {{"items", message}})["id"];
  const std::string item =
      as("ann", "GET", "/v1/conversations/" + conversation + "/items").json()["first_id"];
  const std::string response = made("ann", "/v1/responses", {{"input", "hi"}})["id"];
  const std::string of_session = "/v1/sessions/" + session,
                    of_conversation = "/v1/conversations/" + conversation,
                    of_response = "/v1/responses/" + response;
  struct Wrong {
    const char* method;
    std::string path;
    Json body = {};
  };
  const std::vector<Wrong> all = {
      {"GET", of_session},
      {"GET", of_session + "?head=" + head},
      {"GET", of_session + "/export"},
      {"POST", of_session, {{"title", "x"}}},
      {"POST", of_session + "/branch", {{"message", head}}},
      {"POST", of_session + "/messages", {{"messages", message}}},
      {"GET", of_conversation},
      {"POST", of_conversation, {{"metadata", Json::object()}}},
      {"GET", of_conversation + "/items"},
      {"GET", of_conversation + "/items/" + item},
      {"POST", of_conversation + "/items", {{"items", message}}},
      {"GET", of_response},
      {"GET", of_response + "/input_items"},
      {"POST", "/v1/responses", {{"input", "x"}, {"previous_response_id", response}}},
      {"POST", "/v1/responses", {{"input", "x"}, {"conversation", session}}},
      {"POST", "/v1/responses", {{"input", "x"}, {"conversation", {{"id", conversation}}}}},
      {"POST", "/v1/responses/input_tokens", {{"input", "x"}, {"previous_response_id", response}}},
      {"DELETE", of_conversation + "/items/" + item},
      {"DELETE", of_response},
      {"DELETE", of_conversation},
      {"DELETE", of_session}};
  for (const Wrong& one : all)
    EXPECT_EQ(as("bob", one.method, one.path, one.body).status, 404) << one.method << one.path;
  // Nor do their messages have a place in one's own.
  const std::string own =
      "/v1/sessions/" + made("bob", "/v1/sessions", {{"messages", message}})["id"].get<std::string>();
  EXPECT_EQ(as("bob", "GET", own + "?head=" + head).status, 404);
  EXPECT_EQ(as("bob", "GET", own + "?before=" + head).status, 404);
  EXPECT_EQ(as("bob", "POST", own, {{"head", head}}).status, 404);
  EXPECT_EQ(as("bob", "POST", own + "/branch", {{"message", head}}).status, 404);
  EXPECT_EQ(as("bob", "POST", own + "/messages", {{"parent", head}, {"messages", message}}).status, 404);
  const Json place = {{"id", own.substr(own.rfind('/') + 1)}, {"parent", head}};
  EXPECT_EQ(as("bob", "POST", "/v1/responses", {{"input", "x"}, {"conversation", place}}).status, 404);
  // All is as it was.
  EXPECT_EQ(as("ann", "GET", of_session).json()["messages"].size(), 1u);
  EXPECT_EQ(as("ann", "GET", of_conversation + "/items").json()["data"].size(), 1u);
  EXPECT_EQ(as("ann", "GET", of_response).status, 200);
}

TEST_F(Owners, WhatIsImportedBelongsToItsKey) {
  const std::string line =
      Json({{"session", {{"title", "T"}}}}).dump() + "\n" + R"({"role":"user","content":"hi"})";
  EXPECT_EQ(made("ann", "/v1/sessions/import", {{"jsonl", line}})["data"].size(), 1u);
  EXPECT_EQ(as("ann", "GET", "/v1/sessions").json()["data"].size(), 1u);
  EXPECT_TRUE(as("bob", "GET", "/v1/sessions").json()["data"].empty());
}

TEST_F(Owners, EmbeddingsCountAndHaveTheirKeysPriority) {
  engine_.mutable_info().pooling = Pooling::mean;
  ServerOptions options;
  options.api_keys = {{.key = "ann", .name = "ann", .tokens_per_minute = 3, .priority = -7},
                      {.key = "bob", .name = "bob"}};
  start(options);
  EXPECT_EQ(as("ann", "POST", "/v1/embeddings", {{"input", "hello there"}}).status, 200);
  EXPECT_EQ(engine_.last_request().priority, -7);
  EXPECT_EQ(as("ann", "POST", "/v1/embeddings", {{"input", "hello there"}}).status, 429);
  EXPECT_EQ(as("bob", "POST", "/v1/embeddings", {{"input", "hello there"}}).status, 200);
}

TEST_F(Owners, HowLongAModelStaysIsForKeysThatMayUnloadIt) {
  ServerOptions options;
  options.api_keys = {{.key = "chat", .name = "chat", .roles = role_bit(Role::chat)},
                      {.key = "all", .name = "all"}};
  start(options);
  const auto kept = [&](const char* key) {
    const Json body = {{"model", "fake-1b"}, {"prompt", "hi"}, {"stream", false}, {"keep_alive", 300}};
    EXPECT_EQ(as(key, "POST", "/api/generate", body).status, 200);
    return as("all", "GET", "/v1/models").json()["data"][0]["unload_after_s"];
  };
  EXPECT_EQ(kept("chat"), Json());
  EXPECT_EQ(kept("all"), 300.0);
}

// Records that wait until they are let go.
class SlowStates final : public SharedStates {
 public:
  const Fingerprint& fingerprint() const override { return fingerprint_; }
  KeptPrefix kept(std::span<const PrefixKey>) const override { return {}; }
  Result<std::string> record(const DiskRecord&) const override {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [&] { return open_; });
    return std::string("bytes");
  }
  void forget(std::vector<DiskRecord>) override {}
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }

 private:
  const Fingerprint fingerprint_ = fingerprint_of("slow states");
  mutable std::mutex mutex_;
  mutable std::condition_variable opened_;
  bool open_ = false;
};

class SlowRecords : public ServerTest {};

TEST_F(SlowRecords, AreSentToSoManyWorkersAtATime) {
  SlowStates states;
  engine_.shared = &states;
  ServerOptions options;
  options.share_states = true;
  start(options);
  const DiskRecord record{.fingerprint = states.fingerprint(),
                          .kind = RecordKind::snapshot,
                          .key = {1, 2},
                          .parent = {3, 4},
                          .length = 5};
  const std::string request = http_request("GET", "/v1/states/" + full_name(record));
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 70; ++i) {
    clients.push_back(std::make_unique<TestClient>(port_));
    clients.back()->send(request);
  }
  const auto answered = [&] {
    int count = 0;
    for (auto& client : clients) count += !client->buffer().empty() || client->read_more(0);
    return count;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10 * kSlowdown);
  while (answered() < 6 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(answered(), 6) << "64 wait";
  states.open();
  int busy = 0, sent = 0;
  for (auto& client : clients) {
    const int status = client->read_answer().status;
    busy += status == 503;
    sent += status == 200;
  }
  EXPECT_EQ(busy, 6);
  EXPECT_EQ(sent, 64);
  // Those that were sent make room.
  int status = 0;
  const auto free_by = std::chrono::steady_clock::now() + std::chrono::seconds(10 * kSlowdown);
  while (status != 200 && std::chrono::steady_clock::now() < free_by)
    status = ask(port_, "GET", "/v1/states/" + full_name(record)).status;
  EXPECT_EQ(status, 200);
  clients.clear();
  server_.reset();
  engine_.shared = nullptr;
}

}  // namespace
}  // namespace anabranch::server
