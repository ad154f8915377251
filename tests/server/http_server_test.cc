// The HTTP layer alone. Handlers that keep the I/O thread busy make things happen at the same moment.
#include "server/http/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "server/http/api_error.h"
#include "server/test_client.h"

namespace anabranch::server {
namespace {

using std::chrono::milliseconds;

class HttpLayer : public ::testing::Test {
 protected:
  void start(const HttpLimits& limits, milliseconds busy) {
    auto server = HttpServer::listen("127.0.0.1", 0, limits, {});
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = std::move(*server);
    HttpHandlers handlers;
    handlers.handle = [this, busy](HttpRequest request, std::shared_ptr<ResponseStream> out) {
      if (request.target == "/busy") keep_busy(busy);
      out->respond({});
    };
    handlers.refuse = [this, busy](const HttpRequest& head, const std::string&) {
      if (head.target == "/busy-head") keep_busy(busy);
      return std::nullopt;
    };
    handlers.error = [](const RequestName&, const ApiError& error) { return error_response(error); };
    handlers.headers = [](const HttpRequest&) { return Headers{}; };
    handlers.responded = [](const RequestName&, int) {};
    handlers.key_of = [](const HttpRequest&) { return ""; };
    handlers.ended = [](const EndedRequest&) {};
    served_ = std::async(std::launch::async, [this, handlers] { server_->serve(handlers); });
  }
  void TearDown() override {
    if (!server_) return;
    server_->post()([this] {
      server_->begin_stop();
      server_->close_all();
    });
    served_.wait();
  }

  int get(const std::string& target) { return ask(server_->port(), "GET", target).status; }
  void wait_until_busy() {
    while (!busy_) std::this_thread::sleep_for(milliseconds(1));
  }

  std::unique_ptr<HttpServer> server_;
  std::future<void> served_;
  std::atomic<bool> busy_{false};

 private:
  void keep_busy(milliseconds time) {
    busy_ = true;
    std::this_thread::sleep_for(time);
  }
};

std::string post_head(const std::string& target, int body) {
  return fmt::format("POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n", target, body);
}

TEST_F(HttpLayer, ADeadlineThatPassesWhenDataArrivesIsKept) {
  HttpLimits limits;
  limits.body_s = 0.4;
  start(limits, milliseconds(800));
  TestClient slow(server_->port()), busy(server_->port());
  slow.send(post_head("/", 100000) + "{");
  ASSERT_EQ(get("/"), 200);  // came later, so the other one's bytes have been read
  busy.send(http_request("GET", "/busy"));
  wait_until_busy();
  slow.send(std::string(40000, ' '));  // more than one read, so the deadline passes between two of them
  EXPECT_EQ(slow.read_answer().status, 408);
}

TEST_F(HttpLayer, ADeadlineThatPassesBeforeReadingBeginsIsKept) {
  HttpLimits limits;
  limits.body_s = 0;
  start(limits, {});
  TestClient slow(server_->port());
  slow.send(post_head("/", 100000) + std::string(40000, ' '));
  EXPECT_EQ(slow.read_answer().status, 408);
}

TEST_F(HttpLayer, TheHeadersDeadlineDoesNotEndTheBody) {
  HttpLimits limits;
  limits.header_s = 0.2;
  start(limits, milliseconds(400));
  TestClient client(server_->port());
  client.send(post_head("/busy-head", 2));
  wait_until_busy();
  std::this_thread::sleep_for(milliseconds(600));
  client.send("{}");
  EXPECT_EQ(client.read_answer().status, 200);
}

// Neither those that were accepted nor those that the server has not seen yet hold it up.
TEST_F(HttpLayer, NewConnectionsEndWhenItStops) {
  start({}, milliseconds(300));
  std::vector<std::unique_ptr<TestClient>> clients;
  const auto connect = [&] {
    for (int i = 0; i < 5; ++i) clients.push_back(std::make_unique<TestClient>(server_->port()));
  };
  connect();
  ASSERT_EQ(get("/"), 200);  // came later, so the others have been accepted
  TestClient busy(server_->port());
  busy.send(http_request("GET", "/busy"));
  wait_until_busy();
  connect();
  server_->post()([this] { server_->begin_stop(); });
  EXPECT_EQ(busy.read_answer().status, 200);
  EXPECT_EQ(served_.wait_for(std::chrono::seconds(kWaitSeconds)), std::future_status::ready);
  for (auto& client : clients) EXPECT_TRUE(client->read_to_end());
}

}  // namespace
}  // namespace anabranch::server
