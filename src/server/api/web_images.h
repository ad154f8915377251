// Fetches the images that one request names by web addresses.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/api/awaited.h"
#include "server/api/image_fetch.h"

namespace anabranch::server {

// Thread-safe.
class WebImages {
 public:
  // The file of an image, for ImageReader. If it has not been fetched yet, returns a placeholder of one byte
  // and notes the address. Error: why the file could not be fetched, or exhausted: it is larger than `bytes`.
  Result<std::string> take(const std::string& url, size_t bytes);
  bool lacks_any() const { return files_.lacks_any(); }
  // Returns the noted addresses, grouped by host.
  std::map<std::string, std::vector<std::string>> begin_fetching();
  // Fetches the images at these addresses one after the other, within ten seconds, and within 20 MiB for all
  // images of the request. cancelled: whether nobody waits for them any more.
  void fetch(const std::vector<std::string>& urls, const WebFetch& fetch,
             const std::function<bool()>& cancelled);
  // Total bytes of the fetched images.
  size_t bytes() const { return bytes_; }

 private:
  Awaited<std::string> files_;
  std::atomic<size_t> bytes_ = 0;
};

}  // namespace anabranch::server
