// Images by web address: from which servers, from which addresses, how much and for how long.
#include "server/api/image_fetch.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "raw_http_server.h"
#include "server/api/request_images.h"
#include "server/api/web_images.h"

namespace anabranch::server {
namespace {

TEST(ImageFetch, KnowsWhichAddressesArePublic) {
  for (const char* address :
       {"8.8.8.8", "1.1.1.1", "172.32.0.1", "192.169.0.1", "100.128.0.1", "223.255.255.255",
        "2606:4700:4700::1111", "2a00:1450:4001::1", "2001:4860:4860::8888"})
    EXPECT_TRUE(is_public_address(address)) << address;
  for (const char* address : {"127.0.0.1",
                              "127.9.9.9",
                              "10.0.0.1",
                              "172.16.0.1",
                              "172.31.255.255",
                              "192.168.1.1",
                              "169.254.169.254",
                              "0.0.0.0",
                              "100.64.0.1",
                              "192.0.0.8",
                              "192.0.2.1",
                              "198.18.0.1",
                              "198.19.255.255",
                              "198.51.100.1",
                              "203.0.113.1",
                              "224.0.0.1",
                              "255.255.255.255",
                              "::1",
                              "::",
                              "fe80::1",
                              "fc00::1",
                              "fd12::1",
                              "ff02::1",
                              "::ffff:127.0.0.1",
                              "::ffff:8.8.8.8",
                              "::127.0.0.1",
                              "64:ff9b::7f00:1",
                              "2002:7f00:1::",
                              "2001::1",
                              "2001:db8::1",
                              "3fff::1",
                              "fe80::1%eth0",
                              "localhost",
                              "",
                              "127.1",
                              "0x7f.1"})
    EXPECT_FALSE(is_public_address(address)) << address;
}

TEST(ImageFetch, HostsMustBeNames) {
  for (const char* host : {"", "http://a", "a/b", "a?b", "u@a", "a b", "a:99999999", "a:b"})
    EXPECT_FALSE(make_image_fetch({host}).ok()) << host;
  EXPECT_FALSE(make_image_fetch({}).value()) << "none: no image is fetched";
  EXPECT_TRUE(make_image_fetch({"example.com", "10.0.0.1:81", "[2606::1]"}).value());
}

// Answers each connection with the same bytes.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer, std::chrono::milliseconds delay = {})
      : answer_(std::move(answer)), delay_(delay), socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket_, 8), 0);
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~OneAnswer() {
    ::shutdown(socket_, SHUT_RDWR);
    thread_.join();
    ::close(socket_);
  }
  std::string host(const std::string& name = "127.0.0.1") const { return name + ":" + std::to_string(port_); }
  int connections() const { return connections_; }

 private:
  void serve() {
    for (int client; (client = ::accept(socket_, nullptr, nullptr)) >= 0; ::close(client)) {
      ++connections_;
      char head[4096];
      if (::recv(client, head, sizeof head, 0) <= 0) continue;
      std::this_thread::sleep_for(delay_);
      ::send(client, answer_.data(), answer_.size(), MSG_NOSIGNAL);
    }
  }

  const std::string answer_;
  const std::chrono::milliseconds delay_;
  const int socket_;
  int port_ = 0;
  std::atomic<int> connections_{0};
  std::thread thread_;
};

std::string ok(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

std::string error_of(const Result<std::string>& result) {
  return result.ok() ? "got " + *result : result.error().message;
}

// What the flag allows, where the test's own server may be connected to.
Result<std::string> get(const std::string& allowed, const std::string& url, size_t bytes = 100,
                        double seconds = 5) {
  const auto fetch = make_image_fetch({allowed}, [](const std::string&) { return true; });
  return fetch.value()(url, bytes, seconds, [] { return false; });
}

TEST(ImageFetch, GetsFilesOfAllowedHosts) {
  const OneAnswer server(ok("PNG"));
  EXPECT_EQ(get(server.host(), "http://" + server.host() + "/a.png?b").value(), "PNG");
  EXPECT_EQ(get(server.host("LOCALHOST"), "HTTP://" + server.host("localhost") + "/").value(), "PNG");
  EXPECT_EQ(server.connections(), 2);
  const std::vector<std::string> others = {"http://127.0.0.1/",
                                           "https://127.0.0.1/",
                                           "http://" + server.host("localhost") + "/",
                                           "http://" + server.host() + "@localhost/",
                                           "ftp://" + server.host() + "/",
                                           "http://",
                                           "http://127.0.0.1:1/",
                                           "file:///etc/passwd",
                                           "http:// " + server.host() + "/"};
  for (const std::string& url : others)
    EXPECT_NE(error_of(get(server.host(), url)).find("--allow-image-urls"), std::string::npos) << url;
  EXPECT_EQ(server.connections(), 2) << "the others were not asked";
}

// The address that is connected to decides, whatever the name says.
TEST(ImageFetch, ConnectsToNoAddressOfThisNetwork) {
  const OneAnswer server(ok("secret"));
  for (const char* name : {"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"}) {
    const std::string host = server.host(name);
    const auto fetch = make_image_fetch({host}).value();
    EXPECT_NE(
        error_of(fetch("http://" + host + "/", 100, 5, [] { return false; })).find("may not be connected to"),
        std::string::npos)
        << error_of(fetch("http://" + host + "/", 100, 5, [] { return false; }));
  }
  EXPECT_EQ(server.connections(), 0);
  std::set<std::string> asked;
  const auto fetch = make_image_fetch({server.host("localhost")}, [&](const std::string& address) {
    asked.insert(address);
    return address == "127.0.0.1";
  });
  EXPECT_EQ(fetch.value()("http://" + server.host("localhost") + "/", 100, 5, [] { return false; }).value(),
            "secret");
  EXPECT_TRUE(asked.contains("127.0.0.1"));
}

TEST(ImageFetch, FollowsNoRedirect) {
  const OneAnswer other(ok("other"));
  const OneAnswer server("HTTP/1.1 302 Found\r\nConnection: close\r\nLocation: http://" + other.host() +
                         "/b.png\r\nContent-Length: 0\r\n\r\n");
  EXPECT_NE(error_of(get(server.host(), "http://" + server.host() + "/a.png")).find(other.host() + "/b.png"),
            std::string::npos);
  EXPECT_EQ(other.connections(), 0);
}

// Each part is far below the limit.
TEST(ImageFetch, SmallPartsAddUp) {
  constexpr size_t kMost = 16u << 20;
  std::atomic<size_t> sent = 0;
  const RawHttpServer server([&](const RawHttpServer::Request&, const RawHttpServer::Send& send) {
    send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
    for (const std::string part(1000, 'x'); sent < kMost && send(part);) sent += part.size();
  });
  EXPECT_NE(error_of(get(server.host(), server.url("/"), 100'000, 60)).find("20 MiB"), std::string::npos);
  EXPECT_LT(sent, kMost);
}

// Each image is far below the limit, and they come side by side.
TEST(ImageFetch, ImagesOfARequestAddUp) {
  WebImages images;
  const std::vector<std::string> urls = {"http://a/1", "http://b/2", "http://c/3"};
  for (const std::string& url : urls) EXPECT_EQ(images.take(url, kMaxImageBytes).value(), "?");
  EXPECT_EQ(images.begin_fetching().size(), 3u);
  std::vector<size_t> rooms;
  const WebFetch fetch = [&](const std::string&, size_t room, double, const auto&) -> Result<std::string> {
    rooms.push_back(room);
    return std::string(8u << 20, 'x');  // as when another has taken the room meanwhile
  };
  for (const std::string& url : urls) images.fetch({url}, fetch, [] { return false; });
  EXPECT_EQ(rooms,
            (std::vector<size_t>{kMaxImageBytes, kMaxImageBytes - (8u << 20), kMaxImageBytes - (16u << 20)}));
  EXPECT_TRUE(images.take(urls[1], kMaxImageBytes).ok());
  EXPECT_FALSE(images.take(urls[2], kMaxImageBytes).ok());
  EXPECT_FALSE(images.take(urls[0], 100).ok()) << "what is there has to fit, too";
}

TEST(ImageFetch, IsLimited) {
  const OneAnswer server(ok(std::string(101, 'x')));
  EXPECT_NE(error_of(get(server.host(), "http://" + server.host() + "/")).find("20 MiB"), std::string::npos);
  EXPECT_EQ(get(server.host(), "http://" + server.host() + "/", 101).value().size(), 101u);
  const OneAnswer missing("HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 4\r\n\r\ngone");
  EXPECT_NE(error_of(get(missing.host(), "http://" + missing.host() + "/")).find("HTTP 404"),
            std::string::npos);
  const OneAnswer slow(ok("x"), std::chrono::milliseconds(1500));
  EXPECT_FALSE(get(slow.host(), "http://" + slow.host() + "/", 100, 0.2).ok());
  const OneAnswer broken("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhalf");
  EXPECT_FALSE(get(broken.host(), "http://" + broken.host() + "/").ok());
}

}  // namespace
}  // namespace anabranch::server
