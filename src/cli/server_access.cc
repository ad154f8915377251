#include "cli/server_access.h"

#include <cstdlib>

#include "net/http_text.h"
#include "server/http/api_keys.h"

namespace anabranch::cli {

Result<std::string> key_to_show(const std::string& api_key_file) {
  if (!api_key_file.empty()) {
    TRY(const auto keys, server::read_key_file(api_key_file));
    return keys.front().key;
  }
  const char* key = std::getenv("ANABRANCH_API_KEY");
  return std::string(key ? key : "");
}

bool is_this_machine(const std::string& url) {
  const std::string origin = net::origin_of(url);
  if (origin.empty()) return false;  // no address
  const size_t host = origin.find("://") + 3;
  for (const char* own : {"localhost", "127.0.0.1", "[::1]"}) {
    const std::string_view rest = std::string_view(origin).substr(host);
    if (rest.starts_with(own) &&
        (rest.size() == std::string_view(own).size() || rest[std::string_view(own).size()] == ':'))
      return true;
  }
  return false;
}

}  // namespace anabranch::cli
