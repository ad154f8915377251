#include "server/http/http_server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "server/http/connection.h"
#include "server/http/tls.h"

namespace anabranch::server {
namespace {

constexpr int kRefusals =
    64;  // connections beyond the limit that get an error; further ones are closed without one
constexpr double kWarningSeconds = 10;  // between two log lines about the same problem

class ServerImpl final : public HttpServer {
 public:
  ServerImpl(const HttpLimits& limits, TlsFiles tls_files, std::shared_ptr<asio::ssl::context> tls)
      : tls_files_(std::move(tls_files)), context_(limits), acceptor_(context_.io) {
    context_.tls = std::move(tls);
    gate_->io = &context_.io;
  }
  ~ServerImpl() override { close_gate(); }

  Result<void> open(const std::string& host, uint16_t port);
  uint16_t port() const override { return port_; }
  Post post() override;
  void serve(HttpHandlers handlers) override;
  Result<void> reload_tls() override;
  void begin_stop() override;
  void close_all() override;
  void after(double s, std::function<void()> run) override;

 private:
  // Closed when the I/O thread ends. Later posts are dropped.
  struct Gate {
    std::mutex mutex;
    asio::io_context* io = nullptr;
  };

  asio::awaitable<void> accept();
  void take(tcp::socket socket);
  void close_gate() {
    std::lock_guard lock(gate_->mutex);
    gate_->io = nullptr;
  }

  const TlsFiles tls_files_;
  ConnectionContext context_;
  uint16_t port_ = 0;
  tcp::acceptor acceptor_;
  const std::shared_ptr<Gate> gate_ = std::make_shared<Gate>();
};

Result<void> ServerImpl::reload_tls() {
  TRY(auto tls, tls_context(tls_files_));
  post()([this, tls = std::move(tls)] { context_.tls = tls; });
  return {};
}

Result<void> ServerImpl::open(const std::string& host, uint16_t port) {
  if (host.empty())
    return make_error(
        ErrorKind::invalid,
        "the address to listen on is empty: --host 127.0.0.1 is this machine alone, 0.0.0.0 all "
        "of its networks");
  std::string name = host;
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') name = name.substr(1, name.size() - 2);
  error_code error;
  tcp::resolver resolver(context_.io);
  const auto found = resolver.resolve(name, std::to_string(port), tcp::resolver::passive, error);
  if (error || found.empty())
    return make_error(
        ErrorKind::invalid,
        "cannot listen on '{}': no such host ({}); --host takes a name or an address alone, such as "
        "127.0.0.1, and --port the port",
        host, error.message());
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
  if (error == asio::error::access_denied)
    return make_error(
        ErrorKind::io,
        "port {} may only be used by root and by programs with CAP_NET_BIND_SERVICE; choose one of 1024 or "
        "above, such as 8080",
        port);
  if (error == boost::system::errc::address_not_available)
    return make_error(
        ErrorKind::invalid,
        "cannot listen on {}: this machine has no such address; --host 127.0.0.1 is this machine "
        "alone, 0.0.0.0 all of its networks",
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
  double warned = -1;
  while (!context_.stopping) {
    auto [error, socket] = co_await acceptor_.async_accept(kAwait);
    if (context_.stopping) break;
    if (!error) {
      try {
        take(std::move(socket));
      } catch (const std::exception& e) {  // no memory for it; others are still served
        log_warning("a connection was dropped: {}", e.what());
      }
      continue;
    }
    if (error == asio::error::connection_aborted) continue;
    // Most likely the process has no free file descriptors: wait until some are closed.
    if (warned < 0 || now_seconds() - warned > kWarningSeconds) {
      warned = now_seconds();
      log_warning("cannot accept connections: {}", error.message());
    }
    asio::steady_timer pause(context_.io, seconds(0.05));
    co_await pause.async_wait(kAwait);
  }
}

void ServerImpl::take(tcp::socket socket) {
  error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  std::vector<ConnectionState> states;
  std::vector<Connection*> candidates;
  int refused = 0;
  for (Connection* connection : context_.connections) {
    refused += connection->refused();
    if (connection->refused() || connection->lost()) continue;
    states.push_back(connection->state());
    candidates.push_back(connection);
  }
  auto connection = std::make_shared<Connection>(std::move(socket), context_);
  const HttpLimits& limits = context_.limits;
  const Admission admission = admit(states, connection->state().network, limits.connections,
                                    limits.connections_per_address, limits.give_way_s, now_seconds());
  if (admission.leaves) candidates[*admission.leaves]->lose();
  if (admission.admitted)
    asio::co_spawn(context_.io, Connection::run(std::move(connection)), asio::detached);
  else if (refused < kRefusals)
    asio::co_spawn(context_.io, Connection::refuse(std::move(connection)), asio::detached);
}

void ServerImpl::serve(HttpHandlers handlers) {
  context_.handlers = std::move(handlers);
  asio::co_spawn(context_.io, accept(), asio::detached);
  auto work = asio::make_work_guard(context_.io);
  while (true) {
    try {
      context_.io.run();
      break;
    } catch (const std::exception& e) {
      log_error("the server's I/O loop caught: {}", e.what());
    }
  }
  close_gate();
}

void ServerImpl::begin_stop() {
  if (context_.stopping) return;
  context_.stopping = true;
  error_code ignored;
  acceptor_.close(ignored);
  const std::vector<Connection*> open(context_.connections.begin(), context_.connections.end());
  for (Connection* connection : open) connection->begin_stop();
  if (context_.connections.empty()) context_.io.stop();
}

void ServerImpl::close_all() {
  const std::vector<Connection*> open(context_.connections.begin(), context_.connections.end());
  for (Connection* connection : open) connection->lose();
}

void ServerImpl::after(double s, std::function<void()> run) {
  auto timer = std::make_shared<asio::steady_timer>(context_.io, seconds(s));
  timer->async_wait([timer, run = std::move(run)](error_code error) {
    if (!error) run();
  });
}

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(const std::string& host, uint16_t port,
                                                       const HttpLimits& limits, const TlsFiles& tls) {
  TRY(auto context, tls_context(tls));
  auto server = std::make_unique<ServerImpl>(limits, tls, std::move(context));
  TRY_VOID(server->open(host, port));
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace anabranch::server
