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
#include <thread>
#include <utility>

#include "base/clock.h"
#include "hub/blob_file.h"
#include "hub/digest.h"
#include "raw_http_server.h"
#include "slow.h"

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
  Result<void> run() { return run({file_}); }
  Result<void> run(const std::vector<RepoFile>& files) {
    const Settings settings{
        .endpoint = hub_->url(), .token = "secret", .cache = root_.string(), .stall_seconds = 20};
    const Watcher watcher{[this](const std::string& note) { notes_.push_back(note); },
                          [this] { return cancelled_ && cancelled_(); }};
    Api api(settings, watcher);
    return download(settings, api, store_, {{.repo = kRepo}, std::string(40, 'c'), files}, watcher,
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
  std::vector<std::string> notes_;
  std::function<bool()> cancelled_;  // asked several times per second
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

TEST_F(Download, WhatCameEntirelyIsNotAskedForAgain) {
  const std::string content = content_of(1000);
  serve([&](const Asked& asked, const Send& send) { send(part_of(content, asked)); });
  plan(content);
  leave(content);
  ASSERT_TRUE(run().ok());
  EXPECT_EQ(stored(), content);
  EXPECT_EQ(hub_->requests().size(), 0u);
}

TEST_F(Download, AFileUnderTwoNamesComesOnceWithoutAWait) {
  const std::string content = content_of(1000);
  serve([&](const Asked& asked, const Send& send) { send(part_of(content, asked)); });
  plan(content);
  RepoFile other = file_;
  other.path = "copy.safetensors";
  ASSERT_TRUE(run({file_, other}).ok());
  EXPECT_EQ(hub_->requests().size(), 1u);
  EXPECT_EQ(notes_, std::vector<std::string>());
}

TEST_F(Download, AnotherProcessIsNotedOnce) {
  const std::string content = content_of(1000);
  serve([&](const Asked& asked, const Send& send) { send(part_of(content, asked)); });
  plan(content);
  const auto other = BlobFile::open(store_, kRepo, file_);
  ASSERT_TRUE(other.ok() && *other);
  int looks = 0;
  cancelled_ = [&] { return ++looks > 4; };
  EXPECT_FALSE(run().ok());
  ASSERT_EQ(notes_.size(), 1u);
  EXPECT_NE(notes_[0].find("another process downloads"), std::string::npos) << notes_[0];
}

TEST_F(Download, APartOfAFileThatHasGrownMeanwhileIsAskedForAgain) {
  const std::string content = content_of(1000);
  serve([&](const Asked& asked, const Send& send) {
    const bool first = hub_->requests().size() == 1;
    send(first ? http_answer(std::string(1000, 'x'), "Content-Range: bytes 0-999/2000\r\n",
                             "206 Partial Content")
               : part_of(content, asked));
  });
  plan(content);
  const auto done = run();
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(stored(), content);
}

TEST_F(Download, WhatAServerWithoutRangesSendsAnewIsNoProgress) {
  const std::string content((16u << 20) + 1000, 'x');
  std::atomic<int> count = 0;
  serve([&](const Asked&, const Send& send) {
    send(fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.size()));
    send(std::string_view(content).substr(0, 300'000));
    count++;
  });
  plan(content);
  const double began = now_seconds();
  cancelled_ = [&] { return count == 4; };  // the first of these is a request for a range
  EXPECT_FALSE(run().ok());
  hub_.reset();
  EXPECT_GT(now_seconds() - began, 0.7) << "each wait is longer than the one before";
}

TEST_F(Download, AllRequestsPauseWhenTheHubAsksForIt) {
  std::vector<RepoFile> files;
  for (size_t i = 1; i <= 6; i++) {
    plan(std::string(i, 'x'));
    files.push_back(file_);
  }
  std::atomic<int> count = 0;
  std::atomic<bool> told = false;
  std::atomic<double> asked_to_wait = 0, next = 0;
  serve([&](const Asked& asked, const Send& send) {
    const int number = ++count;
    if (number == 1) {
      asked_to_wait = now_seconds();
      send(http_answer("", "Retry-After: 1\r\n", "429 Too Many Requests"));
      told = true;
      return;
    }
    if (number == 5) next = now_seconds();
    while (!told) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (number < 5) std::this_thread::sleep_for(std::chrono::milliseconds(200 * kSlowdown));
    const size_t dash = asked.target.rfind('/');
    send(http_answer(std::string(static_cast<size_t>(asked.target[dash + 1] - '0'), 'x')));
  });
  for (size_t i = 0; i < files.size(); i++) files[i].path = std::to_string(i + 1);
  const auto done = run(files);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_GE(next - asked_to_wait, 0.9);
}

// The first range has all its bytes, but its connection is still open when the second one ends.
TEST_F(Download, ARangeIsKeptForAsLongAsItsRequestRuns) {
  constexpr size_t kRange = 16u << 20;
  const std::string content(kRange + 1000, 'x');
  std::atomic<bool> second_came = false, first_ended = false;
  serve([&](const Asked& asked, const Send& send) {
    if (asked.field("Range") != fmt::format("bytes=0-{}", kRange - 1)) {
      send(part_of(content, asked));
      second_came = true;
      return;
    }
    send(fmt::format(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-{}/{}\r\nConnection: close\r\n\r\n",
        kRange - 1, content.size()));
    send(std::string_view(content).substr(0, kRange));
    for (int i = 0; i < 1000 && !second_came; i++) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    first_ended = true;
  });
  plan(content);
  const auto done = run();
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_TRUE(first_ended);
  hub_.reset();
  EXPECT_EQ(stored().size(), content.size());
}

// The first range is slow, so that all that comes behind it waits in memory.
TEST_F(Download, WhatWaitsInMemoryIsLimited) {
  constexpr size_t kRange = 16u << 20;
  const std::string body(kRange, 'x');
  std::atomic<int> ranges = 0;
  std::atomic<bool> over = false;
  file_ = {"model.safetensors", 20 * kRange, std::string(64, 'a')};
  ASSERT_TRUE(store_.prepare(kRepo).ok());
  serve([&](const Asked& asked, const Send& send) {
    size_t from = 0, last = 0;
    std::sscanf(asked.field("Range").c_str(), "bytes=%zu-%zu", &from, &last);
    ranges++;
    send(fmt::format(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {}-{}/{}\r\nContent-Length: {}\r\n\r\n", from,
        last, file_.size, kRange));
    if (from > 0) {
      send(body);
      return;
    }
    send("x");
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  int looks = 0, before = 0;  // the looks since the last request
  cancelled_ = [&] {
    looks = std::exchange(before, ranges.load()) == ranges ? looks + 1 : 0;
    return ranges > 12 || (ranges == 12 && looks > 3);
  };
  EXPECT_FALSE(run().ok()) << "it is cancelled";
  over = true;
  hub_.reset();
  EXPECT_EQ(ranges, 12) << "of 20";
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

// An address elsewhere is good for one request, so a long download is redirected more often than a circle may
// be.
TEST_F(Download, ManyAddressesMayExpire) {
  constexpr size_t kPiece = 300'000, kPieces = 11;
  const std::string content = content_of(kPieces * kPiece);
  std::atomic<int> addresses = 0, used = 0;
  RawHttpServer other([&](const Asked& asked, const Send& send) {
    if (asked.target != fmt::format("/{}", addresses.load()) || used == addresses) {
      send(http_answer("expired", "Retry-After: 0\r\n", "403 Forbidden"));
      return;
    }
    used = addresses.load();
    const std::string part = part_of(content, asked);
    const size_t body = part.find("\r\n\r\n") + 4;
    send(std::string_view(part).substr(0, body + kPiece));
  });
  serve([&](const Asked&, const Send& send) {
    const std::string target = other.url(fmt::format("/{}", ++addresses));
    send(http_answer("", "Location: " + target + "\r\n", "302 Found"));
  });
  plan(content);
  const auto done = run();
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(stored(), content);
  EXPECT_GT(addresses, 8);
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
