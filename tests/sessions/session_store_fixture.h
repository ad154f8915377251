#pragma once
// A store of sessions in a directory of the test's own.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "sessions/session_store.h"

namespace anabranch {

inline NewMessage says(const char* role, const std::string& text, Json about = Json::object()) {
  return {{{"role", role}, {"content", text}}, std::move(about)};
}

class Sessions : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() /
                 ("sessions_" + std::to_string(::getpid()) + "_" +
                  ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(directory_);
    store_ = open();
  }
  void TearDown() override {
    store_.reset();
    std::filesystem::remove_all(directory_);
  }
  std::unique_ptr<SessionStore> open(Retention retention = {}) {
    auto store = SessionStore::open(directory_, retention);
    EXPECT_TRUE(store.ok()) << store.error().message;
    return std::move(*store);
  }
  Session make(const std::string& title, const std::string& owner = "") {
    NewSession session;
    session.title = title;
    session.owner = owner;
    auto made = store_->create(session);
    EXPECT_TRUE(made.ok());
    return *made;
  }
  MessageId add(const std::string& id, const NewMessage& message, std::optional<MessageId> parent = {}) {
    auto ids = store_->append({}, id, parent, std::span(&message, 1));
    EXPECT_TRUE(ids.ok()) << ids.error().message;
    return ids.ok() ? ids->front() : kNoMessage;
  }
  std::string texts(const std::string& id, std::optional<MessageId> head = {}) {
    std::string all;
    const auto path = store_->path({}, id, head);
    EXPECT_TRUE(path.ok());
    for (const SessionMessage& one : *path) all += one.message["content"].get<std::string>() + "|";
    return all;
  }
  std::vector<std::string> titles(const SessionQuery& query) {
    std::vector<std::string> out;
    const auto list = store_->list(query);
    EXPECT_TRUE(list.ok()) << list.error().message;
    for (const Session& session : list->sessions) out.push_back(session.title);
    return out;
  }
  // Of all files of the store.
  std::string bytes_on_disk() {
    std::string all;
    for (const auto& file : std::filesystem::directory_iterator(directory_)) {
      std::ostringstream text;
      text << std::ifstream(file.path(), std::ios::binary).rdbuf();
      all += text.str();
    }
    return all;
  }

  std::filesystem::path directory_;
  std::unique_ptr<SessionStore> store_;
};

}  // namespace anabranch
