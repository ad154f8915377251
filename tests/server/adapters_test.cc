// LoRA adapters: names and lists, which of them a request applies, loading them on request, and what that
// refuses.
#include <climits>
#include <filesystem>
#include <thread>

#include "server/api/adapter_actions.h"
#include "server/server_fixture.h"
#include "temp_dir.h"

namespace anabranch::server {
namespace {

namespace fs = std::filesystem;
using ::anabranch::testing::TempDir;

constexpr const char* kHi = R"("messages":[{"role":"user","content":"hi"}])";

class Adapters : public ServerTest {
 protected:
  void SetUp() override { start_with({"poet", "pirate"}); }
  // A server whose model has these adapters from the beginning.
  void start_with(const std::vector<std::string>& names, ServerOptions options = {}) {
    server_.reset();
    ServerModels models = served_by(engine_);
    std::vector<NamedAdapter> adapters;
    for (const std::string& name : names) adapters.push_back({name, "/adapters/" + name});
    models.adapters["fake-1b"] = adapters;
    models.first->adapters = *load_adapters(engine_, adapters);
    start(std::move(models), std::move(options));
  }
  HttpAnswer chat(const std::string& model, const std::string& more = "") {
    return post("/v1/chat/completions", fmt::format(R"({{"model":"{}",{}{}}})", model, kHi, more));
  }
  // What the last request applied: "digest*scale digest*scale".
  std::string applied() const { return told(engine_.last_request()); }
  static std::string told(const Request& request) {
    std::string out;
    for (const auto& [adapter, scale] : request.adapters)
      out += fmt::format("{}{}*{}", out.empty() ? "" : " ", adapter->digest, scale);
    return out;
  }
  // Answers begin with thoughts, which the next prompt drops: so it is read ahead.
  void think() {
    engine_.caches = true;
    engine_.script = [](const Request&) {
      return Script{{"many thoughts and more of them</think>", "Hello."}};
    };
  }
  HttpAnswer set_scales(const std::string& body) { return post("/lora-adapters", body); }
};

TEST_F(Adapters, AreListedWithTheirModel) {
  const Json list = ask(port_, "GET", "/v1/models").json()["data"];
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0]["id"], "fake-1b") << "clients that take the first one get the model";
  EXPECT_FALSE(list[0].contains("parent"));
  EXPECT_EQ(list[1]["id"], "poet");
  EXPECT_EQ(list[1]["parent"], "fake-1b");
  EXPECT_EQ(list[1]["root"], "/adapters/poet");
  EXPECT_EQ(list[1]["context_length"], list[0]["context_length"]);
  EXPECT_EQ(list[2]["id"], "pirate");
  EXPECT_EQ(ask(port_, "GET", "/v1/models/pirate").json(), list[2]);
  EXPECT_EQ(ask(port_, "GET", "/v1/models/fake-1b").json(), list[0]);
  const Json anthropic =
      ask(port_, "GET", "/v1/models", "", "anthropic-version: 2023-06-01\r\n").json()["data"];
  ASSERT_EQ(anthropic.size(), 3u);
  EXPECT_EQ(anthropic[1]["id"], "poet");
  EXPECT_EQ(anthropic[1]["type"], "model");
}

TEST_F(Adapters, AreListedForOllamasClients) {
  const Json list = ask(port_, "GET", "/api/tags").json()["models"];
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0]["name"], "fake-1b:latest");
  EXPECT_EQ(list[0]["details"]["parent_model"], "");
  EXPECT_EQ(list[1]["name"], "pirate:latest");
  EXPECT_EQ(list[1]["details"]["parent_model"], "fake-1b:latest");
  EXPECT_EQ(list[2]["name"], "poet:latest");
  EXPECT_NE(list[1]["digest"], list[2]["digest"]);
  EXPECT_EQ(post("/api/show", R"({"model":"poet:latest"})").json()["details"], list[0]["details"]);
}

TEST_F(Adapters, AreChosenByNameOnEachApi) {
  const std::map<std::string, std::string> bodies = {
      {"/v1/chat/completions", kHi},
      {"/v1/completions", R"("prompt":"hi")"},
      {"/v1/generate", R"("prompt_token_ids":[104])"},
      {"/v1/responses", R"("input":"hi")"},
      {"/v1/messages", std::string(R"("max_tokens":5,)") + kHi},
      {"/api/chat", std::string(R"("stream":false,)") + kHi},
      {"/api/generate", R"("stream":false,"prompt":"hi")"},
      {"/completion", R"("prompt":"hi")"}};
  for (const auto& [path, body] : bodies) {
    const HttpAnswer answer = post(path, "{\"model\":\"pirate\"," + body + "}");
    ASSERT_EQ(answer.status, 200) << path << answer.body;
    EXPECT_EQ(applied(), "/adapters/pirate*1") << path;
    EXPECT_EQ(answer.json()["model"], "pirate") << path << answer.body;
    const HttpAnswer base = post(path, "{\"model\":\"fake-1b\"," + body + "}");
    ASSERT_EQ(base.status, 200) << path;
    EXPECT_EQ(applied(), "") << path;
    EXPECT_EQ(base.json()["model"], "fake-1b") << path;
  }
  EXPECT_EQ(post("/api/chat", std::string(R"({"stream":false,"model":"poet:latest",)") + kHi + "}").status,
            200);
  EXPECT_EQ(applied(), "/adapters/poet*1") << "as Ollama's clients write it";
}

TEST_F(Adapters, OtherNamesMeanWhatTheyMeantBefore) {
  EXPECT_EQ(chat("gpt-4").json()["model"], "fake-1b");
  EXPECT_EQ(applied(), "");
  ServerModels models = served_by(engine_);
  models.first->adapters = *load_adapters(engine_, {{"poet", "/adapters/poet"}});
  models.strict_names = true;
  start(std::move(models), {});
  EXPECT_EQ(chat("gpt-4").status, 404);
  EXPECT_EQ(chat("poe").status, 404);
  EXPECT_EQ(chat("poet").status, 200);
}

// Its model was loaded again, and it could not be.
TEST_F(Adapters, OneThatIsNotLoadedIsAnError) {
  ServerModels models = served_by(engine_);
  models.adapters["fake-1b"] = {{"poet", "/adapters/poet"}};
  start(std::move(models), {});
  for (const HttpAnswer& answer : {chat("poet"), chat("fake-1b", R"(,"lora":[{"id":0,"scale":1}])")}) {
    EXPECT_EQ(answer.status, 503) << answer.body;
    EXPECT_EQ(answer.error_code(), "model_not_loaded");
  }
  EXPECT_EQ(chat("fake-1b").status, 200);
}

TEST_F(Adapters, EmbeddingsHaveNone) {
  engine_.mutable_info().pooling = Pooling::last;
  engine_.mutable_info().hidden = 4;
  for (const char* path : {"/v1/embeddings", "/api/embed"}) {
    const HttpAnswer answer = post(path, R"({"model":"poet","input":"a"})");
    EXPECT_EQ(answer.status, 400) << path;
    EXPECT_NE(answer.body.find("fake-1b"), std::string::npos) << answer.body;
  }
  const HttpAnswer scaled = post("/v1/embeddings", R"({"input":"a","lora":[{"id":0,"scale":1}]})");
  EXPECT_EQ(scaled.status, 400);
  EXPECT_EQ(scaled.error_param(), "lora");
}

// ---- llama-server's way

TEST_F(Adapters, AreScaledByARequest) {
  for (const auto& [path, body] : {std::pair<std::string, std::string>{"/completion", R"("prompt":"hi")"},
                                   {"/v1/chat/completions", kHi},
                                   {"/v1/completions", R"("prompt":"hi")"}}) {
    const auto with = [&, path = path, body = body](const std::string& lora) {
      const HttpAnswer answer = post(path, "{" + body + ",\"lora\":" + lora + "}");
      EXPECT_EQ(answer.status, 200) << answer.body;
      EXPECT_FALSE(answer.headers.contains("x-anabranch-ignored-fields"));
      return applied();
    };
    EXPECT_EQ(with(R"([{"id":1,"scale":0.5}])"), "/adapters/pirate*0.5") << path;
    EXPECT_EQ(with(R"([{"id":1,"scale":-2},{"id":0,"scale":1}])"), "/adapters/poet*1 /adapters/pirate*-2")
        << "in the order of ids";
    EXPECT_EQ(with(R"([{"id":1,"scale":0}])"), "");
    EXPECT_EQ(with("[]"), "");
    EXPECT_EQ(with("null"), "");
  }
}

TEST_F(Adapters, ScalesThatAreWrongAreRefusedByName) {
  for (const auto& [lora, names] : {std::pair{R"({"id":0})", "'lora'"},
                                    {R"([0])", "lora[0]"},
                                    {R"([{"id":0}])", "scale"},
                                    {R"([{"scale":1}])", "id"},
                                    {R"([{"id":"0","scale":1}])", "lora[0].id"},
                                    {R"([{"id":-1,"scale":1}])", "lora[0].id"},
                                    {R"([{"id":0,"scale":1},{"id":2,"scale":1}])", "adapter 2"},
                                    {R"([{"id":0,"scale":1e9}])", "lora[0].scale"},
                                    {R"([{"id":0,"scale":true}])", "lora[0].scale"},
                                    {R"([{"id":0,"scale":1},{"id":0,"scale":1}])", "twice"}}) {
    const HttpAnswer answer = chat("fake-1b", std::string(",\"lora\":") + lora);
    EXPECT_EQ(answer.status, 400) << lora;
    EXPECT_NE(answer.body.find(names), std::string::npos) << lora << answer.body;
  }
  EXPECT_EQ(engine_.stats().requests, 0u) << "none of them was run";
}

TEST_F(Adapters, HaveScalesForRequestsThatChooseNone) {
  const Json before = ask(port_, "GET", "/lora-adapters").json();
  ASSERT_EQ(before.size(), 2u);
  EXPECT_EQ(before[1].dump(), R"({"id":1,"path":"/adapters/pirate","scale":0.0,"name":"pirate"})");
  const HttpAnswer set = set_scales(R"([{"id":1,"scale":0.25}])");
  EXPECT_EQ(set.body, R"({"success":true})");
  EXPECT_EQ(ask(port_, "GET", "/lora-adapters").json()[1]["scale"], 0.25);
  chat("fake-1b");
  EXPECT_EQ(applied(), "/adapters/pirate*0.25");
  chat("poet");
  EXPECT_EQ(applied(), "/adapters/poet*1") << "a name chooses";
  chat("fake-1b", R"(,"lora":[])");
  EXPECT_EQ(applied(), "") << "a list chooses";
  set_scales(R"([{"id":0,"scale":1}])");
  chat("fake-1b");
  EXPECT_EQ(applied(), "/adapters/poet*1") << "those that the list leaves out have 0 again";
  const HttpAnswer unknown = set_scales(R"([{"id":7,"scale":1}])");
  EXPECT_EQ(unknown.status, 400);
  EXPECT_NE(unknown.body.find("adapter 7"), std::string::npos) << unknown.body;
  for (const char* bad : {"{}", "7", "[", "", R"([{"id":0}])"}) EXPECT_EQ(set_scales(bad).status, 400) << bad;
  chat("fake-1b");
  EXPECT_EQ(applied(), "/adapters/poet*1") << "an error changes nothing";
}

TEST_F(Adapters, AtMostEightAreAppliedTogether) {
  std::vector<std::string> names;
  std::string list;
  for (int i = 0; i < 9; ++i) {
    names.push_back("a" + std::to_string(i));
    list += fmt::format(R"({}{{"id":{},"scale":1}})", i ? "," : "", i);
    start_with(names);
    const int status = chat("fake-1b", ",\"lora\":[" + list + "]").status;
    EXPECT_EQ(status, i < 8 ? 200 : 400) << i;
    EXPECT_EQ(set_scales("[" + list + "]").status, i < 8 ? 200 : 400) << i;
  }
  list.replace(list.rfind('1'), 1, "0");  // the ninth is off
  EXPECT_EQ(chat("fake-1b", ",\"lora\":[" + list + "]").status, 200);
  EXPECT_EQ(set_scales("[" + list + "]").status, 200);
}

// ---- what depends on the adapters

TEST_F(Adapters, HaveStatesOfTheirOwn) {
  std::map<std::string, std::string> of;  // by salt
  const auto salt = [&](const std::string& model, const std::string& more) {
    EXPECT_EQ(chat(model, more).status, 200);
    return engine_.last_request().cache_salt;
  };
  EXPECT_EQ(salt("fake-1b", ""), "") << "as without adapters";
  EXPECT_EQ(salt("fake-1b", R"(,"cache_salt":"s")"), "s");
  const std::vector<std::string> salts = {
      salt("poet", ""),
      salt("pirate", ""),
      salt("fake-1b", R"(,"lora":[{"id":0,"scale":0.5}])"),
      salt("fake-1b", R"(,"lora":[{"id":0,"scale":1},{"id":1,"scale":1}])"),
      salt("poet", R"(,"cache_salt":"s")"),
      "",
      "s"};
  EXPECT_EQ(std::set(salts.begin(), salts.end()).size(), salts.size());
  EXPECT_EQ(salt("fake-1b", R"(,"lora":[{"id":0,"scale":1}])"), salts[0]) << "however it was chosen";
  EXPECT_EQ(salts[4], salts[0] + "s") << "the adapters' salt is there once";
  EXPECT_EQ(salts[0], adapter_salt(engine_.last_request().adapters));
}

// A client cannot spell the salt of an adapter, or of another key with one.
TEST_F(Adapters, NoClientFindsTheStatesOfAnAdapterByASalt) {
  for (const std::string salt : {"\xfe/adapters/poet*1\xfe", "\\u00fe/adapters/poet*1\\u00fe"}) {
    if (chat("fake-1b", ",\"cache_salt\":\"" + salt + "\"").status != 200) continue;
    const std::string unmarked = engine_.last_request().cache_salt;
    chat("poet");
    EXPECT_NE(unmarked, engine_.last_request().cache_salt);
  }
}

TEST_F(Adapters, AreAppliedToWhatIsReadAhead) {
  think();
  start_with({"poet"});
  EXPECT_EQ(chat("fake-1b", R"(,"enable_thinking":true,"lora":[{"id":0,"scale":0.5}])").status, 200);
  ASSERT_TRUE(engine_.wait_for([&](const EngineStats& stats) { return stats.requests == 2; }));
  const Request read = engine_.last_request();
  EXPECT_TRUE(read.background);
  EXPECT_EQ(read.priority, INT_MAX) << "it waits for all requests";
  EXPECT_EQ(told(read), "/adapters/poet*0.5");
  EXPECT_EQ(read.cache_salt, adapter_salt(read.adapters));
}

// ---- loading on request

class LoadingAdapters : public Adapters {
 protected:
  void SetUp() override {
    for (const char* name : {"a", "b", "bad", "sub/c"}) fs::create_directories(dir_.file(name));
    dir_.write("g.gguf", "GGUF");
    fs::create_directories(outside_.file("x"));
    outside_.write("x/adapter_model.safetensors", "");
    options_.directories.adapters = {dir_.path()};
    start(options_);
  }
  HttpAnswer load(const std::string& name, const std::string& path, const std::string& more = "") {
    return post("/v1/load_lora_adapter", fmt::format(R"({{"lora_name":{},"lora_path":{}{}}})",
                                                     Json(name).dump(), Json(path).dump(), more));
  }
  HttpAnswer unload(const std::string& name) {
    return post("/v1/unload_lora_adapter", Json{{"lora_name", name}}.dump());
  }
  size_t listed() { return ask(port_, "GET", "/lora-adapters").json().size(); }

  TempDir dir_, outside_;
  ServerOptions options_;
};

TEST_F(LoadingAdapters, ComeAndGo) {
  const std::string a = fs::canonical(dir_.file("a"));
  const HttpAnswer loaded = load("new", dir_.file("a"));
  EXPECT_EQ(loaded.status, 200) << loaded.body;
  EXPECT_EQ(loaded.json()["id"], "new");
  EXPECT_EQ(loaded.json()["parent"], "fake-1b");
  EXPECT_EQ(loaded.json()["root"], a);
  chat("new");
  EXPECT_EQ(applied(), a + "*1");
  for (const char* path : {"b", "./sub/c", "g.gguf"}) EXPECT_EQ(load(path, path).status, 200) << path;
  EXPECT_EQ(listed(), 4u);
  EXPECT_EQ(unload("new").status, 200);
  EXPECT_EQ(listed(), 3u);
  EXPECT_EQ(ask(port_, "GET", "/lora-adapters").json()[0]["id"], 1) << "ids stay";
  chat("new");
  EXPECT_EQ(applied(), "") << "an unknown name means the model";
  EXPECT_EQ(engine_.adapters().size(), 4u - 1);
  const HttpAnswer gone = unload("new");
  EXPECT_EQ(gone.status, 404);
  EXPECT_NE(gone.body.find("'new'"), std::string::npos);
}

// A new version of an adapter is in its place, with its strength.
TEST_F(LoadingAdapters, OneThatIsLoadedAgainKeepsItsScale) {
  EXPECT_EQ(load("n", "a").status, 200);
  EXPECT_EQ(set_scales(R"([{"id":0,"scale":0.5}])").status, 200);
  EXPECT_EQ(load("n", "b", R"(,"load_inplace":true)").status, 200);
  chat("fake-1b");
  EXPECT_EQ(applied(), fs::canonical(dir_.file("b")).string() + "*0.5");
}

TEST_F(LoadingAdapters, ANameIsTakenOnce) {
  EXPECT_EQ(load("n", "a").status, 200);
  const HttpAnswer again = load("n", "b");
  EXPECT_EQ(again.status, 400);
  EXPECT_NE(again.body.find("load_inplace"), std::string::npos) << again.body;
  chat("n");
  EXPECT_EQ(applied(), fs::canonical(dir_.file("a")).string() + "*1");
  EXPECT_EQ(load("n", "b", R"(,"load_inplace":true)").status, 200);
  chat("n");
  EXPECT_EQ(applied(), fs::canonical(dir_.file("b")).string() + "*1");
  EXPECT_EQ(listed(), 1u);
  EXPECT_EQ(load("fake-1b", "a").status, 400) << "a model's name";
  EXPECT_EQ(load("fake-1b", "a", R"(,"load_inplace":true)").status, 400);
  chat("fake-1b");
  EXPECT_EQ(applied(), "");
}

TEST_F(LoadingAdapters, WhatDoesNotLoadIsNotThere) {
  const HttpAnswer bad = load("n", "bad");
  EXPECT_EQ(bad.status, 400);
  EXPECT_NE(bad.body.find("fits no module"), std::string::npos) << bad.body;
  EXPECT_EQ(load("n", "missing").status, 404);
  EXPECT_EQ(load("n", "a", R"(,"model":"no such model")").status, 404);
  EXPECT_EQ(listed(), 0u);
  EXPECT_EQ(load("n", "a").status, 200) << "the name was not taken";
  EXPECT_EQ(load("n", "bad", R"(,"load_inplace":true)").status, 400);
  chat("n");
  EXPECT_EQ(applied(), fs::canonical(dir_.file("a")).string() + "*1") << "the old one stays";
}

// A client that sees these may try again; its adapter is not at fault.
TEST_F(LoadingAdapters, FaultsOfTheMachineAreNotTheClients) {
  for (const auto& [path, status, code] : {std::tuple{"huge", 503, "adapter_not_loaded"},
                                           {"cursed", 500, "adapter_not_loaded"},
                                           {"full", 503, "adapter_not_loaded"},
                                           {"late", 503, "shutting_down"},
                                           {"bad", 400, "adapter_not_loaded"}}) {
    fs::create_directories(dir_.file(path));
    const HttpAnswer answer = load("n", path);
    EXPECT_EQ(answer.status, status) << path << answer.body;
    EXPECT_EQ(answer.error_code(), code) << path;
    EXPECT_NE(answer.body.find("'n'"), std::string::npos) << answer.body;
    EXPECT_EQ(answer.headers.contains("retry-after"), status == 503) << path;
  }
  EXPECT_EQ(load("n", "a").status, 200) << "the server goes on, and the name is free";
}

TEST_F(LoadingAdapters, OnlyFromNamedDirectories) {
  fs::create_directory_symlink(outside_.file("x"), dir_.file("link"));
  fs::create_directories(dir_.file("files"));
  fs::create_symlink(outside_.file("x/adapter_model.safetensors"),
                     dir_.file("files/adapter_model.safetensors"));
  fs::create_symlink(outside_.file("x/adapter_model.safetensors"), dir_.file("one.gguf"));
  fs::create_directories(dir_.path() + "-other");
  for (const std::string& path :
       {outside_.file("x"), outside_.file("nothing"), std::string("/"), std::string("/etc/passwd"),
        std::string(".."), std::string("a/.."), std::string("a/../b"),
        std::string("../") + fs::path(outside_.path()).filename().string() + "/x",
        dir_.file("a") + "/../../" + fs::path(outside_.path()).filename().string() + "/x",
        std::string("link"), dir_.file("link"), std::string("files"), std::string("one.gguf"),
        dir_.path() + "-other", std::string("~/a").replace(0, 1, "/root")}) {
    const HttpAnswer answer = load("n", path);
    EXPECT_EQ(answer.status, 403) << path << answer.body;
    EXPECT_EQ(answer.error_code(), "path_not_allowed") << path;
  }
  fs::remove(dir_.path() + "-other");
  EXPECT_EQ(load("n", outside_.file("x")).body, load("n", outside_.file("nothing")).body)
      << "nobody learns what is elsewhere";
  fs::create_directory_symlink(dir_.file("a"), dir_.file("inner"));
  EXPECT_EQ(load("n", "inner").status, 200) << "a link within the directory";
  options_.directories.adapters = {dir_.file("b"), dir_.file("link")};
  start(options_);
  EXPECT_EQ(load("n", "../a").status, 403);
  EXPECT_EQ(load("n", dir_.file("a")).status, 403);
  EXPECT_EQ(load("n", outside_.file("x")).status, 200) << "the operator may name a link";
}

// The other parts of a split file are read as well.
TEST_F(LoadingAdapters, NoPartOfAFileLeadsOut) {
  const auto elsewhere = outside_.file("x/adapter_model.safetensors");
  for (const char* name : {"s-00001-of-00003.gguf", "s-00003-of-00003.gguf", "t-00001-of-00002.gguf"})
    dir_.write(name, "GGUF");
  EXPECT_EQ(load("t", "t-00001-of-00002.gguf").status, 200) << "a part that is missing leads nowhere";
  fs::create_symlink(dir_.file("t-00001-of-00002.gguf"), dir_.file("s-00002-of-00003.gguf"));
  EXPECT_EQ(load("s", "s-00001-of-00003.gguf").status, 200) << "a link within the directory";
  fs::remove(dir_.file("s-00002-of-00003.gguf"));
  fs::create_symlink(elsewhere, dir_.file("s-00002-of-00003.gguf"));
  for (const char* name : {"s-00001-of-00003.gguf", "s-00002-of-00003.gguf", "s-00003-of-00003.gguf"})
    EXPECT_EQ(load("n", name).status, 403) << name;
  fs::create_symlink(dir_.file("s-00001-of-00003.gguf"), dir_.file("link.gguf"));
  EXPECT_EQ(load("n", "link.gguf").status, 403)
      << "the parts beside the file count, not those beside the link";
}

TEST_F(LoadingAdapters, TheOperatorWritesADirectoryInAnyWay) {
  fs::create_directory_symlink(outside_.path(), dir_.file("link"));
  for (const char* end : {"", "/", "/.", "/x/.."}) {
    options_.directories.adapters = {dir_.file("link") + end};
    start(options_);
    EXPECT_EQ(load("n", dir_.file("link/x")).status, 200) << end;
    EXPECT_EQ(load("m", outside_.file("x")).status, 200) << end;
    EXPECT_EQ(load("o", "x").status, 200) << end;
    EXPECT_EQ(load("p", dir_.file("a")).status, 403) << end;
    EXPECT_EQ(load("p", dir_.file("link-other")).status, 403) << end;
  }
}

// One whose files are gone does not keep its model from being loaded.
TEST_F(LoadingAdapters, ComeBackWithTheirModel) {
  ServerModels models = served_by(engine_);
  models.source.find = [](const std::string& name) {
    return name == "fake-1b" ? std::optional(name) : std::nullopt;
  };
  models.source.measure = [](const std::string&) -> Result<ModelSize> { return ModelSize{}; };
  models.source.load = [this](const std::string&) -> Result<ReadyModel> { return *served_by(engine_).first; };
  start(std::move(models), options_);
  ASSERT_EQ(load("n", "a").status, 200);
  ASSERT_EQ(load("m", "b").status, 200);
  fs::remove_all(dir_.file("b"));
  ASSERT_EQ(post("/v1/models/unload", R"({"model":"fake-1b"})").status, 200);
  EXPECT_EQ(engine_.adapters().size(), 0u);
  EXPECT_EQ(chat("n").status, 200);
  EXPECT_EQ(applied(), fs::canonical(dir_.file("a")).string() + "*1");
  const HttpAnswer gone = chat("m");
  EXPECT_EQ(gone.status, 503);
  EXPECT_EQ(gone.error_code(), "model_not_loaded") << gone.body;
  EXPECT_EQ(chat("fake-1b").status, 200);
}

TEST_F(LoadingAdapters, NobodyWithoutNamedDirectories) {
  options_.directories.adapters.clear();
  start(options_);
  const HttpAnswer answer = load("n", "a");
  EXPECT_EQ(answer.status, 403);
  EXPECT_EQ(answer.error_code(), "no_adapter_directories");
  EXPECT_NE(answer.body.find("--lora-dir"), std::string::npos) << answer.body;
}

TEST_F(LoadingAdapters, NobodyOnAServerForOtherMachinesWithoutKeys) {
  options_.host = "0.0.0.0";
  start(options_);
  for (const char* path : {"/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/lora-adapters"}) {
    const HttpAnswer answer = post(path, R"({"lora_name":"n","lora_path":"a"})");
    EXPECT_EQ(answer.status, 403) << path;
    EXPECT_EQ(answer.error_code(), "no_api_keys") << path;
  }
  EXPECT_EQ(ask(port_, "GET", "/lora-adapters").status, 200);
  EXPECT_EQ(chat("fake-1b", R"(,"lora":[])").status, 200);
}

TEST_F(LoadingAdapters, NamesAndPathsOfAttackers) {
  for (const std::string& name :
       {std::string(), std::string(201, 'n'), std::string("a\nb"), std::string("a\x7f"),
        std::string("a\0b", 3), std::string("default"), std::string("main"), std::string("x:latest")}) {
    const HttpAnswer answer = load(name, "a");
    EXPECT_EQ(answer.status, 400) << name;
    EXPECT_EQ(answer.error_param(), "lora_name") << name;
  }
  EXPECT_EQ(load(std::string(200, 'n'), "a").status, 200);
  for (const std::string& path :
       {std::string(), std::string(4097, 'a'), std::string("a\0b", 3), std::string("a\n")}) {
    const HttpAnswer answer = load("m", path);
    EXPECT_EQ(answer.status, 400) << path.size();
    EXPECT_EQ(answer.error_param(), "lora_path") << path.size();
  }
  EXPECT_EQ(load("m", std::string(4096, 'a')).status, 404) << "no file has so long a name";
  for (const char* body : {"{}", "[]", "", R"({"lora_name":"n"})", R"({"lora_path":"a"})",
                           R"({"lora_name":["n"],"lora_path":"a"})", R"({"lora_name":"n","lora_path":7})"})
    EXPECT_EQ(post("/v1/load_lora_adapter", body).status, 400) << body;
  EXPECT_EQ(post("/v1/unload_lora_adapter", "{}").status, 400);
  EXPECT_EQ(listed(), 1u);
}

TEST_F(LoadingAdapters, AtMostSixtyFour) {
  for (int i = 0; i < 64; ++i) ASSERT_EQ(load("n" + std::to_string(i), "a").status, 200) << i;
  const HttpAnswer more = load("n64", "a");
  EXPECT_EQ(more.status, 400);
  EXPECT_EQ(more.error_code(), "too_many_adapters");
  EXPECT_EQ(load("n3", "b", R"(,"load_inplace":true)").status, 200) << "it takes the place of one";
  EXPECT_EQ(unload("n7").status, 200);
  EXPECT_EQ(load("n64", "a").status, 200);
  EXPECT_EQ(listed(), 64u);
}

TEST_F(LoadingAdapters, ARunningRequestKeepsItsAdapter) {
  engine_.script = [](const Request&) {
    return Script{.parts = {"a"}, .delay = std::chrono::milliseconds(1), .repeat = true};
  };
  ASSERT_EQ(load("n", "a").status, 200);
  {
    TestClient client(port_);
    client.send(http_request("POST", "/v1/chat/completions",
                             std::string(R"({"model":"n","stream":true,)") + kHi + "}"));
    ASSERT_TRUE(engine_.wait_for([](const EngineStats& stats) { return stats.running == 1; }));
    EXPECT_EQ(unload("n").status, 200);
    EXPECT_EQ(listed(), 0u);
    EXPECT_EQ(chat("fake-1b", R"(,"max_tokens":1)").status, 200);
    EXPECT_EQ(engine_.stats().running, 1);
    EXPECT_EQ(engine_.adapters().size(), 1u) << "the answer still needs it";
  }
  EXPECT_TRUE(engine_.wait_for([&](const EngineStats&) { return engine_.adapters().empty(); }))
      << "and no longer";
}

// What is to be read ahead keeps no adapter loaded, and is not read without it.
TEST_F(LoadingAdapters, AnUnloadedAdapterIsNotReadAhead) {
  think();
  start(options_);
  ASSERT_EQ(load("n", "a").status, 200);
  EXPECT_EQ(chat("n", R"(,"enable_thinking":true)").status, 200);
  EXPECT_EQ(unload("n").status, 200);
  EXPECT_EQ(chat("fake-1b", R"(,"enable_thinking":true)").status, 200);
  ASSERT_TRUE(engine_.wait_for([](const EngineStats& stats) { return stats.requests >= 3; }))
      << "the other turn is";
  EXPECT_TRUE(engine_.wait_for([&](const EngineStats&) { return engine_.adapters().empty(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // several times the pause before reading
  EXPECT_EQ(engine_.stats().requests, 3u);
  EXPECT_EQ(engine_.last_request().cache_salt, "");
}

TEST_F(LoadingAdapters, AreForKeysThatMayLoadModels) {
  options_.api_keys = {{.key = "chat", .name = "chat", .roles = role_bit(Role::chat)},
                       {.key = "models", .name = "models", .roles = role_bit(Role::models)}};
  start(options_);
  const auto as = [&](const std::string& key, const std::string& method, const std::string& path,
                      const std::string& body) {
    return ask(port_, method, path, body, "x-api-key: " + key + "\r\n").status;
  };
  const std::string body = R"({"lora_name":"n","lora_path":"a"})";
  EXPECT_EQ(ask(port_, "POST", "/v1/load_lora_adapter", body).status, 401);
  for (const char* path : {"/v1/load_lora_adapter", "/v1/unload_lora_adapter", "/lora-adapters"})
    EXPECT_EQ(as("chat", "POST", path, body), 403) << path;
  EXPECT_EQ(as("models", "POST", "/v1/load_lora_adapter", body), 200);
  EXPECT_EQ(as("models", "POST", "/lora-adapters", "[]"), 200);
  EXPECT_EQ(as("chat", "GET", "/lora-adapters", ""), 200);
  EXPECT_EQ(as("chat", "POST", "/v1/chat/completions", std::string(R"({"model":"n",)") + kHi + "}"), 200);
  EXPECT_EQ(applied(), fs::canonical(dir_.file("a")).string() + "*1");
  EXPECT_EQ(as("models", "POST", "/v1/unload_lora_adapter", R"({"lora_name":"n"})"), 200);
}

// With keys, states are the key's own as well as the adapter's.
TEST_F(LoadingAdapters, StatesBelongToAKeyAndAnAdapter) {
  options_.api_keys = {{.key = "one", .name = "one"}, {.key = "two", .name = "two"}};
  start(options_);
  const auto salt = [&](const std::string& key, const std::string& model) {
    const std::string headers = "x-api-key: " + key + "\r\n";
    ask(port_, "POST", "/v1/load_lora_adapter", R"({"lora_name":"n","lora_path":"a"})", headers);
    EXPECT_EQ(
        ask(port_, "POST", "/v1/chat/completions", fmt::format(R"({{"model":"{}",{}}})", model, kHi), headers)
            .status,
        200);
    return engine_.last_request().cache_salt;
  };
  const std::set<std::string> salts = {salt("one", "n"), salt("two", "n"), salt("one", "fake-1b"),
                                       salt("two", "fake-1b")};
  EXPECT_EQ(salts.size(), 4u);
}

}  // namespace
}  // namespace anabranch::server
