#include "server/http_server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <mutex>
#include <vector>

#include "base/log.h"
#include "server/http_connection.h"
#include "server/http_tls.h"

namespace anabranch::server {
namespace {

constexpr int kRefusals = 64;  // connections beyond the limit that are told so; more are just closed

class ServerImpl final : public HttpServer {
 public:
  explicit ServerImpl(const HttpLimits& limits)
      : context_(limits), acceptor_(context_.io), gate_(std::make_shared<Gate>()) {
    gate_->io = &context_.io;
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

  ConnectionContext context_;
  uint16_t port_ = 0;
  tcp::acceptor acceptor_;
  std::shared_ptr<Gate> gate_;
};

Result<void> ServerImpl::use_tls(const TlsFiles& files) {
  TRY(context_.tls, tls_context(files));
  return {};
}

Result<void> ServerImpl::open(const std::string& host, uint16_t port) {
  std::string name = host;
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') name = name.substr(1, name.size() - 2);
  error_code error;
  tcp::resolver resolver(context_.io);
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
  while (!context_.stopping) {
    auto [error, socket] = co_await acceptor_.async_accept(kAwait);
    if (context_.stopping) break;
    if (error) {  // out of descriptors, most likely: wait for some to come back
      log_warning("cannot accept a connection: {}", error.message());
      asio::steady_timer pause(context_.io, seconds(0.05));
      co_await pause.async_wait(kAwait);
      continue;
    }
    error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    const int open = static_cast<int>(context_.connections.size());
    if (open >= context_.limits.connections + kRefusals) continue;
    auto connection = std::make_shared<Connection>(std::move(socket), context_);
    if (open < context_.limits.connections)
      asio::co_spawn(context_.io, Connection::run(std::move(connection)), asio::detached);
    else
      asio::co_spawn(context_.io, Connection::refuse(std::move(connection)), asio::detached);
  }
}

void ServerImpl::serve(Handler handler, Refusal refusal, Responded responded) {
  context_.handler = std::move(handler);
  context_.refusal = std::move(refusal);
  context_.responded = std::move(responded);
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
  auto server = std::make_unique<ServerImpl>(limits);
  TRY_VOID(server->use_tls(tls));
  TRY_VOID(server->open(host, port));
  return std::unique_ptr<HttpServer>(std::move(server));
}

}  // namespace anabranch::server
