// What the store owes to others than the one who asks: messages that are not theirs, limits that many small
// changes must not pass, and what must be on the disk.
#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "sessions/consent_store.h"
#include "sessions/session_store.h"

namespace anabranch {
namespace {

NewMessage user_says(const std::string& text) {
  return {{{"role", "user"}, {"content", text}}};
}

class SessionLimits : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(directory_);
    store_ = SessionStore::open(directory_, {}).value();
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }
  Session make(const std::string& owner, std::vector<NewMessage> messages = {}, bool listed = true) {
    NewSession session;
    session.owner = owner;
    session.messages = std::move(messages);
    session.listed = listed;
    return store_->create(session).value();
  }
  // In the file, beside the store.
  int64_t sql(const std::string& command) {
    SQLite::Database db(session_file(directory_), SQLite::OPEN_READWRITE, 5000);
    SQLite::Statement statement(db, command);
    return statement.executeStep() ? statement.getColumn(0).getInt64() : 0;
  }
  bool is_on_disk(const std::string& word) {
    for (const auto& file : std::filesystem::directory_iterator(directory_)) {
      std::ostringstream text;
      text << std::ifstream(file.path(), std::ios::binary).rdbuf();
      if (text.str().find(word) != std::string::npos) return true;
    }
    return false;
  }

  const std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / ("session_limits_" + std::to_string(::getpid()));
  std::unique_ptr<SessionStore> store_;
};

// The session is the caller's, the message is not.
TEST_F(SessionLimits, AMessageOfAnotherSessionIsNoPlaceInThisOne) {
  const Session hers = make("ann", {user_says("hers"), user_says("hers too")});
  const std::vector<Session> others = {make("bob", {user_says("his"), user_says("his too")}),
                                       make("ann", {user_says("of her other one")})};
  const Owner ann = "ann";
  const auto absent = [](const auto& result) {
    return !result.ok() && result.error().kind == ErrorKind::not_found;
  };
  for (const Session& other : others) {
    EXPECT_TRUE(absent(store_->path(ann, hers.id, other.head)));
    EXPECT_TRUE(absent(store_->page(ann, hers.id, other.head, kNoMessage, 10)));
    EXPECT_TRUE(absent(store_->page(ann, hers.id, {}, other.head, 10)));
    EXPECT_TRUE(absent(store_->branch(ann, hers.id, other.head, "mine now")));
    EXPECT_TRUE(absent(store_->change(ann, hers.id, {.head = other.head})));
    EXPECT_TRUE(absent(store_->append(ann, hers.id, other.head, std::vector{user_says("x")})));
  }
  EXPECT_EQ(store_->path(ann, hers.id)->size(), 2u) << "it is as it was";
  EXPECT_EQ(store_->list({.owner = ann})->sessions.size(), 2u);
  // Nor is anything else of another owner's session within reach.
  const std::string& id = others[0].id;
  EXPECT_TRUE(absent(store_->page(ann, id, {}, kNoMessage, 10)));
  EXPECT_TRUE(absent(store_->branch(ann, id, others[0].head, "")));
  ASSERT_TRUE(store_->put_response({"resp_1", id, others[0].head, Json::object(), Json::array()}).ok());
  EXPECT_TRUE(absent(store_->find_response(ann, "resp_1")));
  EXPECT_TRUE(absent(store_->erase_response(ann, "resp_1")));
  EXPECT_TRUE(store_->find_response("bob", "resp_1").ok());
}

TEST_F(SessionLimits, OfTooManyUnlistedSessionsTheOldestGo) {
  store_ = SessionStore::open("", {}).value();
  NewSession unlisted;
  unlisted.listed = false;
  const std::vector<NewSession> many(SessionStore::kMaxUnlisted + 3, unlisted);
  const auto made = store_->create_all(many).value();
  EXPECT_EQ(*store_->prune(), 3);
  for (const size_t oldest : {0, 1, 2}) EXPECT_FALSE(store_->find({}, made[oldest].id).ok()) << oldest;
  EXPECT_TRUE(store_->find({}, made[3].id).ok());
  EXPECT_TRUE(store_->find({}, made.back().id).ok());
}

TEST_F(SessionLimits, OneResponseOfSeveralGoesAlone) {
  const Session session = make("", {user_says("a")}, false);
  for (const char* id : {"resp_1", "resp_2"})
    ASSERT_TRUE(store_->put_response({id, session.id, session.head, Json::object(), Json::array()}).ok());
  ASSERT_TRUE(store_->erase_response({}, "resp_1").ok());
  EXPECT_TRUE(store_->find({}, session.id).ok());
  EXPECT_TRUE(store_->find_response({}, "resp_2").ok());
}

TEST_F(SessionLimits, ASessionHoldsSoManyMessagesHoweverFewComeAtATime) {
  const Session session = make("", {user_says("a")});
  sql("UPDATE sessions SET messages = " + std::to_string(SessionStore::kMaxMessages - 1));
  EXPECT_TRUE(store_->append({}, session.id, {}, std::vector{user_says("the last")}).ok());
  EXPECT_EQ(store_->append({}, session.id, {}, std::vector{user_says("x")}).error().kind, ErrorKind::invalid);
}

TEST_F(SessionLimits, ASessionNotesSoManyTracesHoweverFewComeAtATime) {
  const Session session = make("");
  sql("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < " +
      std::to_string(SessionStore::kMaxTraces - 1) + ") INSERT INTO traces SELECT '" + session.id +
      "', 'trace_' || i, 0 FROM n");
  ASSERT_TRUE(store_->add_traces(session.id, std::vector<std::string>{"a", "b", "c"}).ok());
  EXPECT_EQ(sql("SELECT count(*) FROM traces"), SessionStore::kMaxTraces);
}

TEST_F(SessionLimits, OldSessionsGoByThemselvesWhenManySmallOnesCome) {
  store_ = SessionStore::open("", {.bytes = 16'000}).value();
  for (int i = 0; i < 60; ++i) make("", {user_says(std::string(500, 'x'))});
  EXPECT_LT(store_->list({.limit = 100})->sessions.size(), 20u);
}

TEST_F(SessionLimits, OldSessionsGoByThemselvesWhenManyResponsesAreStored) {
  store_ = SessionStore::open("", {.bytes = 640'000}).value();
  for (int i = 0; i < 40; ++i) {
    const Session session = make("", {user_says("a")}, false);
    const std::string id = "resp_" + std::to_string(i);
    ASSERT_TRUE(
        store_->put_response({id, session.id, session.head, {{"x", std::string(32'000, 'x')}}, Json::array()})
            .ok());
  }
  EXPECT_FALSE(store_->find_response({}, "resp_0").ok());
  EXPECT_TRUE(store_->find_response({}, "resp_39").ok());
}

TEST_F(SessionLimits, WhatCouldNotBeOverwrittenAtOnceIsOverwrittenLater) {
  const Session session = make("", {user_says("aardvark")});
  ASSERT_TRUE(store_->erase({}, session.id).ok());
  sql("ALTER TABLE words RENAME TO elsewhere");
  EXPECT_FALSE(store_->upkeep().ok());
  sql("ALTER TABLE elsewhere RENAME TO words");
  EXPECT_TRUE(is_on_disk("aardvark"));
  EXPECT_TRUE(store_->upkeep().ok());
  EXPECT_FALSE(is_on_disk("aardvark"));
}

// ---- what a store asks of SQLite

std::vector<sqlite3*> opened;

int note_connection(sqlite3* db, const char**, const sqlite3_api_routines*) {
  opened.push_back(db);
  return SQLITE_OK;
}

std::string pragma(sqlite3* db, const char* name) {
  std::string value;
  const auto take = [](void* to, int, char** columns, char**) {
    *static_cast<std::string*>(to) = columns[0] ? columns[0] : "";
    return 0;
  };
  sqlite3_exec(db, (std::string("PRAGMA ") + name).c_str(), take, &value, nullptr);
  return value;
}

// No test can take the power away. This is what keeps acknowledged messages then.
TEST_F(SessionLimits, WhatIsAcknowledgedSurvivesALossOfPower) {
  store_.reset();
  opened.clear();
  const auto hook = reinterpret_cast<void (*)()>(note_connection);
  ASSERT_EQ(sqlite3_auto_extension(hook), SQLITE_OK);
  store_ = SessionStore::open(directory_, {}).value();
  const auto consent = ConsentStore::open((directory_ / "consent.db").string()).value();
  sqlite3_cancel_auto_extension(hook);
  ASSERT_EQ(opened.size(), 5u) << "a writer and three readers of sessions, and the approvals";
  for (sqlite3* db : opened) EXPECT_EQ(pragma(db, "journal_mode"), "wal");
  constexpr const char* kFull = "2";
  EXPECT_EQ(pragma(opened.front(), "synchronous"), kFull);
  EXPECT_EQ(pragma(opened.front(), "secure_delete"), "1");
  EXPECT_EQ(pragma(opened.back(), "synchronous"), kFull) << "an approval that was used stays used";
  for (int reader = 1; reader <= 3; ++reader)
    EXPECT_EQ(pragma(opened[static_cast<size_t>(reader)], "query_only"), "1");
}

TEST_F(SessionLimits, ACopyKeepsItsTimesAndClaimsNoResponse) {
  const Session first =
      make("ann", {user_says("x"), {{{"role", "assistant"}, {"content", "y"}}, {{"response_id", "resp_1"}}}});
  sql("UPDATE messages SET created_at = 1000");
  const auto copy = store_->branch("ann", first.id, first.head, "copy");
  ASSERT_TRUE(copy.ok()) << copy.error().message;
  const auto messages = *store_->path("ann", copy->id);
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].created_at, 1000);
  EXPECT_FALSE(messages[1].about.contains("response_id"));
}

TEST_F(SessionLimits, AnErasedResponseIsGoneFromTheFile) {
  const Session session = make("ann", {user_says("x")});
  for (const char* word : {"xylophonist", "trombonist"})
    ASSERT_TRUE(store_->put_response({word, session.id, session.head, {{"x", word}}, Json::array()}).ok());
  ASSERT_TRUE(is_on_disk("xylophonist"));
  ASSERT_TRUE(store_->erase_response("ann", "xylophonist").ok());
  ASSERT_TRUE(store_->upkeep().ok());
  EXPECT_FALSE(is_on_disk("xylophonist"));
  EXPECT_TRUE(is_on_disk("trombonist"));
}

TEST_F(SessionLimits, ChangesThatLeaveTheSizeLeaveTheCount) {
  const Session session = make("ann", {user_says("x")});
  const auto change = [&](const char* word) {
    return store_->change("ann", session.id, {.settings = Json{{"word", word}}})->bytes;
  };
  const int64_t bytes = change("aaaa");
  for (const char* word : {"bbbb", "cccc", "dddd"}) EXPECT_EQ(change(word), bytes);
  EXPECT_EQ(change("ddddd"), bytes + 1);
}

TEST_F(SessionLimits, OnlyATitleListsASession) {
  const Session hidden = make("ann", {user_says("x")}, false);
  ASSERT_TRUE(store_->change("ann", hidden.id, {.settings = Json{{"a", 1}}}).ok());
  EXPECT_EQ(store_->list({.owner = "ann"})->sessions.size(), 0u);
  ASSERT_TRUE(store_->change("ann", hidden.id, {.title = "mine"}).ok());
  EXPECT_EQ(store_->list({.owner = "ann"})->sessions.size(), 1u);
}

TEST_F(SessionLimits, LongTextsAreCutBetweenCharacters) {
  std::string accents;
  for (int i = 0; i < 200'000; i++) accents += "é";
  const std::string text = "x" + accents;
  const Session session = make("ann", {user_says(text)});
  EXPECT_EQ(store_->path("ann", session.id)->at(0).message["content"], text);
  EXPECT_EQ(session.title, "x" + accents.substr(0, 58) + "…");
  EXPECT_EQ(make("ann", {user_says("An " + accents)}).title, "An " + accents.substr(0, 56) + "…")
      << "an early space is no place to end";
}

TEST_F(SessionLimits, AFileOfANewerVersionIsLeftAlone) {
  make("ann");
  store_.reset();
  sql("PRAGMA user_version = 2");
  const auto opened = SessionStore::open(directory_, {});
  ASSERT_FALSE(opened.ok());
  EXPECT_EQ(opened.error().kind, ErrorKind::unsupported) << opened.error().message;
}

TEST_F(SessionLimits, ASearchOfTitlesSaysThatThereAreMore) {
  for (const char* title : {"Vienna", "Vienna again"})
    ASSERT_TRUE(store_->change("ann", make("ann").id, {.title = title}).ok());
  const auto found = [&](int limit) {
    return *store_->list({.owner = "ann", .limit = limit, .text = "vienna"});
  };
  EXPECT_TRUE(found(1).more);
  EXPECT_EQ(found(1).sessions.size(), 1u);
  EXPECT_FALSE(found(2).more);
}

TEST_F(SessionLimits, ASessionBeginsWithNoMoreMessagesThanItHolds) {
  NewSession session;
  session.messages.assign(static_cast<size_t>(SessionStore::kMaxMessages) + 1, user_says("x"));
  const auto made = store_->create(session);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().kind, ErrorKind::invalid);
}

}  // namespace
}  // namespace anabranch
