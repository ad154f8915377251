// What servers may do to a client, and what ends a transfer.
#include "net/http_client.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <limits>
#include <set>
#include <thread>

#include "base/clock.h"
#include "raw_http_server.h"
#include "slow.h"
#include "variable.h"

namespace anabranch::net {
namespace {

using Asked = RawHttpServer::Request;
using Send = RawHttpServer::Send;
using testing::Variable;

// Keeps the body, however long it is.
bool keep(Response& so_far, std::string_view bytes) {
  so_far.body += bytes;
  return true;
}

Response get(const std::string& url) {
  return HttpClient().run({.url = url, .on_body = keep});
}

// Sends a part of an answer, and then nothing for longer than any test should take.
class SilentServer {
 public:
  explicit SilentServer(const std::string& part = "")
      : server_([this, part](const Asked&, const Send& send) {
          send(part);
          const double until = now_seconds() + 20 * kSlowdown;
          while (!over_ && now_seconds() < until) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        }) {}
  ~SilentServer() { over_ = true; }
  Transfer transfer() const {
    return {.url = server_.url("/"), .seconds = std::numeric_limits<double>::infinity(), .on_body = keep};
  }

 private:
  std::atomic<bool> over_{false};
  RawHttpServer server_;  // destroyed first
};

TEST(HttpTransfer, SendsWhatItSays) {
  const RawHttpServer server([](const Asked&, const Send& send) {
    send(http_answer("no", "X-Word: old\r\nx-WORD:  new \r\n", "404 Not Found"));
  });
  HttpClient client;
  const Response response =
      client.run({.url = server.url("/a?b"),
                  .method = "POST",
                  .headers = {{"X-Key", "secret"}, {"X-Empty", ""}},
                  .body = std::string(2 << 20, 'b'),  // libcurl would ask before a large one
                  .on_body = keep});
  EXPECT_EQ(response.end, End::complete);
  EXPECT_EQ(response.problem, "");
  EXPECT_FALSE(response.good()) << "the status is an error's";
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.body, "no");
  EXPECT_EQ(response.header("x-word"), "new");
  client.run({.url = server.url("/"), .method = "DELETE", .body = "ignored"});
  client.run({.url = server.url("/"), .method = "POST"});
  const auto asked = server.requests();
  ASSERT_EQ(asked.size(), 3u);
  EXPECT_EQ(asked[0].method + " " + asked[0].target, "POST /a?b");
  EXPECT_EQ(asked[0].body, std::string(2 << 20, 'b'));
  EXPECT_EQ(asked[0].field("X-Key"), "secret");
  EXPECT_NE(asked[0].head.find("\r\nX-Empty:"), std::string::npos) << asked[0].head;
  EXPECT_EQ(asked[0].head.find("Expect:"), std::string::npos) << asked[0].head;
  EXPECT_EQ(asked[1].method + asked[1].body, "DELETE");
  EXPECT_EQ(asked[2].field("Content-Length"), "0");
}

TEST(HttpTransfer, HeadersOfAnInterimAnswerAreForgotten) {
  const RawHttpServer server([](const Asked&, const Send& send) {
    send("HTTP/1.1 103 Early Hints\r\nX-Early: 1\r\n\r\n" + http_answer("body", "X-Late: 1\r\n"));
  });
  const Response response = get(server.url("/"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, "body");
  EXPECT_EQ(response.header("x-early"), "");
  EXPECT_EQ(response.header("x-late"), "1");
}

TEST(HttpTransfer, FollowsNoRedirect) {
  const RawHttpServer other([](const Asked&, const Send& send) { send(http_answer("other")); });
  for (const std::string& target : {other.url("/x"), std::string("/x"), std::string("file:///etc/passwd")}) {
    const RawHttpServer server([&](const Asked&, const Send& send) {
      send(http_answer("", "Location: " + target + "\r\n", "302 Found"));
    });
    const Response response = get(server.url("/a/b"));
    EXPECT_EQ(response.status, 302);
    EXPECT_EQ(response.location, target == "/x" ? server.url("/x") : target);
    EXPECT_EQ(server.requests().size(), 1u);
  }
  EXPECT_TRUE(other.requests().empty());
}

TEST(HttpTransfer, SpeaksHttpOnly) {
  for (const char* url : {"file:///etc/passwd", "ftp://127.0.0.1:1/", "", "http://"}) {
    const auto response = get(url);
    EXPECT_EQ(response.end, End::broken) << url;
    EXPECT_EQ(response.body, "") << url;
  }
}

TEST(HttpTransfer, HeadersHaveALimit) {
  for (const auto& [kib, most, end] : {std::tuple(60, 64, End::complete),
                                       {70, 64, End::broken},
                                       {70, 80, End::complete},
                                       {90, 80, End::broken}}) {
    const RawHttpServer server([&](const Asked&, const Send& send) {
      std::string head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n";
      for (int i = 0; static_cast<int>(head.size()) < kib << 10; ++i)
        head += fmt::format("X-{}: {}\r\n", i, std::string(30, 'x'));
      send(head + "\r\n");
    });
    Transfer transfer{.url = server.url("/")};
    EXPECT_EQ(transfer.max_header_bytes, 64u << 10);
    transfer.max_header_bytes = size_t(most) << 10;
    EXPECT_EQ(HttpClient().run(transfer).end, end) << kib << " of " << most;
  }
}

TEST(HttpTransfer, ABodyThatIsNotTakenEndsIt) {
  std::atomic<size_t> sent = 0;
  const RawHttpServer server([&](const Asked&, const Send& send) {
    send("HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\n\r\n");
    for (const std::string piece(4096, 'x'); sent < (32u << 20) && send(piece);) sent += piece.size();
  });
  Transfer transfer{.url = server.url("/")};
  transfer.on_body = [](Response& so_far, std::string_view bytes) {
    EXPECT_EQ(so_far.status, 500);
    return keep(so_far, bytes) && so_far.body.size() < 100'000;
  };
  const Response response = HttpClient().run(transfer);
  EXPECT_EQ(response.end, End::not_taken);
  EXPECT_NE(response.problem, "");
  EXPECT_GE(response.body.size(), 100'000u);
  EXPECT_LT(sent, 32u << 20);
  EXPECT_TRUE(Response(response).checked().ok()) << "its reader has what it wants";
}

TEST(HttpTransfer, ABrokenConnectionIsAnError) {
  std::string url;
  {
    const RawHttpServer server(
        [](const Asked&, const Send& send) { send("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf"); });
    url = server.url("/");
    const Response response = get(url);
    EXPECT_EQ(response.end, End::broken);
    EXPECT_EQ(response.status, 200);
    EXPECT_EQ(response.body, "half");
    EXPECT_FALSE(response.good());
  }
  const auto refused = get(url).checked();
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::io);
}

TEST(HttpTransfer, HasALimitOfTime) {
  const SilentServer server("HTTP/1.1 200 OK\r\n\r\nhalf");
  for (const double seconds : {0.2, 0.0, -5.0}) {
    Transfer transfer = server.transfer();
    transfer.seconds = seconds;
    const double began = now_seconds();
    Response response = HttpClient().run(transfer);
    EXPECT_EQ(response.end, End::late) << seconds;
    EXPECT_LT(now_seconds() - began, 10 * kSlowdown) << seconds;
    EXPECT_EQ(std::move(response).checked().error().kind, ErrorKind::exhausted);
  }
}

TEST(HttpTransfer, MayNotStall) {
  const SilentServer server("HTTP/1.1 200 OK\r\n\r\n");
  Transfer transfer = server.transfer();
  transfer.stall_seconds = 1;
  const double began = now_seconds();
  EXPECT_EQ(HttpClient().run(transfer).end, End::late);
  EXPECT_LT(now_seconds() - began, 10 * kSlowdown);
}

TEST(HttpTransfer, StopsAtOnce) {
  for (const char* part : {"", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\n\r\nhalf"}) {
    const SilentServer server(part);
    Transfer transfer = server.transfer();
    const double began = now_seconds();
    transfer.stop = [&] { return now_seconds() > began + 0.1; };
    Response response = HttpClient().run(transfer);
    EXPECT_EQ(response.end, End::stopped) << part;
    EXPECT_LT(now_seconds() - began, 10 * kSlowdown) << part;
    EXPECT_EQ(std::move(response).checked().error().kind, ErrorKind::busy);
  }
}

TEST(HttpTransfer, AsksAboutEachAddress) {
  const RawHttpServer server([](const Asked&, const Send& send) { send(http_answer("in")); });
  const std::string url = "http://localhost:" + server.host().substr(server.host().find(':') + 1);
  for (const char* allowed : {"127.0.0.1", "::1", ""}) {
    std::set<std::string> asked;
    Transfer transfer{.url = url, .on_body = keep};
    transfer.may_connect = [&](const std::string& address) {
      asked.insert(address);
      return address == allowed;
    };
    Response response = HttpClient().run(transfer);
    const bool good = allowed == std::string("127.0.0.1");
    EXPECT_EQ(response.body, good ? "in" : "") << allowed;
    EXPECT_TRUE(asked.contains("127.0.0.1")) << allowed;
    EXPECT_EQ(response.end, good ? End::complete : End::barred) << response.problem;
    EXPECT_EQ(response.problem.empty(), good);
    const auto checked = std::move(response).checked();
    EXPECT_TRUE(checked.ok() ? good : checked.error().kind == ErrorKind::invalid);
  }
  EXPECT_EQ(server.requests().size(), 1u);
}

// A proxy would hide the address that is connected to, and see what is for this machine only.
TEST(HttpTransfer, SomeUseNoProxy) {
  const RawHttpServer proxy([](const Asked&, const Send& send) { send(http_answer("proxy")); });
  const RawHttpServer server([](const Asked&, const Send& send) { send(http_answer("server")); });
  const Variable http_proxy("http_proxy", proxy.url().c_str()), no_proxy("no_proxy", "elsewhere");
  const auto answer = [&](Transfer transfer) {
    transfer.url = server.url("/");
    transfer.on_body = keep;
    return HttpClient().run(transfer).body;
  };
  EXPECT_EQ(answer({}), "proxy");
  EXPECT_EQ(proxy.requests().at(0).target, server.url("/"));
  EXPECT_EQ(answer({.own_server = true}), "server");
  EXPECT_EQ(answer({.may_connect = [](const std::string&) { return true; }}), "server");
}

TEST(HttpTransfers, RunSideBySide) {
  const SilentServer silent;
  const RawHttpServer server([](const Asked& asked, const Send& send) { send(http_answer(asked.target)); });
  std::vector<std::string> came;
  bool late = false, early = false;
  {
    Transfers transfers;
    transfers.start(silent.transfer(), [&](const Response&) { late = true; });
    for (const char* target : {"/1", "/2", "/3"})
      transfers.start({.url = server.url(target), .on_body = keep},
                      [&](const Response& response) { came.push_back(response.body); });
    EXPECT_EQ(transfers.running(), 4u);
    while (transfers.running() > 1) transfers.run(100);
    EXPECT_EQ(std::set(came.begin(), came.end()), (std::set<std::string>{"/1", "/2", "/3"}));
    EXPECT_EQ(came.size(), 3u);
    // One more, which begins when another ends.
    transfers.start({.url = server.url("/4")}, [&](const Response&) {
      transfers.start({.url = server.url("/5")}, [&](const Response&) { early = true; });
    });
    while (transfers.running() > 1) transfers.run(100);
    EXPECT_TRUE(early);
  }
  EXPECT_FALSE(late) << "what still runs at the end is not told";
}

TEST(HttpTransfers, OnlyTheOneThatIsCancelledEnds) {
  const SilentServer silent;
  Transfers transfers;
  std::vector<int> ended;
  for (const int i : {0, 1, 2}) {
    Transfer transfer = silent.transfer();
    transfer.stop = [i] { return i == 1; };
    transfers.start(transfer, [&ended, i](const Response& response) {
      EXPECT_EQ(response.end, End::stopped);
      ended.push_back(i);
    });
  }
  for (int i = 0; i < 3; i++) transfers.run(10);
  EXPECT_EQ(ended, std::vector{1});
  EXPECT_EQ(transfers.running(), 2u);
}

TEST(HttpClient, ServesManyThreads) {
  const RawHttpServer server([](const Asked& asked, const Send& send) { send(http_answer(asked.target)); });
  HttpClient client;
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; t++)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; i++) {
        const std::string target = fmt::format("/{}/{}", t, i);
        right += client.run({.url = server.url(target), .on_body = keep}).body == target;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 40);
}

// libcurl's TLS raises it when it writes to a connection that the other side has closed.
TEST(HttpClient, ABrokenPipeDuringATransferEndsNoProgramAndChangesNothing) {
  const RawHttpServer server([](const Asked&, const Send& send) { send(http_answer("text")); });
  HttpClient client;
  int pieces = 0;
  const Response response = client.run({.url = server.url("/"), .on_body = [&](Response&, std::string_view) {
                                          pthread_kill(pthread_self(), SIGPIPE);
                                          return ++pieces > 0;
                                        }});
  EXPECT_TRUE(response.good());
  EXPECT_EQ(pieces, 1);
  sigset_t held;
  pthread_sigmask(SIG_SETMASK, nullptr, &held);
  EXPECT_FALSE(sigismember(&held, SIGPIPE)) << "it means as much as before";
}

}  // namespace
}  // namespace anabranch::net
