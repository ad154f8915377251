// /v1/sessions, and the conversations of the Responses API on the same store.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <sstream>

#include "server/fake_states.h"
#include "server/server_fixture.h"
#include "slow.h"

namespace anabranch::server {
namespace {

class SessionsApi : public ServerTest {
 protected:
  Json made(const std::string& body = "{}") { return post("/v1/sessions", body).json(); }
  Json read(const std::string& id, const std::string& query = "") {
    return ask(port_, "GET", "/v1/sessions/" + id + query).json();
  }
  // "role:content" of each message, with a bar behind.
  std::string said(const Json& session) {
    std::string all;
    if (!session.contains("messages")) return session.dump();
    for (const Json& message : session["messages"])
      all += message["role"].get<std::string>() + ":" + message["content"].get<std::string>() + "|";
    return all;
  }
  // Without thoughts, unless the fields say otherwise.
  Json respond(const std::string& fields) {
    const bool thinks = fields.find("reasoning") != fields.npos;
    return post("/v1/responses", "{" + fields + (thinks ? "}" : R"(,"reasoning":{"effort":"none"}})")).json();
  }
  void says(std::vector<std::string> parts, FinishReason finish = FinishReason::stop) {
    engine_.script = [parts, finish](const Request&) { return Script{parts, {}, finish}; };
  }
  // Waits until the session says this, since it is stored in the background.
  bool comes_to_say(const std::string& id, const std::string& wanted) {
    for (int i = 0; i < 100 * kWaitSeconds; ++i) {
      if (said(read(id)) == wanted) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
};

TEST_F(SessionsApi, AreMadeListedChangedAndRemoved) {
  const Json first =
      made(R"({"title":"A","settings":{"x":1},"messages":[{"role":"user","content":"the Danube"},
    {"role":"assistant","content":[{"type":"text","text":"a river"}],"reasoning_content":"hm"}]})");
  const std::string id = first["id"];
  EXPECT_EQ(first["message_count"], 2);
  made(R"({"title":"B"})");
  const Json list = ask(port_, "GET", "/v1/sessions").json();
  ASSERT_EQ(list["data"].size(), 2u);
  EXPECT_EQ(list["data"][0]["title"], "B");
  EXPECT_EQ(list["last_id"], id);
  EXPECT_EQ(ask(port_, "GET", "/v1/sessions?limit=1").json()["has_more"], true);
  EXPECT_EQ(
      ask(port_, "GET", "/v1/sessions?after=" + list["first_id"].get<std::string>()).json()["data"].size(),
      1u);
  const Json found = ask(port_, "GET", "/v1/sessions?query=danube").json()["data"];
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0]["snippet"][1], Json({{"text", "Danube"}, {"match", true}}));
  const Json whole = read(id);
  EXPECT_EQ(said(whole), "user:the Danube|assistant:a river|");
  EXPECT_EQ(whole["messages"][1]["reasoning_content"], "hm");
  EXPECT_EQ(whole["messages"][1]["parent"], whole["messages"][0]["id"]);
  EXPECT_EQ(whole["head"], whole["messages"][1]["id"]);
  EXPECT_EQ(post("/v1/sessions/" + id, R"({"title":"C"})").json()["title"], "C");
  EXPECT_EQ(read(id)["settings"]["x"], 1);
  EXPECT_EQ(ask(port_, "DELETE", "/v1/sessions/" + id).json()["deleted"], true);
  EXPECT_EQ(ask(port_, "GET", "/v1/sessions/" + id).error_code(), "session_not_found");
}

TEST_F(SessionsApi, BranchesAndExports) {
  const Json session =
      made(R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a1"}]})");
  const std::string id = session["id"], question = read(id)["messages"][0]["id"], first = session["head"];
  const std::string place = R"("parent":")" + question + "\"";
  Json whole = post("/v1/sessions/" + id + "/messages",
                    "{" + place + R"(,"messages":[{"role":"assistant","content":"a2"}]})")
                   .json();
  EXPECT_EQ(said(whole), "user:q|assistant:a2|");
  EXPECT_EQ(whole["messages"][1]["siblings"].size(), 2u);
  EXPECT_EQ(said(read(id, "?head=" + first)), "user:q|assistant:a1|");
  EXPECT_EQ(post("/v1/sessions/" + id, R"({"head":")" + first + "\"}").json()["head"], first);
  const Json copy = post("/v1/sessions/" + id + "/branch", R"({"message":")" + question + "\"}").json();
  EXPECT_EQ(said(read(copy["id"])), "user:q|");
  const HttpAnswer lines = ask(port_, "GET", "/v1/sessions/" + id + "/export");
  EXPECT_EQ(lines.headers.at("content-type"), "application/jsonl; charset=utf-8");
  const Json again = post("/v1/sessions/import", Json{{"jsonl", lines.body}}.dump()).json();
  EXPECT_EQ(said(read(again["data"][0]["id"])), "user:q|assistant:a1|");
  EXPECT_EQ(ask(port_, "GET", "/v1/sessions/" + id + "/export?format=markdown").body.rfind("# q\n", 0), 0u);
}

TEST_F(SessionsApi, RefuseWhatIsWrong) {
  const std::string id = made()["id"];
  const auto expect = [&](const std::string& path, const std::string& body, int status, const char* param) {
    const HttpAnswer answer = post(path, body);
    EXPECT_EQ(answer.status, status) << path << body << answer.body;
    EXPECT_EQ(answer.error_param(), param) << answer.body;
  };
  expect("/v1/sessions", R"({"title":7})", 400, "title");
  expect("/v1/sessions", R"({"messages":[{"role":"robot","content":"x"}]})", 400, "messages");
  expect("/v1/sessions", R"({"messages":[{"role":"user","content":7}]})", 400, "messages");
  expect("/v1/sessions/" + id, R"({"head":"x"})", 400, "head");
  expect("/v1/sessions/" + id, R"({"head":"msg_99"})", 404, "");
  expect("/v1/sessions/" + id + "/branch", "{}", 400, "message");
  expect("/v1/sessions/" + id + "/messages", "{}", 400, "messages");
  expect("/v1/sessions/import", R"({"jsonl":"x"})", 400, "jsonl");
  expect("/v1/sessions/conv_x", "{}", 404, "");
  for (const char* query : {"?limit=0", "?limit=x", "?limit=1001", "?query=*"})
    EXPECT_EQ(ask(port_, "GET", std::string("/v1/sessions") + query).status, 400) << query;
  EXPECT_EQ(ask(port_, "GET", "/v1/sessions/" + id + "/export?format=pdf").status, 400);
  EXPECT_EQ(ask(port_, "GET", "/v1/sessions/" + id + "?head=x").status, 400);
}

TEST_F(SessionsApi, KeysOwnTheirSessions) {
  ServerOptions options;
  options.api_keys = {{"key-of-ann", "ann"}, {"key-of-bob", "bob"}};
  start(options);
  const auto as = [&](const char* key, const char* method, const std::string& path,
                      const std::string& body = "") {
    return ask(port_, method, path, body, std::string("Authorization: Bearer ") + key + "\r\n");
  };
  const std::string id = as("key-of-ann", "POST", "/v1/sessions", "{}").json()["id"];
  EXPECT_EQ(as("key-of-ann", "GET", "/v1/sessions/" + id).status, 200);
  EXPECT_EQ(as("key-of-bob", "GET", "/v1/sessions/" + id).status, 404);
  EXPECT_EQ(as("key-of-bob", "DELETE", "/v1/sessions/" + id).status, 404);
  EXPECT_TRUE(as("key-of-bob", "GET", "/v1/sessions").json()["data"].empty());
  EXPECT_EQ(
      as("key-of-bob", "POST", "/v1/responses", R"({"input":"hi","conversation":")" + id + "\"}").status,
      404);
  const std::string response = as("key-of-ann", "POST", "/v1/responses", R"({"input":"hi"})").json()["id"];
  EXPECT_EQ(as("key-of-bob", "GET", "/v1/responses/" + response).status, 404);
  EXPECT_EQ(
      as("key-of-bob", "POST", "/v1/responses", R"({"input":"x","previous_response_id":")" + response + "\"}")
          .status,
      404);
  EXPECT_EQ(as("key-of-ann", "GET", "/v1/responses/" + response).status, 200);
  EXPECT_EQ(ask(port_, "GET", "/v1/sessions").status, 401);
}

TEST_F(SessionsApi, MessagesComeInPages) {
  Json messages = Json::array();
  for (int i = 0; i < 5; ++i) messages.push_back({{"role", "user"}, {"content", std::to_string(i)}});
  const std::string id = made(Json{{"messages", messages}}.dump())["id"];
  const Json whole = read(id), last = read(id, "?limit=2");
  EXPECT_EQ(whole["has_more"], false);
  EXPECT_EQ(said(last), "user:3|user:4|");
  EXPECT_EQ(last["has_more"], true);
  const Json first = read(id, "?limit=3&before=" + last["messages"][0]["id"].get<std::string>());
  EXPECT_EQ(said(first), "user:0|user:1|user:2|");
  EXPECT_EQ(first["has_more"], false);
  for (const char* bad : {"?limit=0", "?limit=1001", "?limit=x", "?before=x"})
    EXPECT_EQ(ask(port_, "GET", "/v1/sessions/" + id + bad).status, 400) << bad;
  EXPECT_EQ(ask(port_, "GET", "/v1/sessions/" + id + "?before=msg_999").status, 404);
}

// More than a page is exported as a whole.
TEST_F(SessionsApi, LargeSessionsAreExportedWhole) {
  Json messages = Json::array();
  for (int i = 0; i < 2500; ++i) messages.push_back({{"role", "user"}, {"content", "m" + std::to_string(i)}});
  const std::string id = made(Json{{"title", "T"}, {"messages", messages}}.dump())["id"];
  EXPECT_EQ(read(id)["messages"].size(), 1000u);
  const std::string lines = ask(port_, "GET", "/v1/sessions/" + id + "/export").body;
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2501);
  EXPECT_TRUE(lines.starts_with(R"({"session":)"));
  EXPECT_LT(lines.find("\"m999\""), lines.find("\"m1501\""));
  EXPECT_LT(lines.find("\"m1501\""), lines.find("\"m2499\""));
  const std::string text = ask(port_, "GET", "/v1/sessions/" + id + "/export?format=markdown").body;
  EXPECT_EQ(text.find("# T"), 0u);
  EXPECT_EQ(text.find("# T", 1), text.npos);
}

// A file that cannot be used stays as it is, and the server answers without it.
TEST_F(SessionsApi, ADamagedFileIsToldAndLeft) {
  std::filesystem::create_directories(sessions_);
  const std::string file = session_file(sessions_), text(5000, 'x');
  { std::ofstream(file) << text; }
  ServerOptions options;
  options.sessions.directory = sessions_;
  options.sessions.keep_responses = true;
  start(options);
  EXPECT_EQ(ask(port_, "GET", "/v1/sessions").status, 500);
  EXPECT_NE(ask(port_, "GET", "/v1/sessions").body.find("sessions.db"), std::string::npos);
  const Json response = respond(R"("input":"hi")");
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(ask(port_, "GET", "/v1/responses/" + response["id"].get<std::string>()).status, 200)
      << "in memory";
  std::ostringstream now;
  now << std::ifstream(file).rdbuf();
  EXPECT_EQ(now.str(), text);
}

TEST_F(SessionsApi, ResponsesGoOnWithAConversation) {
  const std::string id = made()["id"], conversation = "\"conversation\":\"" + id + "\"";
  says({"<think>Hm.</think>", "One."});
  const Json first =
      respond(conversation + R"(,"input":"hi","instructions":"S","reasoning":{"effort":"high"})");
  EXPECT_EQ(first["conversation"]["id"], id);
  EXPECT_EQ(said(read(id)), "user:hi|assistant:One.|") << "instructions are not kept";
  const Json kept = read(id)["messages"];
  EXPECT_EQ(kept[1]["reasoning_content"], "Hm.");
  EXPECT_EQ(kept[1]["response_id"], first["id"]);
  EXPECT_EQ(kept[1]["status"], "completed");
  EXPECT_EQ(kept[1]["model"], "fake-1b");
  EXPECT_EQ(kept[1]["usage"]["output_tokens"], first["usage"]["output_tokens"]);
  EXPECT_EQ(kept[1]["cache_point"]["tokens"], first["usage"]["total_tokens"]);
  EXPECT_EQ(first["anabranch"]["message_ids"], Json::array({kept[0]["id"], kept[1]["id"]}));
  EXPECT_EQ(read(id)["title"], "hi");
  says({"Two."});
  const Json second = respond(conversation + R"(,"input":"more")");
  EXPECT_EQ(engine_.last_prompt(),
            "user: hi\nassistant: One.[reasoning_content=\"Hm.\"]\nuser: more\nassistant:");
  // Another answer to the same question, and another question in the place of the second one.
  says({"Other."});
  respond("\"conversation\":{\"id\":\"" + id + "\",\"parent\":" + kept[0]["id"].dump() + "},\"input\":[]");
  EXPECT_EQ(engine_.last_prompt(), "user: hi\nassistant:");
  EXPECT_EQ(said(read(id)), "user:hi|assistant:Other.|");
  respond("\"conversation\":{\"id\":\"" + id + "\",\"parent\":" + kept[1]["id"].dump() +
          "},\"input\":\"else\"");
  EXPECT_EQ(said(read(id)), "user:hi|assistant:One.|user:else|assistant:Other.|");
  respond("\"conversation\":{\"id\":\"" + id + "\",\"parent\":null},\"input\":\"new\"");
  EXPECT_EQ(said(read(id)), "user:new|assistant:Other.|");
  // A response's place is in the same tree.
  respond(R"("input":"after two","previous_response_id":)" + second["id"].dump());
  EXPECT_EQ(said(read(id)),
            "user:hi|assistant:One.|user:more|assistant:Two.|user:after two|assistant:Other.|");
  EXPECT_EQ(read(id)["message_count"], 11);
}

TEST_F(SessionsApi, WhatWasNotAnsweredIsNotKept) {
  const std::string id = made()["id"], conversation = "\"conversation\":\"" + id + "\"";
  EXPECT_EQ(post("/v1/responses", "{" + conversation + R"(,"input":"raise"})").status, 400);
  engine_.max_queue = 0;
  EXPECT_EQ(post("/v1/responses", "{" + conversation + R"(,"input":"hi"})").status, 429);
  EXPECT_TRUE(comes_to_say(id, ""));
  engine_.max_queue = 1000;
  engine_.script = [](const Request&) { return Script{{"x"}, {}, FinishReason::error, "broken"}; };
  const HttpAnswer failed = post("/v1/responses", "{" + conversation + R"(,"input":"hi","stream":true})");
  EXPECT_NE(failed.body.find("response.failed"), std::string::npos);
  EXPECT_TRUE(comes_to_say(id, "user:hi|assistant:x|")) << "what there was of the answer is kept";
  EXPECT_EQ(read(id)["messages"][1]["status"], "incomplete");
}

TEST_F(SessionsApi, ARequestThatFailedLeavesTheConversationWhereItWas) {
  const std::string id =
      made(R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]})")["id"];
  const std::string place = R"({"conversation":{"id":")" + id + "\"";
  engine_.max_queue = 0;
  EXPECT_EQ(post("/v1/responses", place + R"(},"input":"hi"})").status, 429);
  EXPECT_EQ(post("/v1/responses", place + R"(,"parent":null},"input":"hi"})").status, 429);
  EXPECT_TRUE(comes_to_say(id, "user:q|assistant:a|"));
}

// Another process writes into the file for longer than the request may take.
TEST_F(SessionsApi, AnAnswerThatIsBeingStoredIsNotLate) {
  const std::string id = made()["id"];
  std::unique_ptr<SQLite::Database> other;
  std::promise<void> begun;
  engine_.script = [&](const Request&) {
    other = std::make_unique<SQLite::Database>(session_file(sessions_), SQLite::OPEN_READWRITE);
    other->exec("BEGIN IMMEDIATE");
    begun.set_value();
    return Script{{"Kept."}};
  };
  auto answer = std::async(std::launch::async, [&] {
    return post("/v1/responses", R"({"conversation":")" + id + R"(","input":"hi","timeout":3})");
  });
  ASSERT_EQ(begun.get_future().wait_for(std::chrono::seconds(kWaitSeconds)), std::future_status::ready);
  EXPECT_EQ(answer.wait_for(std::chrono::milliseconds(3500)), std::future_status::timeout);
  other.reset();
  const HttpAnswer whole = answer.get();
  EXPECT_EQ(whole.status, 200) << whole.body;
  EXPECT_EQ(said(read(id)), "user:hi|assistant:Kept.|");
}

// Another process writes into the file until the client has left. A busy machine gets several tries, because
// a client that leaves before its storing has begun stores nothing.
TEST_F(SessionsApi, AQuestionWhoseClientLeftWhileItWasStoredIsTakenBack) {
  const std::string id = made()["id"];
  SQLite::Database other(session_file(sessions_), SQLite::OPEN_READWRITE);
  const auto version = [&] { return other.execAndGet("PRAGMA data_version").getInt(); };
  engine_.max_queue = 0;  // whoever stays is refused
  const auto is_stored = [&](int wait_ms) {
    const int before = version();
    other.exec("BEGIN IMMEDIATE");
    TestClient client(port_);
    client.send(http_request("POST", "/v1/responses", R"({"conversation":")" + id + R"(","input":"hi"})"));
    std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));  // its storing waits for the file now
    client.close();
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(ask(port_, "GET", "/v1/models").status, 200);  // the server knows it
    other.exec("ROLLBACK");
    for (int i = 0; i < 200 && version() == before; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return version() != before;
  };
  EXPECT_TRUE(is_stored(300) || is_stored(1000) || is_stored(3000));
  EXPECT_TRUE(comes_to_say(id, ""));
}

TEST_F(SessionsApi, StoredResponsesAreOnDiskOnlyWhenAsked) {
  says({"Kept?"});
  const std::string in_memory = respond("\"input\":\"hi\"")["id"];
  EXPECT_EQ(ask(port_, "GET", "/v1/responses/" + in_memory).status, 200);
  EXPECT_FALSE(std::filesystem::exists(sessions_)) << "nobody asked to keep anything";
  start({});
  EXPECT_EQ(ask(port_, "GET", "/v1/responses/" + in_memory).status, 404);
  ServerOptions options;
  options.sessions = {sessions_, true};
  start(options);
  const std::string kept = respond("\"input\":\"hi\"")["id"];
  EXPECT_TRUE(ask(port_, "GET", "/v1/sessions").json()["data"].empty());
  EXPECT_EQ(ask(port_, "GET", "/v1/sessions?all=true").json()["data"].size(), 1u);
  start(options);
  EXPECT_EQ(ask(port_, "GET", "/v1/responses/" + kept).json()["output"][0]["content"][0]["text"], "Kept?");
  respond(R"("input":"more","previous_response_id":")" + kept + "\"");
  EXPECT_EQ(engine_.last_prompt(), "user: hi\nassistant: Kept?\nuser: more\nassistant:");
}

// Those of the other clients are answered while the cache forgets.
TEST_F(SessionsApi, OnlyWhoDeletesWaitsForTheCache) {
  FakeStates states;
  engine_.shared = &states;
  const std::string id = made()["id"];
  ASSERT_TRUE((*SessionStore::open(sessions_, {}))->add_traces(id, std::vector{states.trace(7)}).ok());
  states.close();
  auto deleted = std::async([&] { return ask(port_, "DELETE", "/v1/sessions/" + id).status; });
  for (int i = 0; i < 100 * kWaitSeconds && states.entered == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  auto others = std::async(
      [&] { return made().contains("id") && ask(port_, "DELETE", "/v1/sessions/conv_none").status == 404; });
  EXPECT_EQ(others.wait_for(std::chrono::seconds(kWaitSeconds)), std::future_status::ready);
  EXPECT_EQ(deleted.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  states.open();
  EXPECT_TRUE(others.get());
  EXPECT_EQ(deleted.get(), 200);
  EXPECT_EQ(states.forgotten(), 1u);
  server_.reset();
}

TEST_F(SessionsApi, WhatRetentionDoesNotAllowGoesInTheBackground) {
  FakeStates states;
  engine_.shared = &states;
  ServerOptions options;
  options.sessions = {sessions_, false, {.bytes = 5000}};
  start(options);
  const std::string first = made()["id"];
  ASSERT_TRUE((*SessionStore::open(sessions_, {}))->add_traces(first, std::vector{states.trace(7)}).ok());
  const std::string message = R"({"messages":[{"role":"user","content":")" + std::string(4000, 'x') + "\"}]}";
  for (int i = 0; i < 3; ++i) post("/v1/sessions", message);
  for (int i = 0; i < 100 * kWaitSeconds && states.forgotten() == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(ask(port_, "GET", "/v1/sessions/" + first).status, 404);
  EXPECT_EQ(states.forgotten(), 1u) << "and what it left in the cache";
  server_.reset();
}

TEST_F(SessionsApi, CanBeTurnedOff) {
  ServerOptions options;
  options.sessions.directory = "/dev/null/x";
  start(options);
  EXPECT_EQ(post("/v1/sessions", "{}").status, 500);
  EXPECT_EQ(respond("\"input\":\"hi\"")["status"], "completed");
}

}  // namespace
}  // namespace anabranch::server
