#include "server/http/request_record.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"

namespace anabranch::server {
namespace {

constexpr size_t kLoggedTarget = 200;

// A client's own id is used if it can do no harm in a header, a log or a file's name.
bool is_sane_id(std::string_view id) {
  constexpr std::string_view kOthers = "-_.:+=@";
  return !id.empty() && id.size() <= 128 && std::all_of(id.begin(), id.end(), [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kOthers.find(c) != kOthers.npos;
  });
}

}  // namespace

void RequestRecord::identify(const HttpRequest* request, std::mt19937_64& random) {
  if (name_.id.empty()) name_.id = fmt::format("req_{:016x}{:08x}", random(), random() >> 32);
  if (!request) return;
  const std::string* id = request->header("x-request-id");
  if (id && is_sane_id(*id)) name_.id = *id;
  name_.method = request->method;
  name_.target = request->target;
}

// Reads that succeed (health checks, metrics) are logged at the debug level only.
void RequestRecord::log(bool cut_off) {
  const bool read = name_.method == "GET" || name_.method == "HEAD";
  const std::string_view path = std::string_view(name_.target).substr(0, name_.target.find('?'));
  const auto level = read && status_ < 400 ? LogLevel::debug : LogLevel::info;
  if (log_enabled(level))
    log_message(level,
                fmt::format("{}: {} {} {} after {:.3f} s{}", name_.id,
                            name_.method.empty() ? "(unreadable)" : name_.method,
                            path.substr(0, kLoggedTarget), status_ ? std::to_string(status_) : "no answer",
                            now_seconds() - began_, cut_off ? ", cut off" : ""));
  status_ = 0;
}

}  // namespace anabranch::server
