#include "server/http/client_socket.h"

#include "base/clock.h"
#include "base/log.h"

namespace anabranch::server {
namespace {

std::string address_of(const tcp::socket& socket) {
  error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  return error ? "" : endpoint.address().to_string();
}

}  // namespace

ClientSocket::ClientSocket(asio::io_context& io, tcp::socket socket, std::shared_ptr<asio::ssl::context> tls)
    : stream_(std::move(socket), std::move(tls)), address_(address_of(stream_.lowest())), deadline_(io) {}

void ClientSocket::arm(double s) {
  expired_ = false;
  deadline_.expires_after(seconds(s));
  deadline_.async_wait([this, current = std::weak_ptr<uint64_t>(deadline_number_),
                        number = ++*deadline_number_](error_code error) {
    const auto now = current.lock();
    if (error || !now || *now != number) return;
    expired_ = true;
    cancel();
  });
}

void ClientSocket::disarm() {
  expired_ = false;
  ++*deadline_number_;
  deadline_.cancel();
}

asio::awaitable<bool> ClientSocket::handshake() {
  if (!stream_.tls()) co_return true;
  if (abandoned_) co_return false;
  auto [error] = co_await stream_.tls()->async_handshake(asio::ssl::stream_base::server, kAwait);
  if (error) log_debug("a TLS handshake failed: {}", error.message());
  co_return !error && !abandoned_;
}

// The deadline may pass, or the client may be given up, before the read begins or just when data arrives.
// Then cancel() has nothing to end, so both conditions are tested before and after the read.
asio::awaitable<error_code> ClientSocket::read(std::string& to) {
  error_code error;
  if (!expired_ && !abandoned_) {
    auto [failure, bytes] = co_await stream_.async_read_some(asio::buffer(buffer_), kAwait);
    to.append(buffer_.data(), bytes);
    error = failure;
  }
  if (abandoned_) co_return asio::error::operation_aborted;
  if (expired_) co_return asio::error::timed_out;
  co_return error;
}

asio::awaitable<std::pair<error_code, size_t>> ClientSocket::write(std::string_view data) {
  auto [error, bytes] = co_await stream_.async_write_some(asio::buffer(data.data(), data.size()), kAwait);
  co_return std::pair(error, bytes);
}

void ClientSocket::cancel() {
  error_code ignored;
  stream_.lowest().cancel(ignored);
}

void ClientSocket::abandon() {
  abandoned_ = true;
  cancel();
}

void ClientSocket::reset_on_close() {
  error_code ignored;
  stream_.lowest().set_option(asio::socket_base::linger(true, 0), ignored);
}

void ClientSocket::close() {
  disarm();
  error_code ignored;
  stream_.lowest().close(ignored);
}

asio::awaitable<void> ClientSocket::linger(double pause_s, double most_s, size_t most_bytes) {
  arm(pause_s);
  // TLS's close_notify: the answer is complete. Its error, if the client still sends, is harmless.
  if (stream_.tls()) co_await stream_.tls()->async_shutdown(kAwait);
  if (expired_ || abandoned_) co_return;
  error_code ignored;
  tcp::socket& socket = stream_.lowest();
  socket.shutdown(tcp::socket::shutdown_send, ignored);
  const double end = now_seconds() + most_s;
  size_t read = 0;
  while (!expired_ && !abandoned_ && read <= most_bytes && now_seconds() < end) {
    arm(pause_s);
    auto [error, bytes] = co_await socket.async_read_some(asio::buffer(buffer_), kAwait);
    if (error || bytes == 0) break;
    read += bytes;
  }
}

}  // namespace anabranch::server
