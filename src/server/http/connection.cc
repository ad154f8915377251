#include "server/http/connection.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <exception>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "server/http/api_error.h"

namespace anabranch::server {
namespace {

constexpr size_t kReadAhead = 64u << 10;  // bytes of later requests taken while one is being answered
constexpr double kLingerSeconds = 2, kLingerStoppingSeconds = 0.2;

constexpr size_t kSlowBodyBytes = 4096;  // a body that brings so many within give_way_s is not slow
constexpr size_t kLoggedTarget = 200;

std::string address_of(const tcp::socket& socket) {
  error_code error;
  const auto endpoint = socket.remote_endpoint(error);
  return error ? "" : endpoint.address().to_string();
}

// A client's own id is taken over if it can do no harm in a header, a log or a file's name.
bool is_sane_id(std::string_view id) {
  constexpr std::string_view kOthers = "-_.:+=@";
  return !id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kOthers.find(c) != kOthers.npos;
  });
}

}  // namespace

Connection::Connection(tcp::socket socket, ConnectionContext& context)
    : context_(context),
      socket_(std::move(socket), context.tls),
      deadline_(context.io),
      wake_(context.io),
      stall_timer_(context.io),
      stall_(context.limits.stall_s, context.limits.stall_bytes),
      network_(network_of(address_of(socket_.lowest()))),
      arriving_since_(now_seconds()),
      began_(arriving_since_) {
  context_.connections.insert(this);
}

Connection::~Connection() {
  if (exchange_) exchange_->detach();
  context_.connections.erase(this);
  if (context_.stopping && context_.connections.empty()) context_.io.stop();
}

Seat Connection::seat() const {
  const auto phase = exchange_        ? Seat::Phase::busy
                     : idle_ && kept_ ? Seat::Phase::kept
                                      : Seat::Phase::arriving;
  return {network_, phase, arriving_since_};
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
    log_warning("{}: the client reads too slowly: dropped with {} bytes unsent", name_.id, output_.size());
    drop();
  }
}

// With a reset: the system forgets what it still has to send, too.
void Connection::drop() {
  error_code ignored;
  socket_.lowest().set_option(asio::socket_base::linger(true, 0), ignored);
  lose();
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
    c.watch_for_stall();
    const bool open = co_await c.handshake();
    if (!open) c.lose();
    // No `... && co_await ...`: g++ 12 awaits before it tests what stands left of it.
    while (!c.lost_ && !c.close_) {
      const bool got = co_await c.read_request();
      if (!got) break;
      co_await c.answer();
    }
    if (!c.lost_ && !c.output_.empty()) co_await c.flush();  // an error found while reading
    if (c.status_) c.log_answer();                           // the same
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
  self->refused_ = true;
  self->watch_for_stall();
  if (co_await self->handshake()) {
    self->name_request();
    self->send_error({503, "Too many connections; try again later", "", "too_many_connections"});
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
  arriving_since_ = now_seconds();
  arm(patience);
  // Says that nothing was cut off; fails when the client is still sending.
  if (socket_.tls()) co_await socket_.tls()->async_shutdown(kAwait);
  if (expired_ || lost_) co_return;
  error_code ignored;
  tcp::socket& socket = socket_.lowest();
  socket.shutdown(tcp::socket::shutdown_send, ignored);
  const double end = now_seconds() + (stopping() ? patience : context_.limits.body_s);
  size_t read = 0;
  while (!expired_ && !lost_ && read <= context_.limits.body_bytes && now_seconds() < end) {
    arm(patience);
    auto [error, bytes] = co_await socket.async_read_some(asio::buffer(read_buffer_), kAwait);
    if (error || bytes == 0) break;
    read += bytes;
  }
}

void Connection::send_error(const ApiError& error) {
  make_exchange(false)->respond(error_response(error));
  close_ = true;
}

asio::awaitable<error_code> Connection::read_some() {
  auto [error, bytes] = co_await socket_.async_read_some(asio::buffer(read_buffer_), kAwait);
  input_.append(read_buffer_.data(), bytes);
  co_return error;
}

// Nothing came, or not in time. Within a request only silence is answered: who has left reads no answer.
void Connection::read_failed() {
  if (!expired_ || !parser_->started()) return;
  name_request();
  send_error({408, "The request did not arrive in time", "", "request_timeout"});
}

asio::awaitable<bool> Connection::read_first_byte() {
  if (!input_.empty()) co_return true;
  if (context_.stopping) co_return false;
  idle_ = true;
  arm(context_.limits.idle_s);
  const error_code error = co_await read_some();
  idle_ = false;
  co_return !error && !lost_;
}

asio::awaitable<bool> Connection::read_past(RequestParser::State state) {
  while (true) {
    input_.erase(0, parser_->take(input_));
    if (parser_->state() == RequestParser::State::failed) {
      name_request();
      send_error(parser_->fault());
      co_return false;
    }
    if (parser_->state() != state) co_return true;
    if (!account_for_body()) co_return false;
    const error_code error = co_await read_some();
    if (error || expired_) read_failed();
    if (error || expired_ || lost_) co_return false;
  }
}

// False: the connection ends, after what is queued to be sent.
asio::awaitable<bool> Connection::read_request() {
  parser_.emplace(context_.limits.header_bytes, context_.limits.body_bytes);
  body_.reset();
  name_ = {};
  status_ = 0;
  answer_headers_.clear();
  arriving_since_ = now_seconds();
  arrived_ = 0;
  const bool begun = co_await read_first_byte();
  if (!begun) co_return false;
  began_ = arriving_since_ = now_seconds();
  arm(context_.limits.header_s);
  const bool head = co_await read_past(RequestParser::State::head);
  if (!head) co_return false;
  name_request();
  answer_headers_ = context_.handlers.headers(parser_->request());
  if (parser_->state() == RequestParser::State::body) {
    if (refuse_body()) co_return false;
    if (parser_->expects_continue()) {
      send("HTTP/1.1 100 Continue\r\n\r\n", false);
      const bool sent = co_await flush();
      if (!sent) co_return false;
    }
    body_ = std::make_shared<BodyShare>(context_.all_body_bytes);
    arm(context_.limits.body_s);
    const bool whole = co_await read_past(RequestParser::State::body);
    if (!whole) co_return false;
    if (!account_for_body()) co_return false;
  }
  disarm();
  co_return !lost_;
}

// As far as the request can be read by now.
void Connection::name_request() {
  if (name_.id.empty())
    name_.id = fmt::format("req_{:016x}{:08x}", context_.random(), context_.random() >> 32);
  if (!parser_) return;
  const HttpRequest& request = parser_->request();
  const std::string* id = request.header("x-request-id");
  if (id && is_sane_id(*id)) name_.id = *id;
  name_.method = request.method;
  name_.target = request.target;
}

std::shared_ptr<Exchange> Connection::make_exchange(bool keep_alive) {
  Headers headers = answer_headers_;
  headers.emplace_back("x-request-id", name_.id);
  headers.emplace_back("request-id", name_.id);
  const bool http10 = parser_ && parser_->http10();
  return std::make_shared<Exchange>(this, http10, name_.method == "HEAD", keep_alive, std::move(headers));
}

void Connection::responded(int status) {
  status_ = status;
  context_.handlers.responded(name_, status);
}

// One line for each request; reads that succeed (health checks, metrics) are for the debug log.
void Connection::log_answer() {
  const bool read = name_.method == "GET" || name_.method == "HEAD";
  const std::string_view path = std::string_view(name_.target).substr(0, name_.target.find('?'));
  const auto level = read && status_ < 400 ? LogLevel::debug : LogLevel::info;
  if (log_enabled(level))
    log_message(level,
                fmt::format("{}: {} {} {} after {:.3f} s{}", name_.id,
                            name_.method.empty() ? "(unreadable)" : name_.method,
                            path.substr(0, kLoggedTarget), status_ ? std::to_string(status_) : "no answer",
                            now_seconds() - began_, lost_ ? ", cut off" : ""));
  status_ = 0;
}

bool Connection::refuse_body() {
  auto response = context_.handlers.refuse(parser_->request());
  if (!response) return false;
  make_exchange(false)->respond(std::move(*response));
  return close_ = true;
}

// False: the bodies of all requests take too much.
bool Connection::account_for_body() {
  if (!body_) return true;
  const size_t bytes = parser_->body_size();
  if (bytes >= arrived_ + kSlowBodyBytes) {
    arrived_ = bytes;
    arriving_since_ = now_seconds();
  }
  // A few large bodies do not keep small ones out; the number of connections bounds these.
  const size_t small = context_.limits.all_body_bytes / 1024;  // 256 KiB by default
  if (bytes <= small || body_->grow_to(bytes, context_.limits.all_body_bytes)) return true;
  send_error(
      {503, "The bodies of other requests take all the room there is; try again later", "", "overloaded"});
  return false;
}

// A read stays pending while a request is answered: it sees the client leave. What it reads of a next,
// pipelined request is kept; beyond kReadAhead of that we stop looking.
void Connection::watch() {
  if (watching_ || lost_ || input_.size() >= kReadAhead) return;
  watching_ = true;
  socket_.async_read_some(
      asio::buffer(read_buffer_),
      [self = shared_from_this()](error_code error, size_t bytes) { self->watched(error, bytes); });
}

void Connection::watched(error_code error, size_t bytes) {
  watching_ = false;
  input_.append(read_buffer_.data(), bytes);
  if (!error)
    watch();
  else if (error != asio::error::operation_aborted && exchange_ && !exchange_->done())
    lose();
  wake();
}

// Looks now and then, as long as the connection lives.
void Connection::watch_for_stall() {
  stall_timer_.expires_after(seconds(context_.limits.stall_s / 10));
  stall_timer_.async_wait([self = weak_from_this()](error_code error) {
    auto connection = self.lock();
    if (error || !connection || connection->lost_) return;
    if (connection->is_stalled()) {
      log_warning("{}: the client takes too little of what is sent: dropped", connection->name_.id);
      return connection->drop();
    }
    connection->watch_for_stall();
  });
}

bool Connection::is_stalled() {
  const size_t in_system = unacknowledged_bytes(socket_.lowest());
  const size_t unsent = output_.size() + writing_.size() - sent_;
  const uint64_t taken = sent_total_ > in_system ? sent_total_ - in_system : 0;
  return stall_.stalled(now_seconds(), unsent + in_system, unsent > 0, taken);
}

// Sends everything queued when it was called. Stalls are seen by watch_for_stall().
asio::awaitable<bool> Connection::flush() {
  disarm();
  writing_.swap(output_);
  output_.clear();
  sent_ = 0;
  while (sent_ < writing_.size() && !lost_) {
    auto [error, bytes] = co_await socket_.async_write_some(
        asio::buffer(writing_.data() + sent_, writing_.size() - sent_), kAwait);
    sent_ += bytes;
    sent_total_ += bytes;
    if (error) lose();
  }
  writing_.clear();
  sent_ = 0;
  co_return !lost_;
}

asio::awaitable<void> Connection::answer() {
  exchange_ = make_exchange(parser_->keep_alive());
  HttpRequest request = parser_->take_request();
  request.held = std::move(body_);
  try {
    context_.handlers.handle(std::move(request), exchange_);
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
  log_answer();
  close_ = !exchange_->keep_alive() || stopping();
  exchange_->detach();
  kept_ = true;
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
