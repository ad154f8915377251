#include "server/api/web_images.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "net/http_text.h"

namespace anabranch::server {
namespace {

constexpr double kFetchSeconds = 10;  // limit for all images of one host

Error too_many_bytes() {
  return make_error(ErrorKind::exhausted, "the images that a request names may have {} MiB together",
                    kMaxImageBytes >> 20);
}

}  // namespace

Result<std::string> WebImages::take(const std::string& url, size_t bytes) {
  auto file = files_.take(url);
  if (!file) return std::string("?");
  if (file->ok() && (*file)->size() > bytes) return too_many_bytes();
  return std::move(*file);
}

std::map<std::string, std::vector<std::string>> WebImages::begin_fetching() {
  std::map<std::string, std::vector<std::string>> hosts;
  for (const std::string& url : files_.begin()) hosts[net::origin_of(url)].push_back(url);
  return hosts;
}

void WebImages::fetch(const std::vector<std::string>& urls, const WebFetch& fetch,
                      const std::function<bool()>& cancelled) {
  const double until = now_seconds() + kFetchSeconds;
  for (const std::string& url : urls) {
    const size_t taken = bytes_, room = kMaxImageBytes - std::min(kMaxImageBytes, taken);
    const double left = until - now_seconds();
    Result<std::string> file =
        left > 0
            ? fetch(url, room, left, cancelled)
            : Result<std::string>(make_error(
                  ErrorKind::exhausted, "the images of its host took more than {} seconds", kFetchSeconds));
    // Images of other hosts may have arrived meanwhile.
    if (file.ok() && (bytes_ += file->size()) > kMaxImageBytes) file = too_many_bytes();
    files_.put(url, std::move(file));
  }
}

}  // namespace anabranch::server
