// HTTP requests as they come from the network: in portions, several on a connection.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "server/http/parser.h"

namespace {

using anabranch::server::RequestParser;

// The first request of `text`, fed in portions of `step` bytes; the bytes it took (0: it has a fault).
size_t read_one(std::string_view text, size_t step, bool& done) {
  RequestParser parser(1000, 500);
  size_t used = 0;
  while (parser.state() == RequestParser::State::head || parser.state() == RequestParser::State::body) {
    const auto before = parser.state();
    const std::string_view portion = text.substr(used, step);
    const size_t n = parser.take(portion);
    if (n > portion.size()) std::abort();
    used += n;
    if (n == 0 && parser.state() == before) break;
  }
  if (parser.body_size() > 500) std::abort();
  done = parser.state() == RequestParser::State::done;
  if (done)
    for (const auto& [name, value] : parser.request().headers)
      if (name.empty() || (name + value).find_first_of("\r\n") != std::string::npos) std::abort();
  return parser.state() == RequestParser::State::failed ? 0 : used;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  bool done = true;
  while (!text.empty() && done) {
    bool again = false;
    const size_t used = read_one(text, text.size(), done);
    // Where a request ends does not depend on the portions it comes in.
    if (read_one(text, 1, again) != used || again != done) std::abort();
    text.remove_prefix(used);
  }
  return 0;
}
