// An approval counts for what was asked, once, for whom it was asked.
#include "sessions/consent_store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "temp_dir.h"

namespace anabranch {
namespace {

using Verdict = ConsentStore::Verdict;

const ConsentQuestion kAsked{"alice", "call_1", "files", "write", R"({"path":"a"})", "Writes a file."};

ConsentQuestion with(std::string ConsentQuestion::*part, const char* value) {
  ConsentQuestion other = kAsked;
  other.*part = value;
  return other;
}

class ConsentStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<ConsentStore> open() { return ConsentStore::open(path_).value(); }

  const testing::TempDir directory_;
  const std::string path_ = directory_.file("consent.db");
};

TEST_F(ConsentStoreTest, WhatWasAskedIsGrantedOnceAlsoAfterARestart) {
  open()->ask(kAsked);
  EXPECT_EQ(open()->approve(kAsked), Verdict::granted);
  const auto store = open();
  EXPECT_EQ(store->approve(kAsked), Verdict::not_asked);
  EXPECT_EQ((std::filesystem::status(path_).permissions() & std::filesystem::perms::all),
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(ConsentStoreTest, NothingElseIsGranted) {
  const auto store = open();
  EXPECT_EQ(store->approve(kAsked), Verdict::not_asked);
  store->ask(kAsked);
  EXPECT_EQ(store->approve(with(&ConsentQuestion::owner, "bob")), Verdict::not_asked);
  EXPECT_EQ(store->approve(with(&ConsentQuestion::call, "call_2")), Verdict::not_asked);
  EXPECT_EQ(store->approve(with(&ConsentQuestion::server, "shell")), Verdict::other_call);
  EXPECT_EQ(store->approve(with(&ConsentQuestion::tool, "erase")), Verdict::other_call);
  EXPECT_EQ(store->approve(with(&ConsentQuestion::arguments, R"({"path":"b"})")), Verdict::other_call);
  EXPECT_EQ(store->approve(with(&ConsentQuestion::shown, "Publishes a file.")), Verdict::changed_tool);
  EXPECT_EQ(store->approve(kAsked), Verdict::granted);  // the attempts have not used it up
}

TEST_F(ConsentStoreTest, EachQuestionIsAnsweredByItself) {
  const auto store = open();
  const ConsentQuestion other = with(&ConsentQuestion::call, "call_2"),
                        third = with(&ConsentQuestion::call, "call_3");
  for (const ConsentQuestion& one : {kAsked, other, third}) store->ask(one);
  EXPECT_EQ(store->approve(kAsked), Verdict::granted);
  store->decline("alice", "call_2");
  EXPECT_EQ(store->approve(other), Verdict::not_asked);
  EXPECT_EQ(store->approve(third), Verdict::granted);
}

// Parts of a question that only together have the same text.
TEST_F(ConsentStoreTest, PartsAreToldApart) {
  const auto store = open();
  store->ask({"alice", "call_1", "ab", "c", "{}", ""});
  EXPECT_EQ(store->approve({"alice", "call_1", "a", "bc", "{}", ""}), Verdict::other_call);
}

TEST_F(ConsentStoreTest, AToolThatChangesIsToldUntilItIsApprovedAnew) {
  const auto store = open();
  EXPECT_FALSE(store->has_changed("alice", "files", "write", "Writes a file."));
  EXPECT_FALSE(store->has_changed("alice", "files", "write", "Writes a file."));
  EXPECT_TRUE(store->has_changed("alice", "files", "write", "Publishes a file."));
  EXPECT_TRUE(open()->has_changed("alice", "files", "write", "Publishes a file."));
  EXPECT_FALSE(store->has_changed("bob", "files", "write", "Publishes a file."));
  EXPECT_FALSE(store->has_changed("alice", "shell", "write", "Publishes a file."));
  const ConsentQuestion now = with(&ConsentQuestion::shown, "Publishes a file.");
  store->ask(now);
  EXPECT_TRUE(store->has_changed("alice", "files", "write", "Publishes a file."));
  EXPECT_EQ(store->approve(now), Verdict::granted);
  EXPECT_FALSE(store->has_changed("alice", "files", "write", "Publishes a file."));
  EXPECT_TRUE(store->has_changed("alice", "files", "write", "Writes a file."));
}

TEST_F(ConsentStoreTest, ManyQuestionsOfOneOwnerLeaveThoseOfAnother) {
  const auto store = open();
  const ConsentQuestion oldest = {"bob", "oldest", "files", "write", "{}", "Writes a file."};
  store->ask(kAsked);
  store->ask(oldest);
  SQLite::Database(path_, SQLite::OPEN_READWRITE, 1000)
      .exec(
          "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 9999) INSERT INTO "
          "questions SELECT 'bob', 'call_' || i, digest, shown, at + i FROM questions, n WHERE call = "
          "'oldest'");
  ConsentQuestion newest = oldest;
  newest.call = "newest";
  store->ask(newest);
  EXPECT_EQ(store->approve(oldest), Verdict::not_asked);
  EXPECT_EQ(store->approve(newest), Verdict::granted);
  EXPECT_EQ(store->approve(kAsked), Verdict::granted);
}

// What another key, or another server, makes known pushes nothing out; what is used stays.
TEST_F(ConsentStoreTest, ManyToolsPushOutTheLeastUsedOfTheirServerOnly) {
  const auto store = ConsentStore::open("").value();
  EXPECT_FALSE(store->has_changed("alice", "files", "write", "Writes."));
  EXPECT_FALSE(store->has_changed("bob", "shell", "run", "Runs."));
  EXPECT_FALSE(store->has_changed("bob", "files", "used", "Used."));
  EXPECT_FALSE(store->has_changed("bob", "files", "unused", "Unused."));
  for (int i = 0; i < 1100; ++i) {
    store->has_changed("bob", "files", "tool_" + std::to_string(i), "A tool.");
    if (i % 100 == 0) {
      EXPECT_FALSE(store->has_changed("bob", "files", "used", "Used.")) << i;
    }
  }
  EXPECT_TRUE(store->has_changed("alice", "files", "write", "Erases."));
  EXPECT_TRUE(store->has_changed("bob", "shell", "run", "Erases."));
  EXPECT_TRUE(store->has_changed("bob", "files", "used", "Erases."));
  EXPECT_FALSE(store->has_changed("bob", "files", "unused", "Erases.")) << "forgotten, so new";
}

TEST_F(ConsentStoreTest, QuestionsEndWhenTheyAreDeclinedOrOld) {
  const auto store = open();
  store->ask(kAsked);
  store->decline("bob", kAsked.call);
  store->decline("alice", kAsked.call);
  EXPECT_EQ(store->approve(kAsked), Verdict::not_asked);
  store->ask(kAsked);
  store->ask(with(&ConsentQuestion::call, "call_2"));
  SQLite::Database db(path_, SQLite::OPEN_READWRITE, 1000);
  db.exec("UPDATE questions SET at = at - 8 * 86400 * 1000000000 WHERE call = 'call_1'");
  EXPECT_EQ(store->approve(kAsked), Verdict::not_asked);
  EXPECT_EQ(store->approve(with(&ConsentQuestion::call, "call_2")), Verdict::granted);
  open();
  EXPECT_EQ(db.execAndGet("SELECT count(*) FROM questions").getInt(), 0) << "removed when the file is opened";
}

TEST_F(ConsentStoreTest, ManyProcessesMayOpenANewFile) {
  for (int round = 0; round < 20; ++round) {
    TearDown();
    std::vector<std::thread> threads;
    std::atomic<int> opened = 0;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&] {
        const auto store = ConsentStore::open(path_);
        opened += store.ok();
        if (!store) ADD_FAILURE() << store.error().message;
      });
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(opened, 4);
  }
}

TEST_F(ConsentStoreTest, ADamagedFileIsAnError) {
  std::ofstream(path_) << "this is no database, however long one reads in it, and it has some hundred bytes";
  EXPECT_FALSE(ConsentStore::open(path_).ok());
}

TEST_F(ConsentStoreTest, AFileOfAnotherVersionIsLeftAlone) {
  open();
  SQLite::Database(path_, SQLite::OPEN_READWRITE).exec("PRAGMA user_version = 2");
  EXPECT_FALSE(ConsentStore::open(path_).ok());
}

}  // namespace
}  // namespace anabranch
