#include "server/api/model_pool.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <future>
#include <set>

#include "base/clock.h"
#include "server/model_pool_fixture.h"
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

TEST_F(ModelPoolTest, LoadsWhatIsNamedOnceAndKeepsItWhileThereIsRoom) {
  start(100);
  EXPECT_EQ(use("b"), "b");
  EXPECT_EQ(use("b"), "b");
  EXPECT_EQ(fakes_.loads, 1);
  EXPECT_EQ(loaded(), "ab");
  for (const char* usual : {"", "default", "main", "default_model", "gpt-4", "/models/a"})
    EXPECT_EQ(use(usual), "a") << usual;
}

TEST_F(ModelPoolTest, StrictNamesAreThoseOfModels) {
  start(100, true);
  EXPECT_EQ(use("gpt-4"), "model_not_found");
  EXPECT_EQ(use(""), "a");
  EXPECT_EQ(use("main"), "a");
  EXPECT_EQ(use("b"), "b");
}

TEST_F(ModelPoolTest, TheOneThatWasIdleForLongestGivesWay) {
  start(100);
  EXPECT_EQ(use("b"), "b");
  EXPECT_EQ(use("a"), "a");
  EXPECT_EQ(use("c"), "c");
  EXPECT_EQ(loaded(), "ac");
  EXPECT_EQ(entry("b").evictions, 1u);
  EXPECT_EQ(fakes_.alive, 2);
}

TEST_F(ModelPoolTest, AnswersUnderWayEndBeforeTheirModelGivesWay) {
  start(50);
  const auto running = ask("a");
  ASSERT_TRUE(running->lease);
  const auto other = ask("b");
  settle();
  EXPECT_FALSE(other->done);
  const auto late = ask("a");  // waits until b was loaded and used
  EXPECT_FALSE(late->done);
  EXPECT_EQ(running->lease->name, "a");
  EXPECT_EQ(fakes_.alive, 1);
  running->lease.reset();
  ASSERT_TRUE(io_.until([&] { return other->done; }));
  ASSERT_TRUE(other->lease);
  settle();
  EXPECT_FALSE(late->done);
  other->lease.reset();
  ASSERT_TRUE(io_.until([&] { return late->done; }));
  EXPECT_EQ(late->lease->name, "a");
  EXPECT_EQ(loaded(), "a");
}

TEST_F(ModelPoolTest, AModelThatCannotBeReadTakesNoRoom) {
  start(50);
  fakes_.unreadable = {"b"};
  EXPECT_EQ(use("b"), "model_not_loaded");
  EXPECT_EQ(use("large"), "model_not_loaded");  // can never fit
  EXPECT_EQ(loaded(), "a");
  EXPECT_EQ(entry("a").evictions, 0u);
  EXPECT_EQ(entry("b").failed_loads, 1u);
}

TEST_F(ModelPoolTest, WhatGaveWayComesBackWhenLoadingFails) {
  start(50);
  fakes_.broken = {"b"};
  const auto failing = ask("b");
  ASSERT_TRUE(io_.until([&] { return failing->done; }));
  EXPECT_EQ(failing->error->status, 503);
  EXPECT_NE(failing->error->message.find("the disk is gone"), std::string::npos);
  ASSERT_TRUE(io_.until([&] { return loaded() == "a"; }));
  EXPECT_EQ(use("a"), "a");
  fakes_.broken.clear();
  EXPECT_EQ(use("b"), "b");  // may be tried again
}

TEST_F(ModelPoolTest, PinnedModelsGiveWayToNone) {
  start(50);
  bool done = false;
  pool_->load("a", true, {}, [&](auto) { done = true; });
  EXPECT_TRUE(done);
  EXPECT_EQ(use("b"), "model_not_loaded");
  EXPECT_EQ(loaded(), "a");
  pool_->load("a", false, {}, [](auto) {});
  EXPECT_EQ(use("b"), "b");
}

TEST_F(ModelPoolTest, IdleModelsAreUnloadedAndComeBack) {
  fakes_.keep["b"] = {false, 0.05};
  start(100);
  const auto running = ask("b");
  ASSERT_TRUE(io_.until([&] { return running->done; }));
  io_.until([] { return false; }, 0.12);
  EXPECT_EQ(loaded(), "ab");  // it runs
  running->lease.reset();
  ASSERT_TRUE(io_.until([&] { return loaded() == "a"; }));
  ASSERT_TRUE(io_.until([&] { return entry("b").idle_unloads == 1; }));
  EXPECT_EQ(use("b"), "b");
  EXPECT_EQ(entry("b").loads, 2u);
}

TEST_F(ModelPoolTest, AModelThatNobodyHasAskedIsIdleToo) {
  first_keep_ = {false, 0.05};
  start(100);
  ASSERT_TRUE(io_.until([&] { return loaded().empty(); }));
  ASSERT_TRUE(io_.until([&] { return entry("a").idle_unloads == 1; }));
  EXPECT_EQ(use(""), "a");
}

TEST_F(ModelPoolTest, WhatOneRequestAsksForIsNotForTheNext) {
  start(100);
  EXPECT_EQ(use("b"), "b");
  pool_->keep_once("b", 3600);
  EXPECT_EQ(entry("b").unload_after_s(), 3600);
  EXPECT_EQ(use("b"), "b");
  EXPECT_EQ(entry("b").unload_after_s(), 0);
  // The shorter time counts, although a timer for the longer one runs.
  fakes_.keep["c"] = {false, 3600};
  EXPECT_EQ(use("c"), "c");
  const auto running = ask("c");
  pool_->keep_once("c", 0);
  settle();
  EXPECT_EQ(entry("c").state, ModelState::loaded) << "its answer runs";
  running->lease.reset();
  ASSERT_TRUE(io_.until([&] { return entry("c").idle_unloads == 1; }));
  EXPECT_EQ(use("c"), "c");
  EXPECT_EQ(entry("c").unload_after_s(), 3600);
  pool_->keep_once("c", -1);
  EXPECT_EQ(entry("c").unload_after_s(), 0);
  pool_->load("c", true, 5, [](auto) {});
  pool_->keep_once("c", 0);
  io_.until([] { return false; }, 0.05);
  EXPECT_EQ(entry("c").state, ModelState::loaded) << "it is pinned";
}

TEST_F(ModelPoolTest, AnUnloadedModelStaysKnown) {
  start(100);
  EXPECT_EQ(use("b"), "b");
  EXPECT_EQ(use("c"), "c");  // in place of one of the others
  for (const char* name : {"a", "b", "c"}) {
    bool done = false;
    pool_->unload(name, [&](const auto&) { done = true; });
    ASSERT_TRUE(io_.until([&] { return done; }));
  }
  ASSERT_EQ(pool_->own_entries().size(), 1u);
  EXPECT_EQ(pool_->own_entries()[0]->name, "a") << "the others are known from their files";
  ASSERT_TRUE(pool_->main_entry());
  EXPECT_EQ(pool_->main_entry()->name, "a");
  EXPECT_EQ(pool_->main_entry()->facts->info.path, "/models/a");
  EXPECT_EQ(pool_->find("/models/b"), "b");
  EXPECT_EQ(pool_->find("/models/none"), "a");
  EXPECT_EQ(pool_->find_entry("none"), nullptr);
  EXPECT_EQ(use("/models/b"), "b");
}

TEST_F(ModelPoolTest, AModelThatAnswersForLongerThanItsIdleTimeStays) {
  fakes_.keep["b"] = {false, 0.05};
  start(100);
  const auto first = ask("b");
  ASSERT_TRUE(io_.until([&] { return first->done; }));
  const auto running = ask("b");
  ASSERT_TRUE(running->lease);
  first->lease.reset();  // one of two has ended
  const double begun = now_seconds();
  io_.until([&] { return now_seconds() > begun + 0.15; });
  EXPECT_EQ(entry("b").state, ModelState::loaded);
  const auto beside = ask("b");
  EXPECT_TRUE(beside->lease) << "it is answered at once";
  beside->lease.reset();
  settle();
  EXPECT_EQ(entry("b").state, ModelState::loaded);
  const double ended = now_seconds();
  running->lease.reset();
  ASSERT_TRUE(io_.until([&] { return entry("b").last_used >= ended; })) << "its idle time begins now";
  ASSERT_TRUE(io_.until([&] { return loaded() == "a"; }));
  EXPECT_EQ(entry("b").loads, 1u);
}

TEST_F(ModelPoolTest, ABusyModelDoesNotGiveWayWhileAnIdleOneIsThere) {
  start(100);
  const auto running = ask("a");
  ASSERT_TRUE(running->lease);
  EXPECT_EQ(use("b"), "b");  // used later
  EXPECT_EQ(use("c"), "c");
  EXPECT_EQ(loaded(), "ac");
}

TEST_F(ModelPoolTest, UnloadsWhenAsked) {
  start(100);
  std::vector<std::string> told;
  const auto unload = [&](const std::string& name) {
    pool_->unload(name, [&told](const auto& error) { told.push_back(error ? error->code : "done"); });
  };
  const auto running = ask("a");
  unload("a");
  unload("nothing");
  unload("b");
  settle();
  EXPECT_EQ(told, (std::vector<std::string>{"model_not_found", "done"}));
  running->lease.reset();
  ASSERT_TRUE(io_.until([&] { return told.size() == 3; }));
  EXPECT_EQ(told.back(), "done");
  EXPECT_EQ(fakes_.alive, 0);
  EXPECT_EQ(pool_->main_model(), nullptr);
  EXPECT_EQ(use(""), "a");  // the first model comes back for requests that name none
  const std::lock_guard held(fakes_.gate);
  const auto loading = ask("b");
  settle();
  unload("b");
  EXPECT_EQ(told.back(), "model_loading");
}

TEST_F(ModelPoolTest, ManyRequestsForTwoModelsInRoomForOneAreAllServed) {
  start(50);
  std::vector<std::shared_ptr<Taken>> all;
  for (int i = 0; i < 40; ++i) all.push_back(ask(i % 3 == 0 ? "b" : i % 3 == 1 ? "a" : "c"));
  int served = 0;
  ASSERT_TRUE(io_.until([&] {
    for (auto& taken : all)
      if (taken->lease) {
        taken->lease.reset();
        served++;
      }
    return served == 40;
  }));
  settle();
  EXPECT_EQ(fakes_.alive, 1);
}

TEST_F(ModelPoolTest, NobodyWaitsForEverWhenTheServerStops) {
  start(50);
  const auto running = ask("a");
  const auto waiting = ask("b");
  pool_->begin_stop();
  EXPECT_EQ(waiting->error->code, "shutting_down");
  EXPECT_EQ(ask("a")->error->code, "shutting_down");
}

// ---- over HTTP

class ModelRoutes : public ServerTest {
 protected:
  void SetUp() override {
    ServerModels models;
    auto first = fakes_.engine("a");
    models.first = ReadyModel{first, first->default_sampling(), {}};
    models.source = fakes_.source();
    models.source.pull = [this](const std::string& name, const auto& cancelled,
                                const auto& progress) -> Result<PulledModel> {
      if (name == "org/missing") return make_error(ErrorKind::not_found, "there is no org/missing");
      if (name == "org/slow") {
        while (!cancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(2));
        pulls_cancelled_++;
        return make_error(ErrorKind::busy, "interrupted");
      }
      progress({5, 10, 1});
      return PulledModel{name, 10, 7};
    };
    models.weight_bytes = 100;
    start(std::move(models), options_);
  }
  Json ask_model(const std::string& name) {
    return post("/v1/chat/completions",
                Json{{"model", name}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}}.dump())
        .json();
  }
  std::string action(const std::string& action, const std::string& body) {
    const HttpAnswer answer = post("/v1/models/" + action, body);
    return fmt::format("{} {}", answer.status, answer.status == 200 ? "" : answer.error_code());
  }
  double metric(const std::string& name) {
    const std::string text = "\n" + ask(port_, "GET", "/metrics").body;
    const size_t at = text.find("\n" + name + " ");
    return at == text.npos ? -1 : std::stod(text.substr(at + name.size() + 2));
  }

  ServerOptions options_;
  FakeModels fakes_;
  std::atomic<int> pulls_cancelled_{0};
  ~ModelRoutes() override { server_.reset(); }  // its engines count in fakes_
};

TEST_F(ModelRoutes, RequestsChooseTheirModel) {
  EXPECT_EQ(ask_model("b")["model"], "b");
  EXPECT_EQ(ask_model("a")["model"], "a");
  EXPECT_EQ(ask_model("c")["model"], "c");  // in place of b
  const Json list = ask(port_, "GET", "/v1/models").json()["data"];
  std::string states;
  for (const Json& model : list)
    states += fmt::format("{} {}, ", model["id"].get<std::string>(), model["state"].get<std::string>());
  EXPECT_EQ(states, "a loaded, c loaded, b unloaded, large unloaded, ");
  EXPECT_EQ(ask(port_, "GET", "/v1/models/b").json()["state"], "unloaded");
  EXPECT_EQ(metric(R"(anabranch_model_loads_total{model="b",result="loaded"})"), 1);
  EXPECT_EQ(metric(R"(anabranch_model_unloads_total{model="b",reason="room"})"), 1);
  EXPECT_EQ(metric(R"(anabranch_model_loaded{model="c"})"), 1);
  EXPECT_EQ(metric(R"(anabranch_requests_running{model="c"})"), 0);
  const Json health = ask(port_, "GET", "/health").json();
  EXPECT_EQ(health["model"]["id"], "a");
  ASSERT_EQ(health["models"].size(), 3u);
  EXPECT_EQ(health["models"][2]["engine"]["requests"], 1);
  EXPECT_EQ(ask_model("large")["error"]["code"], "model_not_loaded");
  fakes_.unreadable = {"b"};
  EXPECT_EQ(ask_model("b")["error"]["code"], "model_not_loaded");
}

TEST_F(ModelRoutes, ARequestThatIsCancelledWhileItsModelLoadsEndsAsCancelled) {
  fakes_.endless = true;
  std::unique_lock loads_wait(fakes_.gate);
  auto answer = std::async(std::launch::async, [&] {
    return post("/v1/generate", R"({"model":"b","prompt_token_ids":[1],"request_id":"x","timeout":10})");
  });
  const double end = now_seconds() + kWaitSeconds;
  while (post("/v1/generate/x/cancel", "{}").status != 200 && now_seconds() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // it has not come yet
  loads_wait.unlock();
  const HttpAnswer ended = answer.get();
  EXPECT_EQ(ended.status, 200) << ended.body;
  EXPECT_EQ(ended.json()["finish_reason"], "cancelled");
}

TEST_F(ModelRoutes, LoadAndUnload) {
  EXPECT_EQ(action("load", R"({"model":"b","pin":true,"unload_after_s":60})"), "200 ");
  const Json model = ask(port_, "GET", "/v1/models/b").json();
  EXPECT_EQ(model["pinned"], true);
  EXPECT_EQ(model["unload_after_s"], 60);
  EXPECT_TRUE(model["chat"].is_boolean());
  EXPECT_EQ(model["defaults"]["top_p"], 0.9);
  EXPECT_EQ(action("unload", R"({"model":"b"})"), "200 ");
  EXPECT_EQ(ask(port_, "GET", "/v1/models/b").json()["state"], "unloaded");
  EXPECT_EQ(metric(R"(anabranch_model_unloads_total{model="b",reason="asked"})"), 1);
  EXPECT_EQ(action("load", R"({"model":"gpt-4"})"), "404 model_not_found");
  EXPECT_EQ(action("unload", R"({"model":"gpt-4"})"), "404 model_not_found");
  EXPECT_EQ(action("load", R"({"model":"large"})"), "503 model_not_loaded");
  for (const char* bad : {"{", "[]", "{}", R"({"model":7})", R"({"model":""})", R"({"model":"b","pin":1})",
                          R"({"model":"b","unload_after_s":-1})"})
    EXPECT_TRUE(action("load", bad).starts_with("400")) << bad;
  EXPECT_EQ(ask(port_, "GET", "/v1/models/load").status, 405);
}

TEST_F(ModelRoutes, PullTellsItsProgress) {
  const std::string events = post("/v1/models/pull", R"({"model":"org/name"})").body;
  EXPECT_NE(events.find(R"("status":"downloading","completed_bytes":5,"total_bytes":10)"), events.npos)
      << events;
  EXPECT_NE(events.find(R"("status":"success","model":"org/name")"), events.npos) << events;
  EXPECT_TRUE(events.ends_with("data: [DONE]\n\n"));
  EXPECT_EQ(post("/v1/models/pull", R"({"model":"org/name","stream":false})").json()["downloaded_bytes"], 7);
  EXPECT_EQ(action("pull", R"({"model":"org/missing","stream":false})"), "404 pull_failed");
  EXPECT_NE(post("/v1/models/pull", R"({"model":"org/missing"})").body.find("pull_failed"),
            std::string::npos);
  {
    TestClient client(port_);
    const std::string body = R"({"model":"org/slow"})";
    client.send(
        fmt::format("POST /v1/models/pull HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                    "Content-Length: {}\r\n\r\n{}",
                    body.size(), body));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(pulls_cancelled_, 0);
  }
  for (int i = 0; i < 500 * kWaitSeconds && pulls_cancelled_ == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(pulls_cancelled_, 1);
}

TEST_F(ModelRoutes, OtherMachinesNeedAKey) {
  options_.host = "0.0.0.0";
  SetUp();
  for (const char* name : {"load", "unload", "pull"})
    EXPECT_EQ(action(name, R"({"model":"b"})"), "403 no_api_keys");
  EXPECT_EQ(ask_model("b")["model"], "b");
}

}  // namespace
}  // namespace anabranch::server
