// One client's connection: each request is read (RequestReader) and answered (HttpHandlers), and the answer
// is sent (Exchange, OutputQueue).
//
// Ownership: a connection belongs to the coroutine that runs it, and ends with it. I/O thread only.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <unordered_set>

#include "server/http/admission.h"
#include "server/http/client_socket.h"
#include "server/http/exchange.h"
#include "server/http/http_server.h"
#include "server/http/output_queue.h"
#include "server/http/request_reader.h"
#include "server/http/request_record.h"

namespace anabranch::server {

class Connection;

// Data that the connections of a server share.
struct ConnectionContext {
  explicit ConnectionContext(const HttpLimits& limits_) : limits(limits_) {}

  const HttpLimits limits;
  HttpHandlers handlers;
  std::shared_ptr<asio::ssl::context> tls;  // null: plain HTTP
  const std::shared_ptr<BodyTotals> bodies = std::make_shared<BodyTotals>();
  bool stopping = false;
  std::mt19937_64 random{std::random_device{}()};  // of request ids
  std::unordered_set<Connection*> connections;
  asio::io_context io{1};  // last: its destructor ends the coroutines that use the other members
};

class Connection final : public Outlet, public std::enable_shared_from_this<Connection> {
 public:
  Connection(tcp::socket socket, ConnectionContext& context);
  ~Connection() override;

  static asio::awaitable<void> run(std::shared_ptr<Connection> self);
  // For connections beyond the limit: sends an error and closes.
  static asio::awaitable<void> refuse(std::shared_ptr<Connection> self);

  void send(std::string_view data, bool limited) override;
  void wake() override { wake_.cancel(); }
  bool stopping() const override { return context_.stopping; }
  void responded(int status) override;
  void note(std::shared_ptr<const AnswerNote> note) override { record_.note(std::move(note)); }

  // Gives up the client, because it has left, is stalled or must be disconnected. Notifies whoever answers;
  // run() ends soon.
  void lose();
  bool lost() const { return socket_.abandoned(); }
  bool refused() const { return refused_; }
  void begin_stop();
  ConnectionState state() const;

 private:
  asio::awaitable<bool> handshake();
  asio::awaitable<bool> read_request();
  asio::awaitable<void> answer();
  asio::awaitable<void> end();
  void drop();
  bool refuse_body();
  void send_error(const ApiError& error);
  std::shared_ptr<Exchange> make_exchange(bool keep_alive);
  void identify();
  void end_record(bool cut_off);
  void watch_for_leaving();
  void watch_for_stall();

  ConnectionContext& context_;
  ClientSocket socket_;
  RequestReader reader_;
  OutputQueue output_;
  const std::string network_;  // of the client, as network_of() gives it
  asio::steady_timer wake_;    // waits for something to send
  asio::steady_timer stall_timer_;
  RequestRecord record_;    // of the request that is read or answered
  Headers answer_headers_;  // of its answer, beside the answer's own
  std::shared_ptr<Exchange> exchange_;
  bool watching_ = false;  // watch_for_leaving() has a read pending
  bool handshaking_ = false;
  bool kept_ = false;     // an earlier request was answered on this connection
  bool refused_ = false;  // only gets the error about too many connections
  bool close_ = false;    // the connection ends after the queued data has been sent
};

}  // namespace anabranch::server
