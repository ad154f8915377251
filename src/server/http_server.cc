#include "server/http_server.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <chrono>
#include <ctime>
#include <exception>
#include <mutex>
#include <optional>
#include <unordered_set>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "server/api_error.h"

namespace anabranch::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;
using tcp = asio::ip::tcp;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr size_t kReadAhead = 64u << 10;  // bytes of later requests taken while one is being answered
constexpr int kRefusals = 64;  // connections beyond the limit that are told so; more are just closed
constexpr double kLingerSeconds = 2, kLingerStoppingSeconds = 0.2;

std::chrono::steady_clock::duration seconds(double s) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(s));
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c += 'a' - 'A';
  return result;
}

// IMF-fixdate of RFC 9110, 5.6.7. The C locale's names: the process sets no other.
std::string http_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &utc)};
}

// A connection's bytes, through TLS or not: what Beast and Asio ask of a stream.
class Stream {
 public:
  using executor_type = tcp::socket::executor_type;

  Stream(tcp::socket socket, asio::ssl::context* tls) : tcp_(std::move(socket)) {
    if (tls) tls_.emplace(tcp_, *tls);
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
  tcp::socket tcp_;
  std::optional<asio::ssl::stream<tcp::socket&>> tls_;
};

// One body's share of the bytes that all bodies may take; given back from whichever thread drops it.
class BodyShare {
 public:
  explicit BodyShare(std::shared_ptr<std::atomic<size_t>> all) : all_(std::move(all)) {}
  BodyShare(const BodyShare&) = delete;
  ~BodyShare() { *all_ -= bytes_; }
  // False: they take more than `limit` now.
  bool grow_to(size_t bytes, size_t limit) {
    const size_t more = bytes - bytes_;
    bytes_ = bytes;
    return (*all_ += more) <= limit;
  }

 private:
  std::shared_ptr<std::atomic<size_t>> all_;
  size_t bytes_ = 0;
};

class Connection;

// Outlives its connection when the answer does: then it drops what it is told.
class Exchange final : public ResponseStream {
 public:
  Exchange(Connection* connection, bool http10, bool head, bool keep_alive)
      : connection_(connection), http10_(http10), head_(head), keep_alive_(keep_alive) {}

  void respond(HttpResponse response) override;
  void start(std::string content_type, std::string heartbeat) override;
  void write(std::string_view data) override;
  void finish(bool close_connection) override;
  void on_client_left(std::function<void()> left) override { left_ = std::move(left); }

  bool done() const { return done_; }
  bool streaming() const { return started_ && !done_; }
  bool keep_alive() const { return keep_alive_; }
  const std::string& heartbeat() const { return heartbeat_; }
  // The connection is gone or no longer interested.
  std::function<void()> detach() {
    connection_ = nullptr;
    return std::exchange(left_, nullptr);
  }

 private:
  std::string head(const HttpResponse& response, bool chunked) const;

  Connection* connection_;
  const bool http10_, head_;
  bool keep_alive_;
  bool started_ = false, done_ = false;
  std::string heartbeat_;
  std::function<void()> left_;
};

class ServerImpl;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, ServerImpl& server);
  ~Connection();

  static asio::awaitable<void> run(std::shared_ptr<Connection> self);
  // For connections beyond the limit: an error and a close.
  static asio::awaitable<void> refuse(std::shared_ptr<Connection> self);

  // Queues bytes to send; wakes the writer. limited: drops the client when too many pile up.
  void send(std::string_view data, bool limited);
  void wake() { wake_.cancel(); }
  // The client is gone, stalled, or no longer wanted: whoever answers is told, and run() ends soon.
  void lose();
  void begin_stop();
  bool stopping() const;
  void responded(int status);

 private:
  asio::awaitable<bool> handshake();
  asio::awaitable<bool> read_request();
  bool refuse_body();
  asio::awaitable<bool> read_body();
  asio::awaitable<bool> read_first_byte();
  asio::awaitable<void> answer();
  asio::awaitable<bool> flush();
  asio::awaitable<void> linger();
  void request_failed(error_code error);
  void send_error(int status, std::string message, const char* code);
  HttpRequest request_head() const;
  HttpRequest take_request();
  void watch();
  void watched(error_code error, size_t bytes);
  void arm(double s);
  void disarm();

  ServerImpl& server_;
  Stream socket_;
  asio::steady_timer deadline_;  // of the current read or write: cancels the socket's operations
  uint64_t deadline_number_ = 0;
  bool expired_ = false;
  asio::steady_timer wake_;  // waits for something to send
  boost::beast::flat_buffer input_;
  std::optional<http::request_parser<http::string_body>> parser_;
  std::shared_ptr<BodyShare> body_;
  std::string target_;  // of the request that is answered
  std::string output_, writing_;
  size_t sent_ = 0;  // of writing_
  std::shared_ptr<Exchange> exchange_;
  bool watching_ = false;  // a read is pending while a request is answered, to see the client leave
  bool idle_ = false;      // waits for a request's first byte
  bool lost_ = false;
  bool close_ = false;  // after what is queued has been sent
};

class ServerImpl final : public HttpServer {
 public:
  ServerImpl(const HttpLimits& limits) : limits_(limits), acceptor_(io_), gate_(std::make_shared<Gate>()) {
    gate_->io = &io_;
  }
  ~ServerImpl() override { close_gate(); }

  Result<void> use_tls(const TlsFiles& files);
  Result<void> open(const std::string& host, uint16_t port);
  uint16_t port() const override { return port_; }
  Post post() override;
  void serve(Handler handler, Refusal refusal, Responded responded) override;
  void begin_stop() override;
  void close_all() override;
  void after(double s, std::function<void()> run) override;

  asio::io_context& io() { return io_; }
  const HttpLimits& limits() const { return limits_; }
  const Handler& handler() const { return handler_; }
  const Refusal& refusal() const { return refusal_; }
  const Responded& responded() const { return responded_; }
  asio::ssl::context* tls() { return tls_ ? &*tls_ : nullptr; }
  const std::shared_ptr<std::atomic<size_t>>& all_body_bytes() const { return all_body_bytes_; }
  bool stopping() const { return stopping_; }
  void add(Connection* connection) { connections_.insert(connection); }
  void remove(Connection* connection);

 private:
  // Closed when the I/O thread ends; posts after that are dropped.
  struct Gate {
    std::mutex mutex;
    asio::io_context* io = nullptr;
  };

  asio::awaitable<void> accept();
  void close_gate() {
    std::lock_guard lock(gate_->mutex);
    gate_->io = nullptr;
  }

  const HttpLimits limits_;
  const std::shared_ptr<std::atomic<size_t>> all_body_bytes_ = std::make_shared<std::atomic<size_t>>(0);
  Handler handler_;
  Refusal refusal_;
  Responded responded_;
  std::optional<asio::ssl::context> tls_;
  std::unordered_set<Connection*> connections_;
  bool stopping_ = false;
  uint16_t port_ = 0;
  asio::io_context io_{1};
  tcp::acceptor acceptor_;
  std::shared_ptr<Gate> gate_;
};

// --- Exchange: formats an answer ---

std::string Exchange::head(const HttpResponse& response, bool chunked) const {
  std::string text =
      fmt::format("HTTP/1.1 {} {}\r\n", response.status,
                  std::string_view(http::obsolete_reason(http::int_to_status(response.status))));
  text += fmt::format("Server: anabranch\r\nDate: {}\r\n", http_date());
  text += fmt::format("Content-Type: {}\r\n", response.content_type);
  for (const auto& [name, value] : response.headers) text += fmt::format("{}: {}\r\n", name, value);
  if (chunked)
    text += "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";  // nginx must not hold events back
  else
    text += fmt::format("Content-Length: {}\r\n", response.body.size());
  if (chunked && !http10_) text += "Transfer-Encoding: chunked\r\n";
  if (!keep_alive_)
    text += "Connection: close\r\n";
  else if (http10_)
    text += "Connection: keep-alive\r\n";
  return text + "\r\n";
}

void Exchange::respond(HttpResponse response) {
  if (done_ || started_) return;
  done_ = true;
  if (!connection_) return;
  connection_->responded(response.status);
  if (connection_->stopping()) keep_alive_ = false;
  std::string text = head(response, false);
  if (!head_) text += response.body;
  connection_->send(text, false);
}

void Exchange::start(std::string content_type, std::string heartbeat) {
  if (done_ || started_) return;
  started_ = true;
  heartbeat_ = std::move(heartbeat);
  if (!connection_) return;
  if (http10_ || connection_->stopping()) keep_alive_ = false;  // HTTP/1.0 ends a stream by closing
  HttpResponse response;
  connection_->responded(response.status);
  response.content_type = std::move(content_type);
  connection_->send(head(response, true), true);
}

void Exchange::write(std::string_view data) {
  if (!connection_ || !streaming() || data.empty() || head_) return;
  if (http10_)
    connection_->send(data, true);
  else
    connection_->send(fmt::format("{:x}\r\n{}\r\n", data.size(), data), true);
}

void Exchange::finish(bool close_connection) {
  if (!streaming()) return;
  done_ = true;
  if (!connection_) return;
  if (close_connection) keep_alive_ = false;
  if (!http10_ && !head_) connection_->send("0\r\n\r\n", false);
  connection_->wake();
}

// --- Connection ---

Connection::Connection(tcp::socket socket, ServerImpl& server)
    : server_(server),
      socket_(std::move(socket), server.tls()),
      deadline_(server.io()),
      wake_(server.io()),
      input_(server.limits().header_bytes + 2 * kReadAhead) {
  server_.add(this);
}

Connection::~Connection() {
  if (exchange_) exchange_->detach();
  server_.remove(this);
}

bool Connection::stopping() const {
  return server_.stopping();
}

void Connection::responded(int status) {
  server_.responded()(target_, status);
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
  if (limited && output_.size() + writing_.size() - sent_ > server_.limits().output_queue_bytes) {
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
    if (left && !done) asio::post(server_.io(), std::move(left));
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
  arm(server_.limits().header_s);
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
  const double end = now_seconds() + (stopping() ? patience : server_.limits().body_s);
  size_t read = 0;
  while (!expired_ && !lost_ && read <= server_.limits().body_bytes && now_seconds() < end) {
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
  const HttpLimits& limits = server_.limits();
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
  arm(server_.limits().idle_s);
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
  parser_->header_limit(static_cast<uint32_t>(server_.limits().header_bytes));
  parser_->body_limit(server_.limits().body_bytes);
  arm(server_.limits().header_s);
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
  auto response = server_.refusal()(request_head());
  if (!response) return false;
  const auto& head = parser_->get();
  Exchange(this, head.version() < 11, head.method() == http::verb::head, false).respond(std::move(*response));
  return close_ = true;
}

asio::awaitable<bool> Connection::read_body() {
  body_ = std::make_shared<BodyShare>(server_.all_body_bytes());
  arm(server_.limits().body_s);
  while (!parser_->is_done()) {
    auto [error, bytes] = co_await http::async_read_some(socket_, input_, *parser_, kAwait);
    if (error) {
      request_failed(error);
      co_return false;
    }
    if (!body_->grow_to(parser_->get().body().size(), server_.limits().all_body_bytes)) {
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
  const HttpLimits& limits = server_.limits();
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
    server_.handler()(take_request(), exchange_);
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
    wake_.expires_after(seconds(server_.limits().heartbeat_s));
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

// --- Server ---

Result<void> ServerImpl::use_tls(const TlsFiles& files) {
  if (files.certificate.empty() && files.key.empty()) return {};
  tls_.emplace(asio::ssl::context::tls_server);
  error_code error;
  const auto bad = [&](const char* what, const std::string& path) {
    tls_.reset();
    return make_error(ErrorKind::invalid, "cannot use '{}' as the TLS {} (PEM): {}", path, what,
                      error.message());
  };
  SSL_CTX_set_min_proto_version(tls_->native_handle(), TLS1_2_VERSION);
  tls_->use_certificate_chain_file(files.certificate, error);
  if (error) return bad("certificate", files.certificate);
  tls_->use_private_key_file(files.key, asio::ssl::context::pem, error);
  if (error) return bad("key", files.key);
  return {};
}

Result<void> ServerImpl::open(const std::string& host, uint16_t port) {
  std::string name = host;
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') name = name.substr(1, name.size() - 2);
  error_code error;
  tcp::resolver resolver(io_);
  const auto found = resolver.resolve(name, std::to_string(port), tcp::resolver::passive, error);
  if (error || found.empty())
    return make_error(ErrorKind::invalid, "cannot listen on '{}': no such host ({})", host, error.message());
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(1024, error);
  if (!error) port_ = acceptor_.local_endpoint(error).port();
  if (error == asio::error::address_in_use)
    return make_error(ErrorKind::io,
                      "port {} of {} is already in use; stop what listens there or choose another port", port,
                      host);
  if (error) return make_error(ErrorKind::io, "cannot listen on {} port {}: {}", host, port, error.message());
  return {};
}

Post ServerImpl::post() {
  return [gate = gate_](std::function<void()> run) {
    std::lock_guard lock(gate->mutex);
    if (gate->io) asio::post(*gate->io, std::move(run));
  };
}

asio::awaitable<void> ServerImpl::accept() {
  while (!stopping_) {
    auto [error, socket] = co_await acceptor_.async_accept(kAwait);
    if (stopping_) break;
    if (error) {  // out of descriptors, most likely: wait for some to come back
      log_warning("cannot accept a connection: {}", error.message());
      asio::steady_timer pause(io_, seconds(0.05));
      co_await pause.async_wait(kAwait);
      continue;
    }
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    const int open = static_cast<int>(connections_.size());
    if (open >= limits_.connections + kRefusals) continue;
    auto connection = std::make_shared<Connection>(std::move(socket), *this);
    if (open < limits_.connections)
      asio::co_spawn(io_, Connection::run(std::move(connection)), asio::detached);
    else
      asio::co_spawn(io_, Connection::refuse(std::move(connection)), asio::detached);
  }
}

void ServerImpl::serve(Handler handler, Refusal refusal, Responded responded) {
  handler_ = std::move(handler);
  refusal_ = std::move(refusal);
  responded_ = std::move(responded);
  asio::co_spawn(io_, accept(), asio::detached);
  auto work = asio::make_work_guard(io_);
  while (true) {
    try {
      io_.run();
      break;
    } catch (const std::exception& e) {
      log_error("the server's I/O loop caught: {}", e.what());
    }
  }
  close_gate();
}

void ServerImpl::remove(Connection* connection) {
  connections_.erase(connection);
  if (stopping_ && connections_.empty()) io_.stop();
}

void ServerImpl::begin_stop() {
  if (stopping_) return;
  stopping_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  const std::vector<Connection*> open(connections_.begin(), connections_.end());
  for (Connection* connection : open) connection->begin_stop();
  if (connections_.empty()) io_.stop();
}

void ServerImpl::close_all() {
  const std::vector<Connection*> open(connections_.begin(), connections_.end());
  for (Connection* connection : open) connection->lose();
}

void ServerImpl::after(double s, std::function<void()> run) {
  auto timer = std::make_shared<asio::steady_timer>(io_, seconds(s));
  timer->async_wait([timer, run = std::move(run)](error_code error) {
    if (!error) run();
  });
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const std::string& host, uint16_t port,
                                                       const HttpLimits& limits, const TlsFiles& tls) {
  auto server = std::make_unique<ServerImpl>(limits);
  TRY_VOID(server->use_tls(tls));
  TRY_VOID(server->open(host, port));
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace anabranch::server
