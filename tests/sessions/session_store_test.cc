// The store of sessions: messages in branches, lists, searches, responses, limits.

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <sstream>
#include <thread>

#include "sessions/session_store_fixture.h"

namespace anabranch {
namespace {

TEST_F(Sessions, KeepWhatTheyWereGiven) {
  NewSession session;
  session.settings = {{"temperature", 0.5}};
  session.messages = {says("system", "S"),
                      says("user", "  What is\nthis? "),
                      {{{"role", "assistant"},
                        {"content", "An\0swer"},
                        {"reasoning_content", "Hm."},
                        {"tool_calls", Json::array({{{"id", "c1"}}})}},
                       {{"model", "m"}, {"usage", {{"output_tokens", 3}}}}}};
  const Session made = *store_->create(session);
  EXPECT_EQ(made.title, "What is");
  EXPECT_EQ(made.model, "m");
  EXPECT_EQ(made.messages, 3);
  EXPECT_EQ(made.settings["temperature"], 0.5);
  EXPECT_GT(made.bytes, 0);
  store_ = open();  // as after a restart
  const auto path = *store_->path({}, made.id);
  ASSERT_EQ(path.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(path[i].message, session.messages[i].message) << i;
    EXPECT_EQ(path[i].about, session.messages[i].about) << i;
    EXPECT_EQ(path[i].parent, i == 0 ? kNoMessage : path[i - 1].id);
    EXPECT_EQ(path[i].siblings, std::vector<MessageId>{path[i].id});
  }
  EXPECT_EQ(store_->find({}, made.id)->head, path[2].id);
}

TEST_F(Sessions, LongTitlesEndAtAWord) {
  const Session words = make("");
  add(words.id, says("user", std::string("one two three four five six seven eight nine ten eleven twelve")));
  EXPECT_EQ(store_->find({}, words.id)->title, "one two three four five six seven eight nine ten eleven…");
  const Session letters = make("");
  std::string umlauts;
  for (int i = 0; i < 60; ++i) umlauts += "ä";
  add(letters.id, says("user", umlauts));
  EXPECT_EQ(store_->find({}, letters.id)->title, umlauts.substr(0, 60) + "…");
}

TEST_F(Sessions, BranchesStandBesideEachOther) {
  const Session session = make("t");
  const MessageId question = add(session.id, says("user", "q1")),
                  first = add(session.id, says("assistant", "a1"));
  const MessageId second = add(session.id, says("assistant", "a2"), question);
  EXPECT_EQ(texts(session.id), "q1|a2|");
  EXPECT_EQ(texts(session.id, first), "q1|a1|");
  EXPECT_EQ(store_->path({}, session.id)->back().siblings, (std::vector<MessageId>{first, second}));
  add(session.id, says("user", "q2"), first);
  const MessageId leaf = add(session.id, says("assistant", "a3"));
  ASSERT_TRUE(store_->change({}, session.id, {.head = second}).ok());
  EXPECT_EQ(texts(session.id), "q1|a2|");
  ASSERT_TRUE(store_->change({}, session.id, {.head = first}).ok());
  EXPECT_EQ(texts(session.id), "q1|a1|q2|a3|") << "the newest leaf below";
  EXPECT_EQ(store_->find({}, session.id)->head, leaf);
  add(session.id, says("user", "other beginning"), kNoMessage);
  EXPECT_EQ(texts(session.id), "other beginning|");
  EXPECT_EQ(store_->change({}, session.id, {.head = 999}).error().kind, ErrorKind::not_found);
  EXPECT_EQ(store_->append({}, session.id, 999, std::vector{says("user", "x")}).error().kind,
            ErrorKind::not_found);

  const Session copy = *store_->branch({}, session.id, first, "");
  EXPECT_EQ(copy.title, "t");
  EXPECT_EQ(texts(copy.id), "q1|a1|");
  const Session other = make("other");
  EXPECT_EQ(store_->append({}, other.id, first, std::vector{says("user", "x")}).error().kind,
            ErrorKind::not_found)
      << "a message of another session";
}

TEST_F(Sessions, TheLastAppendCanBeTakenBack) {
  const Session session = make("t");
  const MessageId first = add(session.id, says("user", "one"));
  const Session before = *store_->find({}, session.id);
  const auto ids =
      *store_->append({}, session.id, {}, std::vector{says("assistant", "two"), says("user", "three")});
  ASSERT_TRUE(store_->take_back(session.id, ids, first).ok());
  const Session after = *store_->find({}, session.id);
  EXPECT_EQ(texts(session.id), "one|");
  EXPECT_EQ(after.head, first);
  EXPECT_EQ(after.bytes, before.bytes);
  EXPECT_EQ(after.messages, 1);
  const auto more = *store_->append({}, session.id, {}, std::vector{says("assistant", "two")});
  add(session.id, says("user", "below"));
  ASSERT_TRUE(store_->take_back(session.id, more, first).ok());
  EXPECT_EQ(texts(session.id), "one|two|below|") << "what has something below it stays";
  const MessageId head = store_->find({}, session.id)->head;
  const auto edit = *store_->append({}, session.id, first, std::vector{says("assistant", "other")});
  ASSERT_TRUE(store_->take_back(session.id, edit, head).ok());
  EXPECT_EQ(texts(session.id), "one|two|below|") << "the head is where it was";
}

TEST_F(Sessions, ListsAreByTheLastChangeAndHavePages) {
  std::vector<Session> made;
  for (int i = 0; i < 5; ++i) made.push_back(make("t" + std::to_string(i)));
  add(made[1].id, says("user", "newest"));
  EXPECT_EQ(titles({}), (std::vector<std::string>{"t1", "t4", "t3", "t2", "t0"}));
  const auto page = *store_->list({.limit = 2});
  EXPECT_TRUE(page.more);
  EXPECT_EQ(titles({.limit = 2, .after = page.sessions.back().id}), (std::vector<std::string>{"t3", "t2"}));
  EXPECT_FALSE(store_->list({.limit = 5})->more);
  EXPECT_EQ(store_->list({.after = "conv_none"}).error().kind, ErrorKind::not_found);
}

TEST_F(Sessions, OwnersSeeTheirOwn) {
  const Session ann = make("of ann", "ann"), bob = make("of bob", "bob");
  EXPECT_EQ(titles({.owner = "ann"}), std::vector<std::string>{"of ann"});
  EXPECT_EQ(titles({}).size(), 2u);
  const Owner owner = "ann";
  EXPECT_EQ(store_->find(owner, bob.id).error().kind, ErrorKind::not_found);
  EXPECT_EQ(store_->path(owner, bob.id).error().kind, ErrorKind::not_found);
  EXPECT_EQ(store_->change(owner, bob.id, {.title = "mine"}).error().kind, ErrorKind::not_found);
  EXPECT_EQ(store_->erase(owner, bob.id).error().kind, ErrorKind::not_found);
  EXPECT_EQ(store_->append(owner, bob.id, {}, std::vector{says("user", "x")}).error().kind,
            ErrorKind::not_found);
  EXPECT_EQ(store_->list({.owner = owner, .after = bob.id}).error().kind, ErrorKind::not_found);
  add(bob.id, says("user", "secret words"));
  EXPECT_TRUE(titles({.owner = owner, .text = "secret"}).empty());
}

TEST_F(Sessions, SearchesFindWordsAndTitles) {
  const Session rivers = make("Rivers"), cakes = make("Cakes");
  add(rivers.id, says("user", "The Danube flows through Vienna; naïve question"));
  add(rivers.id, says("assistant", "It ends in the Black Sea, far from where the Danube begins."));
  add(cakes.id, says("user", "Sachertorte of Vienna \"quoted\" AND OR NOT * ( ) 100%_done"));
  EXPECT_EQ(titles({.text = "danube"}), std::vector<std::string>{"Rivers"});
  EXPECT_EQ(titles({.text = "vienna"}), (std::vector<std::string>{"Cakes", "Rivers"}));
  EXPECT_EQ(titles({.text = "dan"}), std::vector<std::string>{"Rivers"}) << "the beginning of a word";
  EXPECT_EQ(titles({.text = "naive"}), std::vector<std::string>{"Rivers"});
  EXPECT_EQ(titles({.text = "cake"}), std::vector<std::string>{"Cakes"}) << "a part of a title";
  EXPECT_EQ(titles({.text = "danube torte"}).size(), 0u) << "all words must be there";
  EXPECT_EQ(titles({.text = "d"}).size(), 0u) << "a letter is a word, not the beginning of one";
  make("a_b"), make("a1b");
  EXPECT_EQ(titles({.text = "a_b"}), std::vector<std::string>{"a_b"});
  for (const char* odd : {"\"quoted\"", "AND", "NOT", "100%_done", "( quoted )", "text:quoted", "a* OR b"})
    EXPECT_TRUE(store_->list({.text = odd}).ok()) << odd;
  EXPECT_EQ(store_->list({.text = " *\"( "}).error().kind, ErrorKind::invalid);
  const auto found = store_->list({.text = "danube"})->sessions.front().snippet;
  std::string whole, matches;
  for (const SnippetPart& part : found) (whole += part.text), matches += part.match ? part.text + "|" : "";
  EXPECT_EQ(matches, "Danube|") << whole;
  EXPECT_NE(whole.find("Black Sea"), whole.npos) << "of the newest message";
  EXPECT_TRUE(store_->list({.limit = 1, .text = "vienna"})->more);
}

TEST_F(Sessions, ErasedTextIsGoneFromTheFile) {
  const Session keep = make("keep"), drop = make("drop");
  add(keep.id, says("user", "harmless"));
  for (int i = 0; i < 50; ++i) add(drop.id, says("user", "xylophonist quarreled " + std::to_string(i)));
  ASSERT_TRUE(store_->put_response({"resp_1", drop.id, 2, {{"x", "xylophonist"}}, Json::array()}).ok());
  ASSERT_NE(bytes_on_disk().find("xylophonist"), std::string::npos);
  ASSERT_TRUE(store_->erase({}, drop.id).ok());
  ASSERT_TRUE(store_->scrub().ok());
  EXPECT_EQ(bytes_on_disk().find("xylophonist"), std::string::npos);
  EXPECT_EQ(bytes_on_disk().find("ylophonist"), std::string::npos) << "in the index of words, too";
  EXPECT_EQ(store_->find_response({}, "resp_1").error().kind, ErrorKind::not_found);
  EXPECT_EQ(texts(keep.id), "harmless|");
  EXPECT_TRUE(titles({.text = "quarreled"}).empty());
}

TEST_F(Sessions, FilesAreTheirOwnersOnly) {
  make("t");
  for (const auto& file : std::filesystem::directory_iterator(directory_)) {
    struct stat info {};
    ASSERT_EQ(stat(file.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u) << file.path();
  }
  struct stat info {};
  stat(directory_.c_str(), &info);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
}

TEST_F(Sessions, RetentionRemovesTheOldest) {
  std::vector<Session> made;
  for (int i = 0; i < 4; ++i) {
    made.push_back(make("t" + std::to_string(i)));
    add(made.back().id, says("user", std::string(1000, 'x')));
  }
  store_.reset();
  store_ = open({.bytes = 3500});
  EXPECT_EQ(titles({}), (std::vector<std::string>{"t3", "t2", "t1"})) << "the newest does not count";
  add(made[3].id, says("user", std::string(5000, 'x')));
  ASSERT_EQ(*store_->prune(), 0);
  EXPECT_EQ(titles({}).size(), 3u) << "nor when it is large";
  store_.reset();
  store_ = open({.days = 1.0 / 86400});
  EXPECT_EQ(titles({}).size(), 3u) << "not older than a second";
  SQLite::Database(session_file(directory_), SQLite::OPEN_READWRITE, 1000)
      .exec("UPDATE sessions SET updated_at = updated_at - 5");
  EXPECT_EQ(*store_->prune(), 3);
  EXPECT_TRUE(titles({}).empty());
}

TEST_F(Sessions, RetentionIsOfDays) {
  make("old"), make("older");
  SQLite::Database(session_file(directory_), SQLite::OPEN_READWRITE, 1000)
      .exec("UPDATE sessions SET updated_at = updated_at - iif(title = 'old', 47, 49) * 3600");
  store_.reset();
  store_ = open({.days = 2});
  EXPECT_EQ(titles({}), std::vector<std::string>{"old"});
}

// One key's imports leave what another has kept, listed or not.
TEST_F(Sessions, EachOwnerHasABudget) {
  store_ = SessionStore::open("", {.bytes = 6000}).value();  // in memory, which waits for no disk
  const Session kept = make("hers", "ann");
  NewSession unlisted;
  unlisted.owner = "ann";
  unlisted.listed = false;
  const Session stored = *store_->create(unlisted);
  std::vector<NewSession> many(20);
  for (int i = 0; i < 20; ++i) {
    many[static_cast<size_t>(i)].owner = "bob";
    many[static_cast<size_t>(i)].title = "b" + std::to_string(i);
    many[static_cast<size_t>(i)].messages = {says("user", std::string(1000, 'x'))};
  }
  ASSERT_TRUE(store_->create_all(many).ok());
  many.assign(SessionStore::kMaxUnlisted + 10, unlisted);
  for (NewSession& one : many) one.owner = "carol";
  ASSERT_TRUE(store_->create_all(many).ok());
  ASSERT_TRUE(store_->prune().ok());
  EXPECT_TRUE(store_->find("ann", kept.id).ok());
  EXPECT_TRUE(store_->find("ann", stored.id).ok());
  EXPECT_EQ(titles({.owner = "bob"}), (std::vector<std::string>{"b19", "b18", "b17", "b16"}))
      << "his oldest go";
}

TEST_F(Sessions, ResponsesBelongToSessions) {
  NewSession unlisted;
  unlisted.listed = false;
  unlisted.owner = "ann";
  unlisted.messages = {says("user", "q"), says("assistant", "a")};
  const Session session = *store_->create(unlisted);
  EXPECT_TRUE(titles({}).empty());
  EXPECT_EQ(titles({.unlisted = true}).size(), 1u);
  ASSERT_TRUE(
      store_->put_response({"resp_1", session.id, session.head, {{"id", "resp_1"}}, Json::array({1})}).ok());
  const auto found = store_->find_response("ann", "resp_1");
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->session, session.id);
  EXPECT_EQ(found->message, session.head);
  EXPECT_EQ(found->response["id"], "resp_1");
  EXPECT_EQ(found->input_items.size(), 1u);
  EXPECT_FALSE(store_->find_response("bob", "resp_1").ok());
  EXPECT_FALSE(store_->put_response({"resp_2", "conv_none", 1, {}, {}}).ok());
  ASSERT_TRUE(store_->erase_response("ann", "resp_1").ok());
  EXPECT_FALSE(store_->find({}, session.id).ok()) << "nobody could find it any more";
}

TEST_F(Sessions, ItemsOfResponsesAreFoundByTheirIds) {
  const auto put = [&](const char* owner, const char* id, const Json& output, const Json& input) {
    NewSession unlisted;
    unlisted.listed = false;
    unlisted.owner = owner;
    unlisted.messages = {says("user", "q"), says("assistant", "a")};
    const Session session = *store_->create(unlisted);
    ASSERT_TRUE(
        store_->put_response({id, session.id, session.head, {{"id", id}, {"output", output}}, input}).ok());
  };
  const auto item = [](const char* id, const char* text) { return Json{{"id", id}, {"text", text}}; };
  put("ann", "resp_1", Json::array({item("msg_1", "old"), item("rs_1", "thought")}),
      Json::array({item("in_1", "question")}));
  put("ann", "resp_2", Json::array({item("msg_1", "new"), item("msg_2", "names msg_3")}), Json::array());
  put("bob", "resp_3", Json::array({item("msg_4", "bob's")}), Json::array());
  const auto texts = [&](const Owner& owner, const std::vector<std::string>& ids) {
    std::string all;
    const auto found = store_->find_items(owner, ids);
    EXPECT_TRUE(found.ok());
    for (const auto& [id, one] : *found) all += id + " " + string_at(one, "text") + ";";
    return all;
  };
  EXPECT_EQ(texts("ann", {"msg_1", "rs_1", "in_1"}), "in_1 question;msg_1 new;rs_1 thought;");
  EXPECT_EQ(texts("ann", {"msg_2", "msg_2"}), "msg_2 names msg_3;");
  for (const char* absent : {"msg_3", "msg_4", "msg", "msg_", "", "resp_1", "%", "text"})
    EXPECT_EQ(texts("ann", {absent}), "") << absent;
  put("carl", "resp_4", Json::array({Json{{"text", "without an id"}}}), Json::array());
  EXPECT_EQ(texts("carl", {""}), "");
  EXPECT_EQ(texts({}, {"msg_4"}), "msg_4 bob's;");
  ASSERT_TRUE(store_->erase_response("ann", "resp_2").ok());
  EXPECT_EQ(texts("ann", {"msg_1", "msg_2"}), "msg_1 old;");
}

TEST_F(Sessions, LimitsAreKept) {
  NewSession session;
  session.title = std::string(SessionStore::kMaxTitle + 1, 'x');
  EXPECT_EQ(store_->create(session).error().kind, ErrorKind::invalid);
  session.title.clear();
  session.settings = {{"x", std::string(SessionStore::kMaxSettings, 'x')}};
  EXPECT_EQ(store_->create(session).error().kind, ErrorKind::invalid);
  session.settings = Json::array();
  EXPECT_EQ(store_->create(session).error().kind, ErrorKind::invalid);
  session.settings = Json::object();
  for (const Json& bad : {Json("text"), Json{{"content", "x"}}, Json{{"role", "user"}},
                          Json{{"role", "user"}, {"content", Json::array()}}}) {
    session.messages = {{bad}};
    EXPECT_EQ(store_->create(session).error().kind, ErrorKind::invalid) << bad;
  }
  session.messages = {says("user", std::string(SessionStore::kMaxMessageBytes, 'x'))};
  EXPECT_EQ(store_->create(session).error().kind, ErrorKind::invalid);
}

TEST_F(Sessions, PagesGoUpFromTheEnd) {
  const Session session = make("t");
  std::vector<MessageId> ids;
  for (int i = 0; i < 7; ++i) ids.push_back(add(session.id, says("user", std::to_string(i))));
  std::string read;
  MessageId before = kNoMessage;
  for (bool more = true; more;) {
    const auto page = store_->page({}, session.id, {}, before, 3);
    ASSERT_TRUE(page.ok());
    std::string texts;
    for (const SessionMessage& one : page->messages) texts += one.message["content"].get<std::string>();
    read = texts + "|" + read;
    more = page->more;
    before = page->messages.front().id;
  }
  EXPECT_EQ(read, "0|123|456|");
  EXPECT_EQ(store_->page({}, session.id, {}, 99, 3).error().kind, ErrorKind::not_found);
  EXPECT_TRUE(store_->page({}, session.id, {}, ids[0], 3)->messages.empty());
  EXPECT_EQ(store_->page("ann", session.id, {}, kNoMessage, 3).error().kind, ErrorKind::not_found);
  EXPECT_TRUE(store_->page({}, make("empty").id, {}, kNoMessage, 3)->messages.empty());
  // Large messages make smaller pages, but each is in one.
  const std::string large(SessionStore::kPageBytes / 2 + 1000, 'x');
  for (int i = 0; i < 2; ++i) add(session.id, says("user", large));
  const auto page = store_->page({}, session.id, {}, kNoMessage, 1000);
  EXPECT_EQ(page->messages.size(), 1u);
  EXPECT_TRUE(page->more);
}

TEST_F(Sessions, LongTextsComeBackAndAreSearchedAtTheirBeginning) {
  const Session session = make("t");
  std::string text = "beginning ";
  while (text.size() < 300 << 10) text += "größer ";  // with a character across the border of the index
  text += "ending";
  for (const char* shift : {"", "a", "ab"}) {
    add(session.id, says("user", shift + text));
    EXPECT_EQ(store_->path({}, session.id)->back().message, says("user", shift + text).message);
  }
  EXPECT_EQ(titles({.text = "beginning"}).size(), 1u);
  EXPECT_TRUE(titles({.text = "ending"}).empty());
  const Session large = make("large");
  for (int i = 0; i < 6; ++i) add(large.id, says("user", "zebras " + std::string(3 << 20, 'x')));
  ASSERT_TRUE(store_->erase({}, large.id).ok()) << "in several steps";
  ASSERT_TRUE(store_->erase({}, session.id).ok());
  EXPECT_TRUE(titles({.text = "beginning"}).empty());
  EXPECT_TRUE(titles({.text = "zebras"}).empty());
  SQLite::Database db(session_file(directory_), SQLite::OPEN_READWRITE);
  EXPECT_EQ(db.execAndGet("SELECT count(*) FROM messages").getInt(), 0);
  EXPECT_NO_THROW(db.exec("INSERT INTO words (words) VALUES ('integrity-check')"));
}

TEST_F(Sessions, ASessionHasALimitOfBytes) {
  const Session session = make("t");
  const auto message = says("user", std::string(1000, 'x'));
  ASSERT_TRUE(store_->append({}, session.id, {}, std::vector{message, message}).ok());
  const int64_t bytes = store_->find({}, session.id)->bytes;
  EXPECT_GE(bytes, session.bytes + 2000) << "each message counts";
  // As if all messages so far had so many.
  const auto set_bytes = [&](int64_t to) {
    SQLite::Database(session_file(directory_), SQLite::OPEN_READWRITE, 1000)
        .exec("UPDATE sessions SET bytes = " + std::to_string(to));
  };
  set_bytes(SessionStore::kMaxSessionBytes - 5000);
  EXPECT_TRUE(store_->append({}, session.id, {}, std::span(&message, 1)).ok());
  set_bytes(SessionStore::kMaxSessionBytes - 500);
  EXPECT_EQ(store_->append({}, session.id, {}, std::span(&message, 1)).error().kind, ErrorKind::invalid);
  NewSession all;
  all.messages.assign(5, says("user", std::string(30 << 20, 'x')));
  EXPECT_EQ(store_->create(all).error().kind, ErrorKind::invalid);
}

// Another program may have written anything: what is read ends all the same.
TEST_F(Sessions, CirclesOfParentsEnd) {
  const Session session = make("t");
  const MessageId one = add(session.id, says("user", "1")), two = add(session.id, says("user", "2"));
  {
    SQLite::Database db(session_file(directory_), SQLite::OPEN_READWRITE);
    db.exec(fmt::format("UPDATE messages SET parent = {} WHERE id = {}", two, one));
  }
  EXPECT_EQ(texts(session.id), "1|2|");
  EXPECT_TRUE(store_->change({}, session.id, {.head = one}).ok());
  EXPECT_TRUE(store_->change({}, session.id, {.head = two}).ok());
  EXPECT_TRUE(store_->branch({}, session.id, two, "copy").ok());
  {
    SQLite::Database db(session_file(directory_), SQLite::OPEN_READWRITE);
    db.exec("UPDATE messages SET parent = id");
  }
  EXPECT_EQ(texts(session.id), "2|");
  EXPECT_TRUE(store_->change({}, session.id, {.head = two}).ok());
  EXPECT_TRUE(store_->erase({}, session.id).ok());
}

TEST_F(Sessions, ADamagedSchemaIsAnErrorAndTheFileStays) {
  make("kept");
  store_.reset();
  for (const char* damage : {"ALTER TABLE sessions RENAME COLUMN changed TO x", "DROP TABLE messages"}) {
    {
      SQLite::Database db(session_file(directory_), SQLite::OPEN_READWRITE);
      db.exec(damage);
      db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
    }
    const std::string before = bytes_on_disk();
    EXPECT_EQ(SessionStore::open(directory_, {}).error().kind, ErrorKind::io) << damage;
    EXPECT_EQ(bytes_on_disk(), before) << damage;
  }
}

TEST_F(Sessions, TracesGoWithTheLastSessionThatHasThem) {
  const std::vector<std::string> traces = {"a", "b", "c"};
  const Session one = make("one"), two = make("two");
  add(one.id, says("user", "x"));
  ASSERT_TRUE(store_->add_traces(one.id, traces).ok());
  ASSERT_TRUE(store_->add_traces(one.id, traces).ok()) << "again";
  ASSERT_TRUE(store_->add_traces(two.id, std::span(traces).first(1)).ok());
  const Session copy = *store_->branch({}, one.id, store_->find({}, one.id)->head, "");
  const auto released = [&] {
    auto all = store_->take_released();
    EXPECT_TRUE(store_->drop_used(all).ok());
    return all;
  };
  ASSERT_TRUE(store_->erase({}, one.id).ok());
  EXPECT_TRUE(released().empty()) << "the copy goes on from them";
  ASSERT_TRUE(store_->erase({}, copy.id).ok());
  EXPECT_EQ(released(), (std::vector<std::string>{"b", "c"}));
  EXPECT_TRUE(released().empty());
  ASSERT_TRUE(store_->add_traces(one.id, std::span(traces).last(1)).ok()) << "its answer was under way";
  EXPECT_EQ(released(), std::vector<std::string>{"c"});
  EXPECT_EQ(store_->erase({}, one.id).error().kind, ErrorKind::not_found);
  store_.reset();
  store_ = open();
  ASSERT_TRUE(store_->erase({}, two.id).ok());
  EXPECT_EQ(released(), std::vector<std::string>{"a"}) << "after a restart";
}

// What was noted after a message belongs to later ones, or to those of another branch.
TEST_F(Sessions, ABranchHasTheTracesOfItsMessagesOnly) {
  const Session session = make("t");
  const auto turn = [&](const std::string& trace) {
    add(session.id, says("user", trace + "?"));
    const MessageId answer = add(session.id, says("assistant", trace + "!"));
    EXPECT_TRUE(store_->add_traces(session.id, std::vector{trace, std::string("common")}).ok());
    return answer;
  };
  const MessageId one = turn("one"), two = turn("two"), three = turn("three");
  const Session whole = *store_->branch({}, session.id, three, "");
  const Session part = *store_->branch({}, session.id, two, "");
  const auto released = [&] {
    auto all = store_->take_released();
    EXPECT_TRUE(store_->drop_used(all).ok());
    std::ranges::sort(all);
    return all;
  };
  ASSERT_TRUE(store_->erase({}, session.id).ok());
  EXPECT_TRUE(released().empty()) << "the whole copy has all";
  ASSERT_TRUE(store_->erase({}, whole.id).ok());
  EXPECT_EQ(released(), std::vector<std::string>{"three"});
  const MessageId first = store_->path({}, part.id)->at(1).id;
  EXPECT_NE(first, one);
  const Session less = *store_->branch({}, part.id, first, "");
  ASSERT_TRUE(store_->erase({}, part.id).ok());
  EXPECT_EQ(released(), std::vector<std::string>{"two"}) << "the branch of a branch";
  ASSERT_TRUE(store_->erase({}, less.id).ok());
  EXPECT_EQ(released(), (std::vector<std::string>{"common", "one"}));
}

TEST_F(Sessions, TracesOfEarlierFilesAreOfAllMessages) {
  const Session session = make("t");
  const MessageId first = add(session.id, says("user", "1"));
  add(session.id, says("user", "2"));
  ASSERT_TRUE(store_->add_traces(session.id, std::vector<std::string>{"a"}).ok());
  store_.reset();
  {
    SQLite::Database db(session_file(directory_), SQLite::OPEN_READWRITE);
    db.exec("ALTER TABLE traces DROP COLUMN message");
  }
  store_ = open();
  ASSERT_TRUE(store_->branch({}, session.id, first, "").ok());
  ASSERT_TRUE(store_->erase({}, session.id).ok());
  auto all = store_->take_released();
  ASSERT_TRUE(store_->drop_used(all).ok());
  EXPECT_TRUE(all.empty()) << "the branch may need it";
}

TEST_F(Sessions, OddFilesAreRefused) {
  store_.reset();
  { std::ofstream(session_file(directory_), std::ios::binary) << std::string(4096, 'x'); }
  EXPECT_EQ(SessionStore::open(directory_, {}).error().kind, ErrorKind::io);
  std::filesystem::remove(session_file(directory_));
  std::filesystem::create_symlink("/etc/passwd", session_file(directory_));
  EXPECT_EQ(SessionStore::open(directory_, {}).error().kind, ErrorKind::io);
  std::filesystem::remove(session_file(directory_));
  std::filesystem::create_directory(session_file(directory_));
  EXPECT_EQ(SessionStore::open(directory_, {}).error().kind, ErrorKind::io);
}

TEST_F(Sessions, WithoutADirectoryTheyAreInMemory) {
  auto memory = SessionStore::open("", {});
  ASSERT_TRUE(memory.ok());
  NewSession session;
  session.messages = {says("user", "hello there")};
  ASSERT_TRUE((*memory)->create(session).ok());
  EXPECT_EQ((*memory)->list({.text = "hello"})->sessions.size(), 1u);
}

}  // namespace
}  // namespace anabranch
