#include "server/http/connection.h"

#include <boost/asio/post.hpp>
#include <exception>

#include "base/clock.h"
#include "base/log.h"
#include "server/http/api_error.h"

namespace anabranch::server {
namespace {

constexpr size_t kReadAhead = 64u << 10;  // bytes of later requests that are read while one is being answered
constexpr double kLingerSeconds = 2, kLingerStoppingSeconds = 0.2;

}  // namespace

Connection::Connection(tcp::socket socket, ConnectionContext& context)
    : context_(context),
      socket_(context.io, std::move(socket), context.tls),
      reader_(socket_, context.limits, context.bodies),
      output_(socket_, StallWatch(context.limits.stall_s, context.limits.stall_bytes)),
      network_(context.limits.proxies.contains(socket_.address()) ? "" : network_of(socket_.address())),
      wake_(context.io),
      stall_timer_(context.io),
      record_(now_seconds()) {
  context_.connections.insert(this);
}

Connection::~Connection() {
  if (exchange_) exchange_->detach();
  context_.connections.erase(this);
  if (context_.stopping && context_.connections.empty()) context_.io.stop();
}

ConnectionState Connection::state() const {
  const auto phase = exchange_                    ? ConnectionState::Phase::busy
                     : reader_.waiting() && kept_ ? ConnectionState::Phase::kept
                                                  : ConnectionState::Phase::arriving;
  return {network_, phase, reader_.slow_since()};
}

void Connection::send(std::string_view data, bool limited) {
  if (lost()) return;
  output_.add(data);
  wake();
  if (limited && output_.unsent() > context_.limits.output_queue_bytes) {
    log_warning("{}: the client reads too slowly: dropped with {} bytes unsent", record_.name().id,
                output_.unsent());
    drop();
  }
}

// Like lose(), but discards data that the client has not taken yet.
void Connection::drop() {
  socket_.reset_on_close();
  lose();
}

void Connection::lose() {
  if (lost()) return;
  socket_.abandon();
  if (exchange_) {
    const bool done = exchange_->done();
    auto left = exchange_->detach();
    // Posted, because the callback's owner may be calling us right now.
    if (left && !done) asio::post(context_.io, std::move(left));
  }
  wake();
}

void Connection::begin_stop() {
  if (handshaking_ || reader_.waiting()) lose();
}

asio::awaitable<void> Connection::run(std::shared_ptr<Connection> self) {
  Connection& c = *self;
  try {
    c.watch_for_stall();
    const bool open = co_await c.handshake();
    if (!open) c.lose();
    // No `... && co_await ...`: g++ 12 awaits before it tests the left operand.
    while (!c.lost() && !c.close_) {
      const bool got = co_await c.read_request();
      if (!got) break;
      co_await c.answer();
    }
    co_await c.end();
  } catch (const std::exception& e) {  // out of memory, most likely
    log_error("a connection failed: {}", e.what());
    c.lose();
    if (c.record_.is_open()) c.end_record(true);
  }
  c.socket_.close();
}

asio::awaitable<void> Connection::refuse(std::shared_ptr<Connection> self) {
  self->refused_ = true;
  self->watch_for_stall();
  const bool open = co_await self->handshake();
  if (open) {
    self->send_error({503, "Too many connections; try again later", "", "too_many_connections"});
    co_await self->end();
  }
  self->socket_.close();
}

asio::awaitable<bool> Connection::handshake() {
  if (!socket_.has_tls()) co_return true;
  if (stopping()) co_return false;
  handshaking_ = true;
  socket_.arm(context_.limits.header_s);
  const bool open = co_await socket_.handshake();
  socket_.disarm();
  handshaking_ = false;
  co_return open;
}

// Sends the error that ended reading, if any, and gives the client time to take the sent data.
asio::awaitable<void> Connection::end() {
  if (!lost() && !output_.empty()) {
    const bool sent = co_await output_.flush();
    if (!sent) lose();
  }
  if (record_.is_open() && !refused_) end_record(lost());
  if (lost() || !close_) co_return;
  const double pause_s = stopping() ? kLingerStoppingSeconds : kLingerSeconds;
  co_await socket_.linger(pause_s, stopping() ? pause_s : context_.limits.body_s, context_.limits.body_bytes);
}

// Reads the next request. False: the connection must end after the queued data has been sent.
asio::awaitable<bool> Connection::read_request() {
  record_ = RequestRecord(now_seconds());
  answer_headers_.clear();
  if (stopping() && reader_.input().empty()) co_return false;
  const bool begun = co_await reader_.wait();
  if (!begun) co_return false;
  record_ = RequestRecord(now_seconds());
  record_.begin();
  bool read = co_await reader_.read_head();
  if (read) {
    identify();
    answer_headers_ = context_.handlers.headers(*reader_.request());
    if (reader_.has_body()) {
      if (refuse_body()) co_return false;
      if (reader_.expects_continue()) {
        send("HTTP/1.1 100 Continue\r\n\r\n", false);
        const bool sent = co_await output_.flush();
        if (!sent) lose();
      }
      read = co_await reader_.read_body(record_.sender());
    }
  }
  if (!read && reader_.fault()) send_error(*reader_.fault());
  co_return read && !lost();
}

bool Connection::refuse_body() {
  auto response = context_.handlers.refuse(*reader_.request(), record_.address());
  if (!response) return false;
  make_exchange(false)->respond(std::move(*response));
  return close_ = true;
}

// Gets the client's identity from the request's head.
void Connection::identify() {
  const HttpRequest* head = reader_.request();
  record_.identify(head, context_.random);
  const ConnectionContext& c = context_;
  if (!head) return record_.set_client(socket_.address(), "");
  record_.set_client(c.limits.proxies.client_of(socket_.address(), *head), c.handlers.key_of(*head));
}

void Connection::end_record(bool cut_off) {
  record_.log(cut_off);
  context_.handlers.ended(record_.end(cut_off));
}

// Sends an error and drops the request: the rest that its client still sends is not needed.
void Connection::send_error(const ApiError& error) {
  identify();
  make_exchange(false)->respond(context_.handlers.error(record_.name(), error));
  close_ = true;
  reader_.drop_request();
}

std::shared_ptr<Exchange> Connection::make_exchange(bool keep_alive) {
  const RequestName& name = record_.name();
  Headers headers = answer_headers_;
  headers.emplace_back("x-request-id", name.id);
  headers.emplace_back("request-id", name.id);
  if (!name.session.empty()) headers.emplace_back("x-session-id", name.session);
  return std::make_shared<Exchange>(this, reader_.http10(), name.method == "HEAD", keep_alive,
                                    std::move(headers));
}

void Connection::responded(int status) {
  record_.answered(status);
  context_.handlers.responded(record_.name(), status);
}

// Keeps a read pending while a request is answered, because it fails when the client leaves. Bytes of a next,
// pipelined request are kept; reading stops at kReadAhead bytes.
void Connection::watch_for_leaving() {
  if (watching_ || lost() || reader_.input().size() >= kReadAhead) return;
  watching_ = true;
  socket_.read_in_background(reader_.input(), [self = shared_from_this()](error_code error) {
    self->watching_ = false;
    if (!error)
      self->watch_for_leaving();
    else if (error != asio::error::operation_aborted && self->exchange_ && !self->exchange_->done())
      self->lose();
    self->wake();
  });
}

// Checks ten times per stall_s, as long as the connection lives.
void Connection::watch_for_stall() {
  stall_timer_.expires_after(seconds(context_.limits.stall_s / 10));
  stall_timer_.async_wait([self = weak_from_this()](error_code error) {
    auto connection = self.lock();
    if (error || !connection || connection->lost()) return;
    if (connection->output_.stalled(now_seconds())) {
      log_warning("{}: the client takes too little of what is sent: dropped", connection->record_.name().id);
      return connection->drop();
    }
    connection->watch_for_stall();
  });
}

asio::awaitable<void> Connection::answer() {
  exchange_ = make_exchange(reader_.keep_alive());
  try {
    HttpRequest request = reader_.take_request();
    request.address = record_.address();
    context_.handlers.handle(std::move(request), exchange_);
  } catch (const std::exception& e) {
    log_error("a request failed: {}", e.what());
    exchange_->respond(
        context_.handlers.error(record_.name(), {500, "Internal error", "", "internal_error"}));
  }
  if (!exchange_->done()) watch_for_leaving();
  while (!lost()) {
    if (!output_.empty()) {
      const bool sent = co_await output_.flush();
      if (!sent) lose();
      continue;
    }
    if (exchange_->done()) break;
    wake_.expires_after(seconds(context_.limits.heartbeat_s));
    auto [cancelled] = co_await wake_.async_wait(kAwait);  // cancelled by wake(): there is something to send
    if (!cancelled && exchange_->streaming()) exchange_->write(exchange_->heartbeat());
  }
  end_record(lost());
  close_ = !exchange_->keep_alive() || stopping();
  exchange_->detach();
  kept_ = true;
  // The pending read of watch_for_leaving() must end before the next request is read.
  while (watching_) {
    socket_.cancel();
    wake_.expires_after(seconds(1));
    co_await wake_.async_wait(kAwait);
  }
  exchange_.reset();
  reader_.drop_request();
}

}  // namespace anabranch::server
