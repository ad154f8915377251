#include "net/http_client.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/lower_case.h"
#include "base/white_space.h"

namespace anabranch::net {
namespace {

constexpr size_t kIdleConnections = 4;
constexpr long kConnectMilliseconds = 15'000;
constexpr size_t kMaxHeaderBytes = 64 << 10;

struct Running {
  const HttpExchange& exchange;
  HttpExchange::Head head;
  CURL* const handle;
  CURLM* const multi;
  curl_slist* headers = nullptr;
  size_t header_bytes = 0;
  bool refused = false;  // by on_body
  std::string barred;    // the address that may_connect refused
  char error[CURL_ERROR_SIZE] = "";

  Running(const HttpExchange& e, CURLM* m) : exchange(e), handle(curl_easy_init()), multi(m) {
    CHECK(handle && multi, "out of memory");
  }
  ~Running() {
    curl_multi_remove_handle(multi, handle);
    curl_easy_cleanup(handle);
    curl_slist_free_all(headers);
  }
};

size_t take_header(const char* data, size_t, size_t size, void* user) {
  auto& running = *static_cast<Running*>(user);
  running.header_bytes += size;
  if (running.header_bytes > kMaxHeaderBytes) return 0;
  const std::string_view line(data, size);
  if (line.starts_with("HTTP/")) {  // of a proxy, or of an interim answer, another may follow
    running.head.headers.clear();
    return size;
  }
  if (const size_t colon = line.find(':'); colon != line.npos)
    running.head.headers[lower_case(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
  return size;
}

size_t take_body(const char* data, size_t, size_t size, void* user) {
  auto& running = *static_cast<Running*>(user);
  long status = 0;
  curl_easy_getinfo(running.handle, CURLINFO_RESPONSE_CODE, &status);
  running.head.status = static_cast<int>(status);
  if (!running.exchange.on_body || running.exchange.on_body(running.head, {data, size})) return size;
  running.refused = true;
  return 0;
}

std::string numeric_address(const sockaddr& address, socklen_t size) {
  char text[NI_MAXHOST] = "";
  return getnameinfo(&address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0 ? text : "";
}

curl_socket_t open_socket(void* user, curlsocktype, curl_sockaddr* to) {
  auto& running = *static_cast<Running*>(user);
  const std::string address = numeric_address(to->addr, to->addrlen);
  if (!running.exchange.may_connect(address)) {
    running.barred = address;
    return CURL_SOCKET_BAD;
  }
  const int fd = ::socket(to->family, to->socktype, to->protocol);
  if (fd >= 0) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return fd;
}

void configure(Running& running) {
  CURL* h = running.handle;
  const HttpExchange& exchange = running.exchange;
  const long milliseconds = std::max(1L, static_cast<long>(exchange.seconds * 1000));
  curl_easy_setopt(h, CURLOPT_URL, exchange.url.c_str());
  curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(h, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
  curl_easy_setopt(h, CURLOPT_QUICK_EXIT, 1L);  // do not wait for a name that is being resolved
#endif
  curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, milliseconds);
  curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, std::min(milliseconds, kConnectMilliseconds));
  curl_easy_setopt(h, CURLOPT_USERAGENT, "anabranch");
  curl_easy_setopt(h, CURLOPT_ERRORBUFFER, running.error);
  curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(h, CURLOPT_HEADERDATA, &running);
  curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(h, CURLOPT_WRITEDATA, &running);
  if (exchange.may_connect) {
    curl_easy_setopt(h, CURLOPT_PROXY, "");
    curl_easy_setopt(h, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(h, CURLOPT_OPENSOCKETDATA, &running);
  }
  for (const auto& [name, value] : exchange.headers)
    // libcurl's syntax for a header without a value ends with a semicolon.
    running.headers =
        curl_slist_append(running.headers, (value.empty() ? name + ";" : name + ": " + value).c_str());
  running.headers = curl_slist_append(running.headers, "Expect:");  // no round trip before the body
  curl_easy_setopt(h, CURLOPT_HTTPHEADER, running.headers);
  curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, exchange.method.c_str());
  if (exchange.method == "POST") {
    curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(exchange.body.size()));
    curl_easy_setopt(h, CURLOPT_POSTFIELDS, exchange.body.c_str());
  }
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

// The result of the transfer; none: it is still running.
std::optional<CURLcode> outcome(CURLM* multi) {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi, &left))
    if (message->msg == CURLMSG_DONE) return message->data.result;
  return std::nullopt;
}

}  // namespace

std::string HttpExchange::Head::header(const std::string& name) const {
  const auto at = headers.find(name);
  return at == headers.end() ? "" : at->second;
}

// Connections belong to multi handles, each of which serves one exchange at a time.
struct HttpClient::Impl {
  std::mutex mutex;
  std::vector<CURLM*> idle;

  CURLM* take() {
    std::lock_guard lock(mutex);
    if (idle.empty()) return curl_multi_init();
    CURLM* const multi = idle.back();
    idle.pop_back();
    return multi;
  }
  void give_back(CURLM* multi) {
    std::lock_guard lock(mutex);
    if (idle.size() < kIdleConnections)
      idle.push_back(multi);
    else
      curl_multi_cleanup(multi);
  }
};

HttpClient::HttpClient() : impl_(std::make_unique<Impl>()) {
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  CHECK(ready, "libcurl cannot be used");
}

HttpClient::~HttpClient() {
  const PipeSignalHeld held;
  for (CURLM* multi : impl_->idle) curl_multi_cleanup(multi);
}

Result<HttpExchange::Head> HttpClient::run(const HttpExchange& exchange) {
  const PipeSignalHeld held;
  const std::unique_ptr<CURLM, std::function<void(CURLM*)>> multi(impl_->take(),
                                                                  [this](CURLM* m) { impl_->give_back(m); });
  Running running(exchange, multi.get());
  configure(running);
  curl_multi_add_handle(running.multi, running.handle);
  std::optional<CURLcode> code;
  while (!code) {
    int active = 0;
    curl_multi_perform(running.multi, &active);
    code = outcome(running.multi);
    if (code) break;
    if (exchange.stop && exchange.stop()) return make_error(ErrorKind::busy, "cancelled");
    curl_multi_poll(running.multi, nullptr, 0, exchange.poll_milliseconds, nullptr);
  }
  long status = 0;
  char* location = nullptr;
  curl_easy_getinfo(running.handle, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(running.handle, CURLINFO_REDIRECT_URL, &location);
  running.head.status = static_cast<int>(status);
  if (location) running.head.location = location;
  if (*code == CURLE_OK || running.refused) return std::move(running.head);
  if (!running.barred.empty())
    return make_error(ErrorKind::invalid, "its address, {}, may not be connected to", running.barred);
  const ErrorKind kind = *code == CURLE_OPERATION_TIMEDOUT ? ErrorKind::exhausted : ErrorKind::io;
  return make_error(kind, "{}", running.error[0] ? running.error : curl_easy_strerror(*code));
}

std::string origin_of_address(const std::string& url) {
  CURLU* parts = curl_url();
  char *scheme = nullptr, *host = nullptr, *port = nullptr;
  std::string out;
  if (curl_url_set(parts, CURLUPART_URL, url.c_str(), 0) == CURLUE_OK &&
      curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
      curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
      curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK)
    out = lower_case(fmt::format("{}://{}:{}", scheme, host, port));
  for (char* text : {scheme, host, port}) curl_free(text);
  curl_url_cleanup(parts);
  return out;
}

}  // namespace anabranch::net
