#include "hub/http.h"

#include <limits>

#include "net/http_text.h"

namespace anabranch::hub {
namespace {

constexpr size_t kMaxHeaderBytes = 256 << 10;

}  // namespace

net::Transfer transfer_of(HttpRequest request, const Settings& settings) {
  net::Transfer transfer{.url = std::move(request.url),
                         .seconds = std::numeric_limits<double>::infinity(),
                         .stall_seconds = settings.stall_seconds,
                         .max_header_bytes = kMaxHeaderBytes,
                         .ca_file = settings.ca_file,
                         .own_server = request.own_server};
  if (!request.token.empty()) transfer.headers["Authorization"] = "Bearer " + request.token;
  if (request.range)
    transfer.headers["Range"] = fmt::format("bytes={}-{}", request.range->from, request.range->to - 1);
  if (!request.body.empty()) {
    transfer.method = "POST";
    transfer.headers["Content-Type"] = "application/json";
    transfer.body = std::move(request.body);
  }
  transfer.on_body = [on_body = std::move(request.on_body), most = request.max_body](net::Response& so_far,
                                                                                     std::string_view bytes) {
    const bool wanted = so_far.status == 200 || so_far.status == 206;
    if (wanted && on_body) return on_body(so_far, bytes);
    // The beginning of an error page is enough.
    const size_t room = most - so_far.body.size();
    so_far.body.append(bytes.substr(0, room));
    if (!wanted || bytes.size() <= room) return true;
    so_far.problem = "the answer is too long";
    return false;
  };
  return transfer;
}

Result<std::string> redirect_target(const std::string& from, const net::Response& response) {
  const std::string origin = net::origin_of(response.location);
  if (!origin.starts_with("http://") && !origin.starts_with("https://"))
    return make_error(ErrorKind::invalid, "{} redirects (HTTP {}) to no address that can be used",
                      net::origin_of(from), response.status);
  if (origin.starts_with("http://") && !net::origin_of(from).starts_with("http://"))
    return make_error(
        ErrorKind::invalid,
        "{} redirects to {}, which is not encrypted: refused. Use another HF_ENDPOINT, or another "
        "network",
        net::origin_of(from), origin);
  return response.location;
}

}  // namespace anabranch::hub
