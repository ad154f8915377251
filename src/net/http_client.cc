#include "net/http_client.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <list>
#include <optional>

#include "base/check.h"
#include "base/lower_case.h"
#include "base/white_space.h"
#include "net/certificates.h"

namespace anabranch::net {
namespace {

constexpr size_t kIdleConnections = 4;
constexpr double kConnectSeconds = 15;
constexpr long kBufferBytes = 256 << 10;

struct Running {
  Transfer transfer;
  Transfers::Done done;
  Response response;
  CURL* const handle = curl_easy_init();
  curl_slist* headers = nullptr;
  size_t header_bytes = 0;
  bool concluded = false;
  char error[CURL_ERROR_SIZE] = "";

  Running(Transfer t, Transfers::Done d) : transfer(std::move(t)), done(std::move(d)) {
    CHECK(handle, "out of memory");
  }
  ~Running() {
    curl_easy_cleanup(handle);
    curl_slist_free_all(headers);
  }
  void end(End how, const std::string& problem) {
    response.end = how;
    response.problem = problem;
  }
};

size_t take_header(const char* data, size_t, size_t size, void* user) {
  auto& running = *static_cast<Running*>(user);
  running.header_bytes += size;
  if (running.header_bytes > running.transfer.max_header_bytes) return 0;
  const std::string_view line(data, size);
  if (line.starts_with("HTTP/")) {  // of a proxy, or of an interim answer, another may follow
    running.response.headers.clear();
    return size;
  }
  if (const size_t colon = line.find(':'); colon != line.npos)
    running.response.headers[lower_case(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
  return size;
}

int status_of(CURL* handle) {
  long status = 0;
  curl_easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &status);
  return static_cast<int>(status);
}

size_t take_body(const char* data, size_t, size_t size, void* user) {
  auto& running = *static_cast<Running*>(user);
  Response& response = running.response;
  response.status = status_of(running.handle);
  if (!running.transfer.on_body || running.transfer.on_body(response, {data, size})) return size;
  running.end(End::not_taken, response.problem.empty() ? "its bytes were not taken" : response.problem);
  return 0;
}

std::string numeric_address(const sockaddr& address, socklen_t size) {
  char text[NI_MAXHOST] = "";
  return getnameinfo(&address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text : "";
}

curl_socket_t open_socket(void* user, curlsocktype, curl_sockaddr* to) {
  auto& running = *static_cast<Running*>(user);
  const std::string address = numeric_address(to->addr, to->addrlen);
  if (!running.transfer.may_connect(address)) {
    running.end(End::barred, fmt::format("its address, {}, may not be connected to", address));
    return CURL_SOCKET_BAD;
  }
  const int fd = ::socket(to->family, to->socktype, to->protocol);
  if (fd >= 0) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return fd;
}

void set_time_limits(CURL* h, const Transfer& transfer) {
  const auto milliseconds = [](double seconds) { return std::max(1L, static_cast<long>(seconds * 1000)); };
  double connecting = std::min(transfer.seconds, kConnectSeconds);
  if (std::isfinite(transfer.seconds))
    curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, milliseconds(transfer.seconds));
  if (transfer.stall_seconds > 0) {
    connecting = std::min(connecting, double(transfer.stall_seconds));
    curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, long{transfer.least_rate});
    curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, long{transfer.stall_seconds});
  }
  curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(connecting));
}

// Which servers may be connected to, and whom to believe.
void set_trust(CURL* h, Running& running) {
  const Transfer& transfer = running.transfer;
  curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION, 0L);
  const std::string trusted =
      transfer.ca_file.empty() ? certificates(curl_version_info(CURLVERSION_NOW)->cainfo) : transfer.ca_file;
  if (!trusted.empty()) curl_easy_setopt(h, CURLOPT_CAINFO, trusted.c_str());
  if (transfer.own_server) {
    curl_easy_setopt(h, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(h, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(h, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  if (transfer.may_connect) {
    curl_easy_setopt(h, CURLOPT_PROXY, "");
    curl_easy_setopt(h, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(h, CURLOPT_OPENSOCKETDATA, &running);
  }
}

void configure(Running& running) {
  CURL* h = running.handle;
  const Transfer& transfer = running.transfer;
  curl_easy_setopt(h, CURLOPT_URL, transfer.url.c_str());
  // Several connections are faster than several streams in one connection.
  curl_easy_setopt(h, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
  curl_easy_setopt(h, CURLOPT_QUICK_EXIT, 1L);  // do not wait for a name that is being resolved
#endif
  curl_easy_setopt(h, CURLOPT_BUFFERSIZE, kBufferBytes);
  curl_easy_setopt(h, CURLOPT_USERAGENT, "anabranch");
  curl_easy_setopt(h, CURLOPT_ERRORBUFFER, running.error);
  curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(h, CURLOPT_HEADERDATA, &running);
  curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(h, CURLOPT_WRITEDATA, &running);
  curl_easy_setopt(h, CURLOPT_PRIVATE, &running);
  set_time_limits(h, transfer);
  set_trust(h, running);
  for (const auto& [name, value] : transfer.headers)
    // libcurl's syntax for a header without a value ends with a semicolon.
    running.headers =
        curl_slist_append(running.headers, (value.empty() ? name + ";" : name + ": " + value).c_str());
  running.headers = curl_slist_append(running.headers, "Expect:");  // no round trip before the body
  curl_easy_setopt(h, CURLOPT_HTTPHEADER, running.headers);
  curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, transfer.method.c_str());
  if (transfer.method == "POST") {
    curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(transfer.body.size()));
    curl_easy_setopt(h, CURLOPT_POSTFIELDS, transfer.body.c_str());
  }
}

// Fills in the response when libcurl has ended the transfer.
void conclude(Running& running, CURLcode code) {
  char* location = nullptr;
  curl_easy_getinfo(running.handle, CURLINFO_REDIRECT_URL, &location);
  if (location) running.response.location = location;
  running.response.status = status_of(running.handle);
  running.concluded = true;
  if (code == CURLE_OK) return running.end(End::complete, "");  // perhaps after a barred address
  if (running.response.end != End::complete) return;            // a callback ended it
  const bool untrusted = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
  const End end = code == CURLE_OPERATION_TIMEDOUT ? End::late : untrusted ? End::untrusted : End::broken;
  running.end(end, running.error[0] ? running.error : curl_easy_strerror(code));
}

// While it lives, writing to a connection that the other side has closed only fails the write. Without it,
// libcurl's TLS may raise SIGPIPE.
class PipeSignalHeld {
 public:
  PipeSignalHeld() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~PipeSignalHeld() {
#ifdef __linux__
    const timespec at_once{};
    if (!sigismember(&before_, SIGPIPE)) sigtimedwait(&pipe_, nullptr, &at_once);
#endif
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  PipeSignalHeld(const PipeSignalHeld&) = delete;
  PipeSignalHeld& operator=(const PipeSignalHeld&) = delete;

 private:
  sigset_t pipe_, before_;
};

}  // namespace

std::string Response::header(const std::string& name) const {
  const auto at = headers.find(name);
  return at == headers.end() ? "" : at->second;
}

Result<Response> Response::checked() && {
  if (end == End::complete || end == End::not_taken) return std::move(*this);
  const ErrorKind kind = end == End::late      ? ErrorKind::exhausted
                         : end == End::stopped ? ErrorKind::busy
                         : end == End::barred  ? ErrorKind::invalid
                                               : ErrorKind::io;
  return make_error(kind, "{}", problem);
}

struct Transfers::Impl {
  CURLM* const multi = curl_multi_init();
  std::list<Running> running;

  ~Impl() {
    for (const Running& each : running) curl_multi_remove_handle(multi, each.handle);
    running.clear();
    curl_multi_cleanup(multi);
  }

  // Calls back for transfers that have ended, and for those that are to be cancelled. False: there are none.
  bool deliver() {
    int left = 0;
    while (const CURLMsg* message = curl_multi_info_read(multi, &left)) {
      char* user = nullptr;
      curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &user);
      if (message->msg == CURLMSG_DONE) conclude(*reinterpret_cast<Running*>(user), message->data.result);
    }
    bool any = false;
    for (auto at = running.begin(); at != running.end();) {
      const auto each = at++;
      const auto& stop = each->transfer.stop;
      if (!each->concluded && !(stop && stop())) continue;
      if (!each->concluded) each->end(End::stopped, "cancelled");
      curl_multi_remove_handle(multi, each->handle);
      const Done done = std::move(each->done);
      Response response = std::move(each->response);
      running.erase(each);
      done(std::move(response));
      any = true;
    }
    return any;
  }
};

Transfers::Transfers() {
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  CHECK(ready, "libcurl cannot be used");
  impl_ = std::make_unique<Impl>();
  CHECK(impl_->multi, "out of memory");
}
Transfers::~Transfers() = default;

void Transfers::start(Transfer transfer, Done done) {
  Running& running = impl_->running.emplace_back(std::move(transfer), std::move(done));
  configure(running);
  curl_multi_add_handle(impl_->multi, running.handle);
}

size_t Transfers::running() const {
  return impl_->running.size();
}

void Transfers::run(int milliseconds) {
  int active = 0;
  curl_multi_perform(impl_->multi, &active);
  if (!impl_->deliver()) curl_multi_poll(impl_->multi, nullptr, 0, milliseconds, nullptr);
}

Response Transfers::wait_for(Transfer transfer) {
  const int milliseconds = transfer.poll_milliseconds;
  std::optional<Response> response;
  start(std::move(transfer), [&](Response came) { response = std::move(came); });
  while (!response) run(milliseconds);
  return std::move(*response);
}

HttpClient::~HttpClient() {
  const PipeSignalHeld held;
  idle_.clear();
}

Response HttpClient::run(Transfer transfer) {
  const PipeSignalHeld held;
  std::unique_lock lock(mutex_);
  auto transfers = idle_.empty() ? std::make_unique<Transfers>() : std::move(idle_.back());
  if (!idle_.empty()) idle_.pop_back();
  lock.unlock();
  Response response = transfers->wait_for(std::move(transfer));
  lock.lock();
  if (idle_.size() < kIdleConnections) idle_.push_back(std::move(transfers));
  return response;
}

}  // namespace anabranch::net
