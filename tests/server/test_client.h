// A raw HTTP client on a loopback socket, for tests: nothing is hidden from the test, every wait ends.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/json.h"
#include "slow.h"

namespace anabranch::server {

struct HttpAnswer {
  int status = 0;
  std::map<std::string, std::string> headers;  // lower-case names
  std::string body;                            // chunks joined
  Json json() const { return Json::parse(body); }
  std::string error_code() const {
    return json()["error"]["code"].is_string() ? json()["error"]["code"] : "";
  }
  std::string error_param() const {
    return json()["error"]["param"].is_string() ? json()["error"]["param"] : "";
  }
};

class TestClient {
 public:
  explicit TestClient(uint16_t port, int receive_buffer = 0) {
    fd_ = ::socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      throw std::runtime_error("connect failed");
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }
  ~TestClient() { close(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  // False when the server has closed.
  bool send(std::string_view data) {
    while (!data.empty()) {
      const ssize_t n = ::send(fd_, data.data(), data.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      data.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  // Sends copies of `piece`, `most` bytes at most, until the server takes no more for so long. Returns how
  // many bytes were taken, by the server or by the system between.
  size_t flood(std::string_view piece, size_t most, int patience_ms) {
    size_t taken = 0;
    for (pollfd p{fd_, POLLOUT, 0}; taken<most&& ::poll(&p, 1, patience_ms)> 0;) {
      const std::string_view rest = piece.substr(taken % piece.size());
      const ssize_t n = ::send(fd_, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n <= 0 && errno != EAGAIN) break;
      if (n > 0) taken += static_cast<size_t>(n);
    }
    return taken;
  }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  void shutdown_send() { ::shutdown(fd_, SHUT_WR); }
  // Closes with RST, as when a process is killed with unread data.
  void reset() {
    const linger l{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &l, sizeof l);
    close();
  }

  // Reads more into the buffer; false at the end of the stream or after `timeout_ms`.
  bool read_more(int timeout_ms = 1000 * kWaitSeconds) {
    pollfd p{fd_, POLLIN, 0};
    if (::poll(&p, 1, timeout_ms) <= 0) {
      timed_out_ = true;
      return false;
    }
    char data[16384];
    const ssize_t n = ::recv(fd_, data, sizeof data, 0);
    if (n <= 0) {
      ended_ = true;
      return false;
    }
    buffer_.append(data, static_cast<size_t>(n));
    return true;
  }
  // Takes at most so many bytes from the socket, if there are any, and forgets them; false when the server
  // has closed.
  bool read_bytes(size_t most) {
    std::string data(most, 0);
    const ssize_t n = ::recv(fd_, data.data(), most, MSG_DONTWAIT);
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
  }
  // The server has thrown the connection away, whatever is still to be read of it.
  bool is_reset() const {
    pollfd p{fd_, 0, 0};
    return ::poll(&p, 1, 0) > 0 && (p.revents & (POLLERR | POLLHUP)) != 0;
  }
  // The server has closed the connection (within the timeout), whatever it sent before.
  bool read_to_end(int timeout_ms = 1000 * kWaitSeconds) {
    while (read_more(timeout_ms)) {
    }
    return ended_;
  }
  // Everything up to and including `mark`; empty when it does not come.
  std::string read_until(std::string_view mark) {
    size_t at;
    while ((at = buffer_.find(mark)) == std::string::npos)
      if (!read_more()) return "";
    return take(at + mark.size());
  }

  HttpAnswer read_answer(bool head_only = false) {
    HttpAnswer answer;
    const std::string head = read_until("\r\n\r\n");
    if (head.size() < 12 || !head.starts_with("HTTP/1."))
      return answer;  // or the last answer had more than it said
    answer.status = std::atoi(head.c_str() + 9);
    size_t line = head.find("\r\n") + 2;
    while (line + 2 < head.size()) {
      const size_t end = head.find("\r\n", line), colon = head.find(": ", line);
      std::string name = head.substr(line, colon - line);
      for (char& c : name) c = static_cast<char>(std::tolower(c));
      answer.headers[name] = head.substr(colon + 2, end - colon - 2);
      line = end + 2;
    }
    const bool bodiless = answer.status == 100 || answer.status == 204 || answer.status == 304;
    if (head_only || bodiless) return answer;
    if (answer.headers.count("content-length")) {
      const size_t length = std::strtoul(answer.headers["content-length"].c_str(), nullptr, 10);
      while (buffer_.size() < length && read_more()) {
      }
      answer.body = take(std::min(length, buffer_.size()));
    } else if (answer.headers.count("transfer-encoding")) {
      answer.body = read_chunks();
    } else {
      read_to_end();
      answer.body = take(buffer_.size());
    }
    return answer;
  }

  const std::string& buffer() const { return buffer_; }
  bool ended() const { return ended_; }

 private:
  std::string take(size_t n) {
    std::string text = buffer_.substr(0, n);
    buffer_.erase(0, n);
    return text;
  }
  std::string read_chunks() {
    std::string body;
    while (true) {
      const std::string line = read_until("\r\n");
      if (line.empty()) return body + "<stream cut>";
      const size_t size = std::strtoul(line.c_str(), nullptr, 16);
      while (buffer_.size() < size + 2)
        if (!read_more()) return body + "<stream cut>";
      body += take(size);
      take(2);
      if (size == 0) return body;
    }
  }

  int fd_ = -1;
  std::string buffer_;
  bool ended_ = false, timed_out_ = false;
};

inline std::string http_request(std::string_view method, std::string_view target, std::string_view body = "",
                                std::string_view headers = "") {
  std::string text = fmt::format("{} {} HTTP/1.1\r\nHost: localhost\r\n{}", method, target, headers);
  if (!body.empty())
    text += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  return text + "\r\n" + std::string(body);
}

inline HttpAnswer ask(uint16_t port, std::string_view method, std::string_view target,
                      std::string_view body = "", std::string_view headers = "") {
  TestClient client(port);
  client.send(http_request(method, target, body, headers));
  return client.read_answer(method == "HEAD");
}

// The JSON of each "data:" event; a final [DONE] becomes the string "[DONE]".
inline std::vector<Json> events(const std::string& body) {
  std::vector<Json> list;
  size_t at = 0;
  while ((at = body.find("data: ", at)) != std::string::npos) {
    const size_t end = body.find("\n\n", at);
    const std::string text = body.substr(at + 6, end - at - 6);
    list.push_back(text == "[DONE]" ? Json(text) : Json::parse(text));
    at = end;
  }
  return list;
}

}  // namespace anabranch::server
