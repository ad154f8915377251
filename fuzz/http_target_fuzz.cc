// Request targets, Host and Origin headers.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/http/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace anabranch::server;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto target = parse_target(text);
  if (target.ok() && (target->path.empty() || target->path.find('\0') != std::string::npos)) std::abort();
  if (const auto name = host_name(text)) {
    // A name is its own name, and keeps its meaning.
    if (name->empty() || host_name(*name) != name) std::abort();
    (void)is_loopback_name(*name);
  }
  (void)is_loopback_name(text);
  (void)is_origin_of(text, "localhost:80");
  (void)is_origin_of("http://localhost", text);
  return 0;
}
