// POST /slots/{id}: the last prompt of a slot is saved, restored and erased.
#include "server/api/llama/slots.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>

#include <fstream>

#include "server/fake_states.h"
#include "server/server_fixture.h"

namespace anabranch::server {
namespace {

namespace fs = std::filesystem;

class SlotFiles : public ServerTest {
 protected:
  void SetUp() override {
    engine_.mutable_info().max_running = 2;
    begin(folder_);
    engine_.keep_states();
  }
  void TearDown() override {
    ServerTest::TearDown();
    fs::remove_all(folder_);
  }
  void begin(const std::string& folder, ServerOptions options = {}) {
    options.directories.slots = folder;
    start(std::move(options));
  }
  HttpAnswer as(const std::string& key, const std::string& path, const std::string& body) {
    return ask(port_, "POST", path, body, "x-api-key: key-of-" + key + "\r\n");
  }
  HttpAnswer act_as(const std::string& key, const std::string& action, const std::string& file) {
    return as(key, "/slots/0?action=" + action, R"({"filename":")" + file + "\"}");
  }
  // With keys of these names, key-of-NAME, which do not share the cache.
  void begin_for(const std::vector<std::string>& names) {
    ServerOptions options;
    for (const auto& name : names) options.api_keys.push_back({.key = "key-of-" + name, .name = name});
    begin(folder_, std::move(options));
  }
  Json complete(const std::string& prompt, const std::string& extra = "") {
    const HttpAnswer answer = post("/completion", R"({"prompt":")" + prompt + "\"" + extra + "}");
    EXPECT_EQ(answer.status, 200) << answer.body;
    return answer.json();
  }
  HttpAnswer act(const std::string& slot, const std::string& action, const std::string& file) {
    return post("/slots/" + slot + "?action=" + action, R"({"filename":")" + file + "\"}");
  }
  std::string text_of(const std::string& file) {
    std::ifstream in(fs::path(folder_) / file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void put(const std::string& file, const std::string& text) {
    std::ofstream(fs::path(folder_) / file) << text;
  }
  const std::string folder_ = fs::temp_directory_path() / ("slots_" + std::to_string(::getpid()));
};

TEST_F(SlotFiles, SavesAndRestoresThePromptAndItsAnswer) {
  EXPECT_EQ(complete("What is the capital?", R"(,"id_slot":1)")["id_slot"], 1);
  const std::vector<int> prompt = engine_.last_request().prompt;
  const HttpAnswer saved = act("1", "save", "one.bin");
  ASSERT_EQ(saved.status, 200) << saved.body;
  const size_t answer = std::string("Hello, world.").size() + 1;  // and the end of the turn
  EXPECT_EQ(saved.json()["n_saved"], prompt.size() + answer);
  EXPECT_EQ(saved.json()["n_written"], text_of("one.bin").size());
  EXPECT_EQ(saved.json()["filename"], "one.bin");
  EXPECT_EQ(saved.json()["id_slot"], 1);
  EXPECT_GE(saved.json()["timings"]["save_ms"], 0.0);
  struct stat info {};
  ASSERT_EQ(::stat((folder_ + "/one.bin").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);

  begin(folder_);  // another process, in effect
  const HttpAnswer restored = act("0", "restore", "one.bin");
  ASSERT_EQ(restored.status, 200) << restored.body;
  EXPECT_EQ(restored.json()["n_restored"], saved.json()["n_saved"]);
  EXPECT_EQ(restored.json()["n_read"], saved.json()["n_written"]);
  // The states that are gone are computed again: at the prompt's end, and at the answer's.
  const Request read = engine_.last_request();
  EXPECT_EQ(read.max_tokens, 0);
  EXPECT_EQ(std::vector<int>(read.prompt.begin(), read.prompt.begin() + static_cast<long>(prompt.size())),
            prompt);
  EXPECT_EQ(read.keep_at, (std::vector<int>{static_cast<int>(prompt.size()) - 1,
                                            static_cast<int>(prompt.size() + answer) - 1}));
  ASSERT_EQ(act("0", "save", "again.bin").status, 200);
  EXPECT_EQ(text_of("again.bin"), text_of("one.bin"));
  for (const auto& file : fs::directory_iterator(folder_))
    EXPECT_FALSE(file.path().filename().string().starts_with('.')) << file;
}

TEST_F(SlotFiles, RequestsThatNameNoSlotCountForTheFirst) {
  complete("a");
  EXPECT_EQ(act("0", "save", "a").json()["n_saved"], 2 + 14);
  EXPECT_EQ(complete("bcd", R"(,"id_slot":-1)")["id_slot"], 0);
  EXPECT_EQ(act("0", "save", "a").json()["n_saved"], 4 + 14);
  EXPECT_EQ(act("1", "save", "a").error_code(), "empty_slot");
  complete("x", R"(,"id_slot":2)");  // there is no such slot, and nothing is kept
  EXPECT_EQ(act("2", "save", "a").error_code(), "invalid_slot");
  EXPECT_EQ(post("/completion", R"({"prompt":"a","id_slot":"b"})").error_param(), "id_slot");
  EXPECT_EQ(post("/completion", R"({"prompt":"a","id_slot":-2})").status, 400);
}

TEST_F(SlotFiles, ChatsCountToo) {
  post("/v1/chat/completions",
       R"({"messages":[{"role":"user","content":"hi"}],"id_slot":1,"cache_salt":"s"})");
  const size_t prompt = engine_.last_request().prompt.size();
  EXPECT_EQ(act("1", "save", "chat").json()["n_saved"], prompt + 14);
  act("1", "restore", "chat");
  EXPECT_EQ(engine_.last_request().cache_salt, "s");
}

TEST_F(SlotFiles, ErasesThePromptAndItsStates) {
  FakeStates states;
  engine_.shared = &states;
  engine_.script = [&](const Request& request) {
    Script script{{"Hello"}};
    if (request.name_states) script.states = {states.trace(3), states.trace(9)};
    return script;
  };
  complete("abc", R"(,"id_slot":1)");
  EXPECT_EQ(states.forgotten(), 0u);
  EXPECT_EQ(post("/slots/1?action=erase", "").json()["n_erased"], 4 + 6);
  EXPECT_EQ(states.forgotten(), 2u);
  EXPECT_EQ(act("1", "save", "a").error_code(), "empty_slot");
  EXPECT_EQ(post("/slots/1?action=erase", "").json()["n_erased"], 0);
  EXPECT_EQ(states.forgotten(), 2u);
  engine_.shared = nullptr;
}

TEST_F(SlotFiles, NothingIsKeptWithoutADirectory) {
  begin("");
  complete("abc");
  EXPECT_FALSE(engine_.last_request().name_states);
  for (const char* action : {"save", "restore", "erase"}) {
    const HttpAnswer answer = act("0", action, "a");
    EXPECT_EQ(answer.status, 501) << action;
    EXPECT_EQ(answer.error_code(), "slots_not_kept");
  }
}

TEST_F(SlotFiles, RefusesOtherActionsAndNames) {
  complete("abc");
  fs::create_directory(fs::path(folder_) / "a");  // only its name keeps "a/b" from being written
  EXPECT_EQ(act("0", "load", "a").error_param(), "action");
  EXPECT_EQ(post("/slots/0", R"({"filename":"a"})").error_param(), "action");
  for (const std::string& name :
       {std::string(), std::string("a/b"), std::string(".."), std::string(".a"), std::string("a\\\\b"),
        std::string("a\\u0001"), std::string("a\\u007f"), std::string("C:a"), std::string(201, 'a')}) {
    for (const char* action : {"save", "restore"}) {
      const HttpAnswer answer = act("0", action, name);
      EXPECT_EQ(answer.error_param(), "filename") << action << name;
      EXPECT_EQ(answer.error_code(), "invalid_value") << action << name;
    }
  }
  EXPECT_EQ(act("0", "save", std::string(200, 'a')).status, 200);
  EXPECT_EQ(post("/slots/0?action=save", "{}").error_param(), "filename");
  EXPECT_EQ(post("/slots/0?action=save", "[]").status, 400);
  for (const char* slot : {"2", "-1", "x", "1x", "99999999999999999999"})
    EXPECT_EQ(act(slot, "save", "a").error_code(), "invalid_slot") << slot;
  EXPECT_EQ(act("0", "restore", "nowhere").error_code(), "slot_not_found");
}

TEST_F(SlotFiles, RefusesFilesThatItDidNotWrite) {
  complete("abcdef");
  ASSERT_EQ(act("0", "save", "good").status, 200);
  const Json good = Json::parse(text_of("good"));
  const auto with = [&](const char* name, Json value) {
    Json json = good;
    json[name] = std::move(value);
    return json.dump();
  };
  ASSERT_EQ(with("salt", ""), good.dump());
  put("salted", with("salt", "fE0a"));
  EXPECT_EQ(act("0", "restore", "salted").status, 200);
  EXPECT_EQ(engine_.last_request().cache_salt, "\xfe\n");
  put("same", good.dump());
  EXPECT_EQ(act("0", "restore", "same").status, 200);
  const int vocab = engine_.tokenizer().vocab_size();
  const auto tokens = [](size_t count, int token) { return Json(std::vector<int>(count, token)); };
  put("last", with("tokens", tokens(999, vocab - 1)));
  EXPECT_EQ(act("0", "restore", "last").status, 200);
  Json many_lengths = tokens(65, 1);
  const std::string bad[] = {"",
                             "{}",
                             "[1]",
                             text_of("good").substr(0, 40),
                             with("anabranch_slot", 1),
                             with("salt", "f"),
                             with("salt", "fg"),
                             with("model", "other"),
                             with("tokens", Json::array()),
                             with("tokens", {1, "a"}),
                             with("tokens", {1, -1}),
                             with("tokens", tokens(5, vocab)),
                             with("tokens", {1e300}),
                             with("tokens", tokens(1000, 1)),  // as long as the context
                             with("keep_at", {0}),
                             with("keep_at", {22}),
                             with("keep_at", many_lengths)};
  for (const std::string& text : bad) {
    put("bad", text);
    const HttpAnswer answer = act("1", "restore", "bad");
    EXPECT_EQ(answer.status, 400) << text.substr(0, 100);
    EXPECT_EQ(answer.error_code(), "invalid_slot_file") << answer.body;
  }
  fs::create_symlink(folder_ + "/good", folder_ + "/link");
  EXPECT_EQ(act("1", "restore", "link").error_code(), "slot_not_found");
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(act("1", "restore", "pipe").error_code(), "slot_not_found");
  put("large", good.dump());
  fs::resize_file(folder_ + "/large", (64u << 20) + 1);
  EXPECT_EQ(act("1", "restore", "large").error_code(), "invalid_slot_file");
  EXPECT_EQ(act("1", "save", "a").error_code(), "empty_slot");  // nothing of all this was restored
}

TEST_F(SlotFiles, LimitsTheNumberOfFiles) {
  complete("abc");
  ASSERT_EQ(act("0", "save", "mine").status, 200);
  for (int i = 1; i < 1024; i++) put("f" + std::to_string(i), "");
  EXPECT_EQ(act("0", "save", "one more").status, 400);
  EXPECT_EQ(act("0", "save", "mine").status, 200);
}

TEST_F(SlotFiles, EachKeyHasItsOwn) {
  begin_for({"ann", "bob"});
  as("ann", "/completion", R"({"prompt":"of ann","cache_salt":"s"})");
  const std::string salt = engine_.last_request().cache_salt;
  ASSERT_EQ(salt,
            "\xff"
            "ann\xff"
            "s");
  EXPECT_EQ(act_as("bob", "save", "b").error_code(), "empty_slot");
  EXPECT_EQ(as("bob", "/slots/0?action=erase", "").json()["n_erased"], 0);
  ASSERT_EQ(act_as("ann", "save", "a").status, 200);
  EXPECT_EQ(act_as("bob", "restore", "a").error_code(), "slot_not_found");
  EXPECT_EQ(act_as("ann", "restore", "a").status, 200);
  EXPECT_EQ(engine_.last_request().cache_salt, salt) << "byte for byte";

  const std::string text = text_of("a");
  as("bob", "/completion", R"({"prompt":"of bob"})");
  const HttpAnswer refused = act_as("bob", "save", "a");
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(refused.error_code(), "file_exists");
  EXPECT_EQ(text_of("a"), text);
  EXPECT_EQ(act_as("bob", "save", "b").status, 200);
  EXPECT_EQ(act_as("ann", "save", "a").status, 200) << "one's own is replaced";
}

TEST_F(SlotFiles, SaveReplacesNoOtherFiles) {
  complete("abc");
  put("notes", "mine");
  put("json", R"({"owner":""})");
  put("old", R"({"anabranch_slot":1,"owner":""})");
  fs::create_symlink(folder_ + "/nowhere", folder_ + "/link");
  fs::create_directory(folder_ + "/folder");
  for (const char* file : {"notes", "json", "old", "link", "folder"})
    EXPECT_EQ(act("0", "save", file).error_code(), "file_exists") << file;
  EXPECT_EQ(text_of("notes"), "mine");
  EXPECT_TRUE(fs::is_symlink(folder_ + "/link"));
  EXPECT_EQ(act("0", "save", "new").status, 200);
  EXPECT_EQ(act("0", "save", "new").status, 200);
}

TEST_F(SlotFiles, StrangersUseNone) {
  ServerOptions options;
  options.host = "0.0.0.0";
  begin(folder_, std::move(options));
  for (const char* action : {"save", "restore", "erase"}) {
    EXPECT_EQ(act("0", action, "a").status, 403) << action;
    EXPECT_EQ(act("0", action, "a").error_code(), "no_api_keys");
  }
}

TEST_F(SlotFiles, PromptsThatMustNotBeCachedAreNotKept) {
  complete("abc", R"(,"cache_prompt":false)");
  EXPECT_FALSE(engine_.last_request().name_states);
  EXPECT_EQ(act("0", "save", "a").error_code(), "empty_slot");
}

TEST_F(SlotFiles, DeletedConversationsLeaveTheirSlots) {
  FakeStates states;
  engine_.shared = &states;
  int longest = 9;
  engine_.script = [&](const Request& request) {
    Script script{{"Hello"}};
    if (request.name_states) script.states = {states.trace(longest), states.trace(3)};
    return script;
  };
  const std::string id = post("/v1/responses", R"({"input":"secret"})").json()["id"];
  longest = 12;  // of another conversation, which begins alike
  complete("other", R"(,"id_slot":1)");
  ASSERT_EQ(act("0", "save", "a").status, 200);
  ASSERT_EQ(ask(port_, "DELETE", "/v1/responses/" + id).status, 200);
  EXPECT_EQ(act("0", "save", "b").error_code(), "empty_slot");
  EXPECT_EQ(act("1", "save", "b").status, 200);
  server_.reset();
  engine_.shared = nullptr;
}

TEST_F(SlotFiles, ReadingCountsForTheKey) {
  ServerOptions options;
  options.api_keys = {
      {.key = "key-of-ann", .name = "ann", .concurrent = 1, .tokens_per_minute = 60, .priority = 7}};
  begin(folder_, std::move(options));
  as("ann", "/completion", R"({"prompt":"a"})");
  ASSERT_EQ(act_as("ann", "save", "a").status, 200);
  int priority = 0;
  engine_.script = [&](const Request& request) {
    priority = request.priority;
    return Script{.stuck = true};
  };
  {
    TestClient client(port_);
    client.send(
        http_request("POST", "/slots/0?action=restore", R"({"filename":"a"})", "x-api-key: key-of-ann\r\n"));
    ASSERT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.running == 1; }));
    EXPECT_EQ(act_as("ann", "restore", "a").status, 429) << "one at a time";
  }
  EXPECT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.running == 0; })) << "the client has left";
  EXPECT_EQ(priority, 7);
  engine_.script = [](const Request&) { return Script{{}}; };
  int status = 200;
  for (int i = 0; i < 10 && status == 200; i++) status = act_as("ann", "restore", "a").status;
  EXPECT_EQ(status, 429) << "the tokens are used up";
}

TEST_F(SlotFiles, ReadingEndsInTime) {
  ServerOptions options;
  options.request_timeout_s = 2;
  begin(folder_, std::move(options));
  complete("abc");
  ASSERT_EQ(act("0", "save", "a").status, 200);
  engine_.script = [](const Request&) { return Script{.stuck = true}; };
  EXPECT_EQ(act("1", "restore", "a").status, 504);
  EXPECT_TRUE(engine_.wait_for([](const EngineStats& s) { return s.running == 0; }));
  EXPECT_EQ(act("1", "save", "b").error_code(), "empty_slot");
}

TEST_F(SlotFiles, AFullDiskIsTold) {
  complete("abc");
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit few{16, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &few);
  const HttpAnswer answer = act("0", "save", "a");
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(answer.status, 507);
  EXPECT_EQ(answer.error_code(), "disk_full");
  EXPECT_EQ(answer.body.find(folder_), std::string::npos);
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_EQ(act("0", "save", "a").status, 200);
}

TEST_F(SlotFiles, ErrorsNameNoPath) {
  complete("abc");
  fs::remove_all(folder_);
  const HttpAnswer answer = act("0", "save", "a");
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.body.find(folder_), std::string::npos);
}

TEST_F(SlotFiles, OldPartsAreRemoved) {
  put(".slot-old", "x");
  put(".slot-new", "x");
  put(".other", "x");
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(2);
  for (const char* file : {"/.slot-old", "/.other"}) fs::last_write_time(folder_ + file, old);
  begin(folder_);
  EXPECT_FALSE(fs::exists(folder_ + "/.slot-old"));
  EXPECT_TRUE(fs::exists(folder_ + "/.slot-new")) << "another process may be writing it";
  EXPECT_TRUE(fs::exists(folder_ + "/.other"));
}

TEST_F(SlotFiles, AnEngineThatFailsRestoresNothing) {
  complete("abc");
  ASSERT_EQ(act("0", "save", "a").status, 200);
  engine_.script = [](const Request&) {
    Script script{{}};
    script.finish = FinishReason::error;
    script.error = "out of memory";
    return script;
  };
  engine_.max_queue = 0;
  EXPECT_EQ(act("1", "restore", "a").status, 429);
  EXPECT_EQ(act("1", "save", "b").error_code(), "empty_slot");
}

}  // namespace
}  // namespace anabranch::server
