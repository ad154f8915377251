// The images that one request names by web addresses. The request is read at first to learn the addresses,
// and again when the files are there, so that no thread that reads requests waits for the web.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/api/image_fetch.h"

namespace anabranch::server {

class WebImages {
 public:
  // For ImageReader. Of an image that has not been fetched it gives one byte, and notes its address.
  // Error: why it could not be fetched, or exhausted: it has more bytes.
  Result<std::string> take(const std::string& url, size_t bytes);
  // Whether take() has noted addresses, so that the request must be read again.
  bool lacks_any() const;
  // The noted addresses by their host; they count as known from now on.
  std::map<std::string, std::vector<std::string>> begin_fetching();
  // Fetches them one after the other, within ten seconds, and within 20 MiB for all images of the request.
  // Thread-safe. cancelled: whether nobody waits for them any more.
  void fetch(const std::vector<std::string>& urls, const WebFetch& fetch,
             const std::function<bool()>& cancelled);

 private:
  mutable std::mutex mutex_;
  std::set<std::string> wanted_;
  std::map<std::string, Result<std::string>> files_;
  size_t bytes_ = 0;  // of files_
};

}  // namespace anabranch::server
