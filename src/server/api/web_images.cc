#include "server/api/web_images.h"

#include <utility>

#include "base/clock.h"
#include "mcp/http_exchange.h"

namespace anabranch::server {
namespace {

constexpr double kFetchSeconds = 10;  // for the images of one host

Error too_many_bytes() {
  return make_error(ErrorKind::exhausted, "the images that a request names may have {} MiB together",
                    kMaxImageBytes >> 20);
}

}  // namespace

Result<std::string> WebImages::take(const std::string& url, size_t bytes) {
  std::lock_guard lock(mutex_);
  const auto file = files_.find(url);
  if (file == files_.end()) {
    wanted_.insert(url);
    return std::string("?");
  }
  if (file->second.ok() && file->second->size() > bytes) return too_many_bytes();
  return file->second;
}

bool WebImages::lacks_any() const {
  std::lock_guard lock(mutex_);
  return !wanted_.empty();
}

std::map<std::string, std::vector<std::string>> WebImages::begin_fetching() {
  std::lock_guard lock(mutex_);
  std::map<std::string, std::vector<std::string>> hosts;
  for (const std::string& url : std::exchange(wanted_, {})) hosts[mcp::origin_of_address(url)].push_back(url);
  return hosts;
}

void WebImages::fetch(const std::vector<std::string>& urls, const WebFetch& fetch,
                      const std::function<bool()>& cancelled) {
  const double until = now_seconds() + kFetchSeconds;
  for (const std::string& url : urls) {
    size_t room;
    {
      std::lock_guard lock(mutex_);
      room = kMaxImageBytes - bytes_;
    }
    const double left = until - now_seconds();
    Result<std::string> file =
        left > 0
            ? fetch(url, room, left, cancelled)
            : Result<std::string>(make_error(
                  ErrorKind::exhausted, "the images of its host took more than {} seconds", kFetchSeconds));
    std::lock_guard lock(mutex_);
    // Another host's may have come meanwhile.
    if (file.ok() && file->size() > kMaxImageBytes - bytes_) file = too_many_bytes();
    if (file.ok()) bytes_ += file->size();
    files_.insert_or_assign(url, std::move(file));
  }
}

}  // namespace anabranch::server
