// An HTTP server on a port of this machine whose answers are the test's, byte for byte: for clients that must
// bear whatever a server sends.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace anabranch {

// Clients of this process ask it directly.
inline const bool kNoProxy = ::setenv("no_proxy", "*", 1) == 0;

class RawHttpServer {
 public:
  struct Request {
    std::string method, target, head, body;
    // Of the field with this name as the client writes it; empty: there is none.
    std::string field(const std::string& name) const {
      const size_t at = head.find("\r\n" + name + ": ");
      if (at == head.npos) return "";
      const size_t begin = at + name.size() + 4;
      return head.substr(begin, head.find("\r\n", begin) - begin);
    }
  };
  // Sends bytes; false: the client has left.
  using Send = std::function<bool(std::string_view)>;
  // Answers one request. The connection is closed behind its answer. Each connection has a thread of its own.
  using Handler = std::function<void(const Request&, const Send&)>;

  explicit RawHttpServer(Handler handler) : handler_(std::move(handler)), socket_(listening()) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { accept(); });
  }
  ~RawHttpServer() {
    ::shutdown(socket_, SHUT_RDWR);
    accepting_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int client : open_) ::shutdown(client, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
    ::close(socket_);
  }
  RawHttpServer(const RawHttpServer&) = delete;
  RawHttpServer& operator=(const RawHttpServer&) = delete;

  std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  std::string url(const std::string& path = "") const { return "http://" + host() + path; }
  // All that were asked so far.
  std::vector<Request> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }

 private:
  static int listening() {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || ::listen(fd, 64) != 0)
      std::abort();
    return fd;
  }

  void accept() {
    for (int client; (client = ::accept(socket_, nullptr, nullptr)) >= 0;) {
      {
        const std::lock_guard lock(mutex_);
        open_.insert(client);
      }
      threads_.emplace_back([this, client] { serve(client); });
    }
  }

  void serve(int client) {
    Request request;
    if (read(client, request)) {
      {
        const std::lock_guard lock(mutex_);
        requests_.push_back(request);
      }
      handler_(request, [client](std::string_view bytes) {
        while (!bytes.empty()) {
          const ssize_t n = ::send(client, bytes.data(), bytes.size(), MSG_NOSIGNAL);
          if (n <= 0) return false;
          bytes.remove_prefix(static_cast<size_t>(n));
        }
        return true;
      });
    }
    const std::lock_guard lock(mutex_);
    open_.erase(client);
    ::close(client);
  }

  static bool read(int client, Request& request) {
    std::string all;
    const auto more = [&] {
      char data[16384];
      const ssize_t n = ::recv(client, data, sizeof data, 0);
      if (n > 0) all.append(data, static_cast<size_t>(n));
      return n > 0;
    };
    while (all.find("\r\n\r\n") == all.npos)
      if (!more()) return false;
    const size_t end = all.find("\r\n\r\n") + 4;
    request.head = all.substr(0, end);
    request.method = all.substr(0, all.find(' '));
    const size_t target = request.method.size() + 1;
    request.target = all.substr(target, all.find(' ', target) - target);
    const size_t length = std::strtoull(request.field("Content-Length").c_str(), nullptr, 10);
    while (all.size() < end + length)
      if (!more()) return false;
    request.body = all.substr(end, length);
    return true;
  }

  const Handler handler_;
  const int socket_;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::set<int> open_;
  std::vector<Request> requests_;
  std::vector<std::thread> threads_;
  std::thread accepting_;
};

// A whole answer.
inline std::string http_answer(const std::string& body, const std::string& fields = "",
                               const std::string& status = "200 OK") {
  return "HTTP/1.1 " + status + "\r\nConnection: close\r\n" + fields +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

}  // namespace anabranch
