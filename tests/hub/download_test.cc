// Downloads from a hub that does what no hub should: resuming, ranges, hashes, redirects, and whom the token
// is shown to.
#include "hub/download.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "hub/digest.h"
#include "raw_http_server.h"

namespace anabranch::hub {
namespace {

namespace fs = std::filesystem;
using Asked = RawHttpServer::Request;
using Send = RawHttpServer::Send;

// No two parts of it are alike.
std::string content_of(size_t bytes) {
  std::string text;
  for (size_t i = 0; text.size() < bytes; ++i) text += fmt::format("{:08x}", i * 2654435761u % (1u << 31));
  text.resize(bytes);
  return text;
}

class Download : public ::testing::Test {
 protected:
  void SetUp() override { fs::remove_all(root_); }
  void TearDown() override { fs::remove_all(root_); }

  void serve(RawHttpServer::Handler handler) { hub_ = std::make_unique<RawHttpServer>(std::move(handler)); }
  // Plans the download of a file with this content.
  void plan(const std::string& content) {
    file_ = {"model.safetensors", content.size(), ""};
    Digest digest(std::string(64, '0'), content.size());
    digest.add(content);
    file_.oid = digest.finish();
    ASSERT_TRUE(store_.prepare(kRepo).ok());
  }
  // As if an earlier download had ended here.
  void leave(const std::string& beginning) {
    std::ofstream(store_.blob_path(kRepo, file_.oid) + ".incomplete", std::ios::binary) << beginning;
  }
  Result<void> run() {
    const Settings settings{
        .endpoint = hub_->url(), .token = "secret", .cache = root_.string(), .stall_seconds = 20};
    const Watcher watcher{[](const std::string&) {}, [] { return false; }};
    Api api(settings, watcher);
    return download(settings, api, store_, {{.repo = kRepo}, std::string(40, 'c'), {file_}}, watcher,
                    [](uint64_t) {});
  }
  std::string stored() const {
    std::ostringstream text;
    text << std::ifstream(store_.blob_path(kRepo, file_.oid), std::ios::binary).rdbuf();
    return text.str();
  }

  static constexpr const char* kRepo = "org/name";
  const fs::path root_ = fs::temp_directory_path() / ("hub_download_" + std::to_string(::getpid()));
  Store store_{root_.string()};
  RepoFile file_;
  std::unique_ptr<RawHttpServer> hub_;
};

// The part that is asked for, of a server that knows ranges.
std::string part_of(const std::string& content, const Asked& asked) {
  size_t from = 0, last = content.size() - 1;
  if (std::sscanf(asked.field("Range").c_str(), "bytes=%zu-%zu", &from, &last) < 1)
    return http_answer(content);
  return http_answer(content.substr(from, last + 1 - from),
                     fmt::format("Content-Range: bytes {}-{}/{}\r\n", from, last, content.size()),
                     "206 Partial Content");
}

TEST_F(Download, GoesOnWhereAnEarlierOneEnded) {
  const std::string content = content_of(300'000);
  serve([&](const Asked& asked, const Send& send) { send(part_of(content, asked)); });
  plan(content);
  leave(content.substr(0, 100'000));
  const auto done = run();
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(stored(), content);
  ASSERT_EQ(hub_->requests().size(), 1u);
  EXPECT_EQ(hub_->requests()[0].field("Range"), "bytes=100000-299999");
}

TEST_F(Download, WhatWasKeptAndIsDamagedComesAgain) {
  const std::string content = content_of(300'000);
  serve([&](const Asked& asked, const Send& send) { send(part_of(content, asked)); });
  for (const std::string& kept :
       {std::string(100'000, 'x'), std::string(300'000, 'x'), std::string(400'000, 'x')}) {
    fs::remove_all(root_);
    plan(content);
    leave(kept);
    const auto done = run();
    ASSERT_TRUE(done.ok()) << kept.size() << done.error().message;
    EXPECT_EQ(stored(), content) << kept.size();
  }
}

TEST_F(Download, BytesWithAnotherHashAreThrownAway) {
  const std::string content = content_of(1000);
  serve([&](const Asked& asked, const Send& send) { send(part_of(std::string(1000, 'x'), asked)); });
  plan(content);
  const auto done = run();
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message.find("hash"), std::string::npos) << done.error().message;
  EXPECT_FALSE(fs::exists(store_.blob_path(kRepo, file_.oid)));
  EXPECT_EQ(store_.partial_bytes(kRepo, file_), 0u);
  EXPECT_EQ(hub_->requests().size(), 1u);
}

TEST_F(Download, TheTokenIsForTheHubOnly) {
  const std::string content = content_of(1000);
  RawHttpServer other([&](const Asked& asked, const Send& send) { send(part_of(content, asked)); });
  serve([&](const Asked&, const Send& send) {
    send(http_answer("", "Location: " + other.url("/blob") + "\r\n", "302 Found"));
  });
  plan(content);
  const auto done = run();
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(stored(), content);
  ASSERT_EQ(other.requests().size(), 1u);
  EXPECT_EQ(hub_->requests().at(0).field("Authorization"), "Bearer secret");
  EXPECT_EQ(other.requests()[0].head.find("secret"), std::string::npos) << other.requests()[0].head;
}

TEST_F(Download, RedirectsInACircleEnd) {
  std::atomic<int> asked = 0;
  serve([&](const Asked& request, const Send& send) {
    const std::string target = ++asked > 100 ? "/gone" : request.target;
    send(http_answer("", "Location: " + target + "\r\n", asked > 100 ? "404 Not Found" : "302 Found"));
  });
  plan(content_of(1000));
  EXPECT_FALSE(run().ok());
  EXPECT_LT(asked, 20);
}

// Sends the head of the part that is asked for, of a file of so many bytes. Returns where the part begins.
size_t begin_part(const Asked& asked, const Send& send, size_t bytes) {
  size_t from = 0, last = 0;
  EXPECT_EQ(std::sscanf(asked.field("Range").c_str(), "bytes=%zu-%zu", &from, &last), 2);
  send(
      fmt::format("HTTP/1.1 206 Partial Content\r\nConnection: close\r\nContent-Range: bytes "
                  "{}-{}/{}\r\n\r\n",
                  from, last, bytes));
  return from;
}

// A later range of a file is held in memory until its turn comes.
TEST_F(Download, MoreBytesThanARangeHasEndTheDownload) {
  constexpr size_t kRange = 16u << 20, kMost = 64u << 20;
  std::atomic<size_t> sent = 0;
  serve([&](const Asked& asked, const Send& send) {
    const size_t from = begin_part(asked, send, kRange + 1000);
    const std::string piece(64u << 10, 'x');
    if (from == 0) {  // the first range begins, and goes on only when the other has ended
      send(piece);
      while (sent < kMost && send("x")) ::usleep(5000);
      return;
    }
    while (sent < kMost && send(piece)) sent += piece.size();
    sent = std::max<size_t>(sent, 1);
  });
  file_ = {"model.safetensors", kRange + 1000, std::string(64, 'a')};
  ASSERT_TRUE(store_.prepare(kRepo).ok());
  const auto done = run();
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().kind, ErrorKind::invalid) << done.error().message;
  EXPECT_LT(sent, kMost / 2);
}

TEST_F(Download, MoreBytesThanARangeHasInSmallPartsEndTheDownload) {
  constexpr size_t kRange = 16u << 20;
  std::atomic<bool> done = false;
  serve([&](const Asked& asked, const Send& send) {
    const size_t from = begin_part(asked, send, kRange + 1000);
    for (int i = 0; !done && i < 1000 && send("x"); ++i) {
      if (from > 0) send(std::string(99, 'x'));
      ::usleep(5000);
    }
  });
  file_ = {"model.safetensors", kRange + 1000, std::string(64, 'a')};
  ASSERT_TRUE(store_.prepare(kRepo).ok());
  const auto ended = run();
  done = true;
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().kind, ErrorKind::invalid) << ended.error().message;
}

TEST_F(Download, AServerWithoutRangesSendsTheFileFromItsBeginning) {
  const std::string content = content_of(300'000);
  std::atomic<int> asked = 0;
  serve([&](const Asked&, const Send& send) {
    const std::string whole = http_answer(content);
    send(++asked == 2 ? whole.substr(0, whole.size() / 2) : whole);  // once the connection breaks
  });
  plan(content);
  leave(content.substr(0, 1000));
  const auto done = run();
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(stored(), content);
  EXPECT_EQ(asked, 3);
}

TEST_F(Download, AServerWithoutRangesSendsLargeFilesToo) {
  const std::string content = content_of(17u << 20);  // more than one range
  serve([&](const Asked&, const Send& send) { send(http_answer(content)); });
  plan(content);
  const auto done = run();
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_TRUE(stored() == content);
}

// ---- one request

net::Response get(const RawHttpServer& server) {
  return net::Transfers().wait_for(transfer_of({.url = server.url("/")}, Settings{.stall_seconds = 20}));
}

TEST(HubRequest, ABodyThatGrowsBeyondItsLimitEndsTheRequest) {
  std::atomic<size_t> sent = 0;
  const RawHttpServer server([&](const Asked&, const Send& send) {
    send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    for (const std::string piece(4096, 'x'); sent < (32u << 20) && send(piece);) sent += piece.size();
  });
  const net::Response response = get(server);
  EXPECT_EQ(response.end, net::End::not_taken);
  EXPECT_EQ(response.problem, "the answer is too long");
  EXPECT_FALSE(response.good());
  EXPECT_LE(response.body.size(), 1u << 20);
  EXPECT_LT(sent, 32u << 20);
}

// The beginning is enough to explain it, and its end says whether the connection may be used again.
TEST(HubRequest, AnErrorPageIsCutAndGoesToNoReader) {
  const RawHttpServer server([&](const Asked&, const Send& send) {
    send(http_answer(std::string(5000, 'x'), "", "403 Forbidden"));
  });
  bool read = false;
  HttpRequest request{.url = server.url("/"), .token = "secret", .range = {{5, 8}}, .max_body = 100};
  request.on_body = [&](const net::Response&, std::string_view) { return read = true; };
  const auto response = net::Transfers().wait_for(transfer_of(request, Settings{}));
  EXPECT_EQ(response.end, net::End::complete);
  EXPECT_EQ(response.body, std::string(100, 'x'));
  EXPECT_FALSE(read);
  EXPECT_EQ(server.requests().at(0).method, "GET");
  EXPECT_EQ(server.requests()[0].field("Range"), "bytes=5-7");
  EXPECT_EQ(server.requests()[0].field("Authorization"), "Bearer secret");
}

// The limit is 256 KiB, below libcurl's own.
TEST(HubRequest, HeadersThatGrowBeyondTheirLimitEndTheRequest) {
  for (const auto& [kib, good] : {std::pair(250, true), std::pair(270, false)}) {
    const RawHttpServer server([&](const Asked&, const Send& send) {
      std::string head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n";
      for (int i = 0; static_cast<int>(head.size()) < kib << 10; ++i)
        head += fmt::format("X-{}: {}\r\n", i, std::string(30, 'x'));
      send(head + "\r\n");
    });
    EXPECT_EQ(get(server).good(), good) << kib;
  }
}

}  // namespace
}  // namespace anabranch::hub
