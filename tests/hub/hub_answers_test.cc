// What a hub answers to questions about a repository, and to requests for a part of a file.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "base/clock.h"
#include "hub/api.h"
#include "hub/settings.h"
#include "hub/weight_map.h"
#include "raw_http_server.h"
#include "temp_dir.h"
#include "variable.h"

namespace anabranch::hub {
namespace {

using Asked = RawHttpServer::Request;
using Send = RawHttpServer::Send;
using testing::TempDir, testing::Variable;

class HubAnswers : public ::testing::Test {
 protected:
  void serve(RawHttpServer::Handler handler) {
    hub_ = std::make_unique<RawHttpServer>(std::move(handler));
    settings_.endpoint = hub_->url();
    api_ = std::make_unique<Api>(settings_, watcher_);
  }
  std::optional<std::string> part(uint64_t from, uint64_t to) {
    return api_->part_of_file(name_, std::string(40, 'c'), "model.gguf", from, to);
  }

  const ModelName name_{.repo = "org/name"};
  const Watcher watcher_{[](const std::string&) {}, [] { return false; }};
  Settings settings_{.stall_seconds = 20};
  std::unique_ptr<RawHttpServer> hub_;
  std::unique_ptr<Api> api_;
};

TEST_F(HubAnswers, APartOfAFileComesFromAServerWithoutRanges) {
  std::string content;
  while (content.size() < 2'000'000) content += fmt::format("{:08x}", content.size());
  serve([&](const Asked&, const Send& send) { send(http_answer(content)); });
  const auto bytes = part(1'500'000, 1'500'100);  // behind what comes at once
  ASSERT_TRUE(bytes);
  EXPECT_EQ(*bytes, content.substr(1'500'000, 100));
}

TEST_F(HubAnswers, AServerWithoutRangesIsLeftAsSoonAsThePartIsThere) {
  constexpr size_t kAll = 32u << 20;
  std::atomic<size_t> sent = 0;
  serve([&](const Asked&, const Send& send) {
    send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", kAll));
    for (const std::string piece(64 << 10, 'x'); sent < kAll && send(piece);) sent += piece.size();
  });
  const auto bytes = part(0, 100);
  ASSERT_TRUE(bytes);
  EXPECT_EQ(bytes->size(), 100u);
  hub_.reset();
  EXPECT_LT(sent, kAll);
}

TEST_F(HubAnswers, AnotherPartThanWasAskedForIsNone) {
  std::string range = "bytes 100-199/1000";
  serve([&](const Asked&, const Send& send) {
    send(http_answer(std::string(100, 'x'), "Content-Range: " + range + "\r\n", "206 Partial Content"));
  });
  EXPECT_TRUE(part(100, 200));
  range = "bytes 0-99/1000";
  EXPECT_FALSE(part(100, 200));
}

TEST_F(HubAnswers, RedirectsInACircleEndAQuestion) {
  std::atomic<int> count = 0;
  serve([&](const Asked& asked, const Send& send) {
    const bool again = ++count < 50;
    send(http_answer("", "Location: " + hub_->url(asked.target) + "\r\n",
                     again ? "302 Found" : "404 Not Found"));
  });
  EXPECT_FALSE(api_->repository(name_).ok());
  EXPECT_LT(count, 50);
}

TEST(HubSettings, PathsMayBeginWithTheHomeDirectory) {
  const Variable home("HOME", "/home/me"), models("HF_HOME", "~/models"), cache("HF_HUB_CACHE", "");
  const auto settings = settings_from_environment();
  ASSERT_TRUE(settings.ok()) << settings.error().message;
  EXPECT_EQ(settings->cache, "/home/me/models/hub");
}

TEST(HubSettings, OfflineIsSaidInSeveralWords) {
  const Variable home("HF_HOME", "/nowhere");
  for (const auto& [value, offline] : {std::pair("1", true),
                                       {"true", true},
                                       {"YES", true},
                                       {"On", true},
                                       {"0", false},
                                       {"", false},
                                       {"no", false}}) {
    const Variable variable("HF_HUB_OFFLINE", value);
    EXPECT_EQ(settings_from_environment()->offline, offline) << value;
  }
}

TEST(HubSettings, ATokenHoldsNoLineBreakAndAnUnreadableFileIsAnError) {
  const TempDir directory;
  const Variable home("HF_HOME", directory.path().c_str());
  {
    const Variable token("HF_TOKEN", "hf_1\r\nX-Other: 2");
    EXPECT_FALSE(settings_from_environment().ok()) << "it would be a header of its own";
  }
  const Variable token("HF_TOKEN", "");
  EXPECT_EQ(settings_from_environment()->token, "") << "there need not be a file";
  std::filesystem::create_directories(directory.path() + "/token");
  EXPECT_FALSE(settings_from_environment().ok()) << "a directory is no token";
}

TEST(WeightMap, NamesFilesBesideItOnly) {
  EXPECT_TRUE(parse_weight_map(R"({"weight_map":{"a":"x.safetensors"}})").ok());
  for (const char* file : {"deep/x.safetensors", "../x.safetensors", "x.bin", ""})
    EXPECT_FALSE(parse_weight_map(fmt::format(R"({{"weight_map":{{"a":"{}"}}}})", file)).ok()) << file;
}

TEST(WeightMap, APredictionHeadMayStandBelowAPrefix) {
  const auto map = parse_weight_map(
      R"({"weight_map":{"model.mtp.fc.weight":"b.safetensors","model.norm":"a.safetensors","mtp.x":"c.safetensors"}})");
  ASSERT_TRUE(map.ok());
  EXPECT_EQ(map->mtp_files, (std::vector<std::string>{"b.safetensors", "c.safetensors"}));
}

}  // namespace
}  // namespace anabranch::hub
