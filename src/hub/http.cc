#include "hub/http.h"

#include <curl/curl.h>

#include <algorithm>

#include "base/check.h"
#include "base/lower_case.h"
#include "base/white_space.h"

namespace anabranch::hub {
namespace {

constexpr size_t kMaxHeaderBytes = 256 << 10;
constexpr long kConnectSeconds = 15;

struct Transfer {
  HttpRequest request;
  HttpClient::Done done;
  HttpResponse response;
  CURL* handle = nullptr;
  curl_slist* headers = nullptr;
  size_t header_bytes = 0;
  bool refused = false, too_long = false;
  char error[CURL_ERROR_SIZE] = "";

  ~Transfer() {
    curl_easy_cleanup(handle);
    curl_slist_free_all(headers);
  }
};

size_t take_header(const char* data, size_t, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  transfer.header_bytes += size;
  if (transfer.header_bytes > kMaxHeaderBytes) return 0;
  const std::string_view line(data, size);
  if (line.starts_with("HTTP/")) {  // of a proxy, or of an interim answer, another may follow
    transfer.response.headers.clear();
    return size;
  }
  if (const size_t colon = line.find(':'); colon != line.npos)
    transfer.response.headers[lower_case(line.substr(0, colon))] = trimmed(line.substr(colon + 1));
  return size;
}

size_t take_body(const char* data, size_t, size_t size, void* user) {
  auto& transfer = *static_cast<Transfer*>(user);
  auto& response = transfer.response;
  long status = 0;
  curl_easy_getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &status);
  response.status = static_cast<int>(status);
  const bool wanted = status == 200 || status == 206;
  if (wanted && transfer.request.on_body) {
    if (transfer.request.on_body(response, {data, size})) return size;
    transfer.refused = true;
    return 0;
  }
  // The beginning of an error page is enough.
  const size_t room = transfer.request.max_body - response.body.size();
  response.body.append(data, std::min(size, room));
  transfer.too_long = wanted && size > room;
  return transfer.too_long ? 0 : size;
}

void configure(Transfer& transfer, const Settings& settings) {
  CURL* h = transfer.handle;
  const HttpRequest& request = transfer.request;
  curl_easy_setopt(h, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION, 0L);
  // Several connections are faster than several streams in one connection.
  curl_easy_setopt(h, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
  curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT, std::min(kConnectSeconds, long{settings.stall_seconds}));
  curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, long{request.least_rate});
  curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, long{settings.stall_seconds});
  curl_easy_setopt(h, CURLOPT_BUFFERSIZE, 256L << 10);
  curl_easy_setopt(h, CURLOPT_USERAGENT, "anabranch");
  curl_easy_setopt(h, CURLOPT_ERRORBUFFER, transfer.error);
  curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(h, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(h, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(h, CURLOPT_PRIVATE, &transfer);
  if (!settings.ca_file.empty()) curl_easy_setopt(h, CURLOPT_CAINFO, settings.ca_file.c_str());
  if (request.own_server) {
    curl_easy_setopt(h, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(h, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(h, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  if (request.range) {
    const auto range = fmt::format("{}-{}", request.range->from, request.range->to - 1);
    curl_easy_setopt(h, CURLOPT_RANGE, range.c_str());
  }
  const auto add_header = [&](const std::string& line) {
    transfer.headers = curl_slist_append(transfer.headers, line.c_str());
  };
  if (!request.token.empty()) add_header("Authorization: Bearer " + request.token);
  if (!request.body.empty()) {
    curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(h, CURLOPT_POSTFIELDS, request.body.c_str());
    add_header("Content-Type: application/json");
    add_header("Expect:");  // no round trip before the body
  }
  if (transfer.headers) curl_easy_setopt(h, CURLOPT_HTTPHEADER, transfer.headers);
}

// Fills in the response when a transfer has ended.
void conclude(Transfer& transfer, CURLcode code) {
  auto& response = transfer.response;
  long status = 0;
  char* location = nullptr;
  curl_easy_getinfo(transfer.handle, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(transfer.handle, CURLINFO_REDIRECT_URL, &location);
  response.status = static_cast<int>(status);
  if (location) response.location = location;
  if (code == CURLE_OK) return;
  response.ended_here = transfer.refused || transfer.too_long;
  response.problem = transfer.refused    ? "its bytes were not taken"
                     : transfer.too_long ? "the answer is too long"
                     : transfer.error[0] ? transfer.error
                                         : curl_easy_strerror(code);
  response.certificate_problem = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
}

}  // namespace

struct HttpClient::Impl {
  Settings settings;
  CURLM* multi = curl_multi_init();
  std::list<Transfer> transfers;

  ~Impl() {
    for (auto& transfer : transfers) curl_multi_remove_handle(multi, transfer.handle);
    transfers.clear();
    curl_multi_cleanup(multi);
  }

  // Calls back for one transfer that has ended; false: none has.
  bool deliver() {
    int left = 0;
    CURLMsg* message = curl_multi_info_read(multi, &left);
    if (!message) return false;
    if (message->msg != CURLMSG_DONE) return true;
    const CURLcode code = message->data.result;
    char* user = nullptr;
    curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &user);
    auto* const ended = reinterpret_cast<Transfer*>(user);
    conclude(*ended, code);
    curl_multi_remove_handle(multi, ended->handle);
    const auto done = std::move(ended->done);
    const auto response = std::move(ended->response);
    transfers.remove_if([&](const Transfer& t) { return &t == ended; });
    done(response);
    return true;
  }
};

std::string HttpResponse::header(const std::string& name) const {
  const auto at = headers.find(name);
  return at == headers.end() ? "" : at->second;
}

HttpClient::HttpClient(const Settings& settings) {
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  CHECK(ready, "libcurl cannot be used");
  impl_ = std::make_unique<Impl>();
  impl_->settings = settings;
}
HttpClient::~HttpClient() = default;

void HttpClient::start(HttpRequest request, Done done) {
  Transfer& transfer = impl_->transfers.emplace_back();
  transfer.request = std::move(request);
  transfer.done = std::move(done);
  transfer.handle = curl_easy_init();
  CHECK(transfer.handle, "out of memory");
  configure(transfer, impl_->settings);
  curl_multi_add_handle(impl_->multi, transfer.handle);
}

size_t HttpClient::running() const {
  return impl_->transfers.size();
}

void HttpClient::run(int milliseconds) {
  int running = 0;
  curl_multi_perform(impl_->multi, &running);
  if (impl_->deliver()) {
    while (impl_->deliver()) {
    }
    return;
  }
  curl_multi_poll(impl_->multi, nullptr, 0, milliseconds, nullptr);
}

std::string origin_of(const std::string& url) {
  CURLU* parts = curl_url();
  char *scheme = nullptr, *host = nullptr, *port = nullptr;
  std::string out;
  if (curl_url_set(parts, CURLUPART_URL, url.c_str(), 0) == CURLUE_OK &&
      curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
      curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK) {
    out = lower_case(fmt::format("{}://{}", scheme, host));
    if (curl_url_get(parts, CURLUPART_PORT, &port, CURLU_NO_DEFAULT_PORT) == CURLUE_OK)
      out += fmt::format(":{}", port);
  }
  for (char* text : {scheme, host, port}) curl_free(text);
  curl_url_cleanup(parts);
  return out;
}

Result<std::string> redirect_target(const std::string& from, const HttpResponse& response) {
  const std::string origin = origin_of(response.location);
  if (!origin.starts_with("http://") && !origin.starts_with("https://"))
    return make_error(ErrorKind::invalid, "{} redirects (HTTP {}) to no address that can be used",
                      origin_of(from), response.status);
  if (origin.starts_with("http://") && !origin_of(from).starts_with("http://"))
    return make_error(
        ErrorKind::invalid,
        "{} redirects to {}, which is not encrypted: refused. Use another HF_ENDPOINT, or another "
        "network",
        origin_of(from), origin);
  return response.location;
}

}  // namespace anabranch::hub
