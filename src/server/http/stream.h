// A byte stream over TCP, with or without TLS, with the interface that Asio's functions expect.
#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

namespace anabranch::server {

namespace asio = boost::asio;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

inline std::chrono::steady_clock::duration seconds(double s) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(s));
}

class Stream {
 public:
  using executor_type = tcp::socket::executor_type;

  // tls: null for plain TCP.
  Stream(tcp::socket socket, std::shared_ptr<asio::ssl::context> tls)
      : context_(std::move(tls)), tcp_(std::move(socket)) {
    if (context_) tls_.emplace(tcp_, *context_);
  }
  executor_type get_executor() { return tcp_.get_executor(); }
  tcp::socket& lowest() { return tcp_; }
  asio::ssl::stream<tcp::socket&>* tls() { return tls_ ? &*tls_ : nullptr; }

  template <typename Buffers, typename Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    if (tls_) return tls_->async_read_some(buffers, std::forward<Token>(token));
    return tcp_.async_read_some(buffers, std::forward<Token>(token));
  }
  template <typename Buffers, typename Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    if (tls_) return tls_->async_write_some(buffers, std::forward<Token>(token));
    return tcp_.async_write_some(buffers, std::forward<Token>(token));
  }

 private:
  std::shared_ptr<asio::ssl::context>
      context_;  // kept alive, because the server may replace its own on reload
  tcp::socket tcp_;
  std::optional<asio::ssl::stream<tcp::socket&>> tls_;
};

// Bytes that were sent and that the client's system has not acknowledged yet.
size_t unacknowledged_bytes(tcp::socket& socket);

}  // namespace anabranch::server
