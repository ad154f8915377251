#include "server/http_connection.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/beast/http/read.hpp>
#include <exception>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "server/api_error.h"

namespace anabranch::server {
namespace {

constexpr size_t kReadAhead = 64u << 10;  // bytes of later requests taken while one is being answered
constexpr double kLingerSeconds = 2, kLingerStoppingSeconds = 0.2;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
  return result;
}

}  // namespace

Connection::Connection(tcp::socket socket, ConnectionContext& context)
    : context_(context),
      socket_(std::move(socket), context.tls ? &*context.tls : nullptr),
      deadline_(context.io),
      wake_(context.io),
      input_(context.limits.header_bytes + 2 * kReadAhead) {
  context_.connections.insert(this);
}

Connection::~Connection() {
  if (exchange_) exchange_->detach();
  context_.connections.erase(this);
  if (context_.stopping && context_.connections.empty()) context_.io.stop();
}

// Each deadline has a number: a timer that has already fired may be cancelled too late.
void Connection::arm(double s) {
  expired_ = false;
  deadline_.expires_after(seconds(s));
  deadline_.async_wait([self = weak_from_this(), number = ++deadline_number_](error_code error) {
    auto connection = self.lock();
    if (error || !connection || connection->deadline_number_ != number) return;
    connection->expired_ = true;
    error_code ignored;
    connection->socket_.lowest().cancel(ignored);
  });
}

void Connection::disarm() {
  ++deadline_number_;
  deadline_.cancel();
}

void Connection::send(std::string_view data, bool limited) {
  if (lost_) return;
  output_ += data;
  wake();
  if (limited && output_.size() + writing_.size() - sent_ > context_.limits.output_queue_bytes) {
    log_warning("a client reads too slowly: dropped with {} bytes unsent", output_.size());
    lose();
  }
}

void Connection::lose() {
  if (lost_) return;
  lost_ = true;
  if (exchange_) {
    const bool done = exchange_->done();
    auto left = exchange_->detach();
    // Posted: the one to be told may be calling us right now.
    if (left && !done) asio::post(context_.io, std::move(left));
  }
  error_code ignored;
  socket_.lowest().cancel(ignored);
  wake();
}

void Connection::begin_stop() {
  if (idle_) lose();
}

asio::awaitable<void> Connection::run(std::shared_ptr<Connection> self) {
  Connection& c = *self;
  try {
    const bool open = co_await c.handshake();
    if (!open) c.lose();
    // No `... && co_await ...`: g++ 12 awaits before it tests what stands left of it.
    while (!c.lost_ && !c.close_) {
      const bool got = co_await c.read_request();
      if (!got) break;
      co_await c.answer();
    }
    if (!c.lost_ && !c.output_.empty()) co_await c.flush();  // an error found while reading
    if (!c.lost_ && c.close_) co_await c.linger();
  } catch (const std::exception& e) {  // out of memory, most likely
    log_error("a connection failed: {}", e.what());
    c.lose();
  }
  error_code ignored;
  c.disarm();
  c.socket_.lowest().close(ignored);
}

asio::awaitable<void> Connection::refuse(std::shared_ptr<Connection> self) {
  if (co_await self->handshake()) {
    self->send_error(503, "Too many connections; try again later", "too_many_connections");
    if (co_await self->flush()) co_await self->linger();
  }
  error_code ignored;
  self->disarm();
  self->socket_.lowest().close(ignored);
}

asio::awaitable<bool> Connection::handshake() {
  if (!socket_.tls()) co_return true;
  idle_ = true;
  arm(context_.limits.header_s);
  auto [error] = co_await socket_.tls()->async_handshake(asio::ssl::stream_base::server, kAwait);
  idle_ = false;
  disarm();
  if (error) log_debug("a TLS handshake failed: {}", error.message());
  co_return !error && !lost_;
}

// Closing a socket with unread input resets the connection, which may destroy the answer on its way: read on,
// for a while, as long as something comes: clients that send a body look for the answer behind it.
asio::awaitable<void> Connection::linger() {
  const double patience = stopping() ? kLingerStoppingSeconds : kLingerSeconds;
  arm(patience);
  // Says that nothing was cut off; fails when the client is still sending.
  if (socket_.tls()) co_await socket_.tls()->async_shutdown(kAwait);
  if (expired_ || lost_) co_return;
  error_code ignored;
  tcp::socket& socket = socket_.lowest();
  socket.shutdown(tcp::socket::shutdown_send, ignored);
  std::vector<char> rest(16u << 10);
  const double end = now_seconds() + (stopping() ? patience : context_.limits.body_s);
  size_t read = 0;
  while (!expired_ && !lost_ && read <= context_.limits.body_bytes && now_seconds() < end) {
    arm(patience);
    auto [error, bytes] = co_await socket.async_read_some(asio::buffer(rest), kAwait);
    if (error || bytes == 0) break;
    read += bytes;
  }
}

void Connection::send_error(int status, std::string message, const char* code) {
  Exchange exchange(this, false, false, false);
  exchange.respond(error_response({status, std::move(message), "", code}));
  close_ = true;
}

void Connection::request_failed(error_code error) {
  const HttpLimits& limits = context_.limits;
  if (expired_) return send_error(408, "The request did not arrive in time", "request_timeout");
  if (error == http::error::header_limit || error == http::error::buffer_overflow)
    return send_error(431, fmt::format("The request headers are larger than {} bytes", limits.header_bytes),
                      "headers_too_large");
  if (error == http::error::body_limit)
    return send_error(413,
                      fmt::format("The request body is larger than the limit of {} bytes", limits.body_bytes),
                      "request_too_large");
  if (error == http::error::end_of_stream || error == http::error::partial_message) return;
  if (error.category() == http::make_error_code(http::error::bad_method).category())
    return send_error(400, fmt::format("Malformed HTTP request: {}", error.message()), "bad_request");
}

asio::awaitable<bool> Connection::read_first_byte() {
  if (input_.size() > 0) co_return true;
  idle_ = true;
  arm(context_.limits.idle_s);
  auto [error, bytes] = co_await socket_.async_read_some(input_.prepare(4096), kAwait);
  idle_ = false;
  input_.commit(bytes);
  co_return !error && !lost_;
}

// False: the connection ends, after what is queued to be sent.
asio::awaitable<bool> Connection::read_request() {
  if (!co_await read_first_byte()) co_return false;
  parser_.emplace();
  body_.reset();
  target_.clear();
  parser_->header_limit(static_cast<uint32_t>(context_.limits.header_bytes));
  parser_->body_limit(context_.limits.body_bytes);
  arm(context_.limits.header_s);
  auto [error, bytes] = co_await http::async_read_header(socket_, input_, *parser_, kAwait);
  if (error) {
    request_failed(error);
    co_return false;
  }
  target_ = std::string_view(parser_->get().target());
  if (!parser_->is_done()) {
    if (refuse_body()) co_return false;
    const auto expect = parser_->get().find(http::field::expect);
    if (expect != parser_->get().end() && lower(std::string_view(expect->value())) == "100-continue") {
      send("HTTP/1.1 100 Continue\r\n\r\n", false);
      if (!co_await flush()) co_return false;
    }
    if (!co_await read_body()) co_return false;
  }
  disarm();
  co_return !lost_;
}

bool Connection::refuse_body() {
  auto response = context_.refusal(request_head());
  if (!response) return false;
  const auto& head = parser_->get();
  Exchange(this, head.version() < 11, head.method() == http::verb::head, false).respond(std::move(*response));
  return close_ = true;
}

asio::awaitable<bool> Connection::read_body() {
  body_ = std::make_shared<BodyShare>(context_.all_body_bytes);
  arm(context_.limits.body_s);
  while (!parser_->is_done()) {
    auto [error, bytes] = co_await http::async_read_some(socket_, input_, *parser_, kAwait);
    if (error) {
      request_failed(error);
      co_return false;
    }
    if (!body_->grow_to(parser_->get().body().size(), context_.limits.all_body_bytes)) {
      send_error(503, "The bodies of other requests take all the room there is; try again later",
                 "overloaded");
      co_return false;
    }
  }
  co_return true;
}

HttpRequest Connection::request_head() const {
  const auto& message = parser_->get();
  HttpRequest request;
  request.method = std::string_view(message.method_string());
  request.target = std::string_view(message.target());
  for (const auto& field : message)
    request.headers.emplace_back(lower(std::string_view(field.name_string())),
                                 std::string_view(field.value()));
  return request;
}

HttpRequest Connection::take_request() {
  HttpRequest request = request_head();
  request.body = std::move(parser_->get().body());
  request.held = std::move(body_);
  return request;
}

// A read stays pending while a request is answered: it sees the client leave. What it reads of a next,
// pipelined request is kept; beyond kReadAhead of that we stop looking.
void Connection::watch() {
  if (watching_ || lost_ || input_.size() >= kReadAhead) return;
  watching_ = true;
  socket_.async_read_some(input_.prepare(4096), [self = shared_from_this()](error_code error, size_t bytes) {
    self->watched(error, bytes);
  });
}

void Connection::watched(error_code error, size_t bytes) {
  watching_ = false;
  input_.commit(bytes);
  if (!error)
    watch();
  else if (error != asio::error::operation_aborted && exchange_ && !exchange_->done())
    lose();
  wake();
}

// Sends everything queued when it was called.
asio::awaitable<bool> Connection::flush() {
  writing_.swap(output_);
  output_.clear();
  sent_ = 0;
  const HttpLimits& limits = context_.limits;
  const double start = now_seconds();
  while (sent_ < writing_.size() && !lost_) {
    const double end = start + limits.write_s + static_cast<double>(writing_.size()) / limits.write_bytes_s;
    arm(std::min(limits.write_s, std::max(0.0, end - now_seconds())));
    auto [error, bytes] = co_await socket_.async_write_some(
        asio::buffer(writing_.data() + sent_, writing_.size() - sent_), kAwait);
    sent_ += bytes;
    if (error) lose();
  }
  disarm();
  writing_.clear();
  sent_ = 0;
  co_return !lost_;
}

asio::awaitable<void> Connection::answer() {
  const auto& head = parser_->get();
  exchange_ = std::make_shared<Exchange>(this, head.version() < 11, head.method() == http::verb::head,
                                         parser_->keep_alive());
  try {
    context_.handler(take_request(), exchange_);
  } catch (const std::exception& e) {
    log_error("a request failed: {}", e.what());
    exchange_->respond(error_response({500, "Internal error", "", "internal_error"}));
  }
  if (!exchange_->done()) watch();
  while (!lost_) {
    if (!output_.empty()) {
      co_await flush();
      continue;
    }
    if (exchange_->done()) break;
    wake_.expires_after(seconds(context_.limits.heartbeat_s));
    auto [error] = co_await wake_.async_wait(kAwait);
    if (!error && exchange_->streaming()) exchange_->write(exchange_->heartbeat());
  }
  close_ = !exchange_->keep_alive() || stopping();
  exchange_->detach();
  // The watching read must end before the next request is read.
  while (watching_) {
    error_code ignored;
    socket_.lowest().cancel(ignored);
    wake_.expires_after(seconds(1));
    co_await wake_.async_wait(kAwait);
  }
  exchange_.reset();
  parser_.reset();
}

}  // namespace anabranch::server
