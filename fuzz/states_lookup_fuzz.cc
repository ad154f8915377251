// What workers ask each other about cache entries, and what they answer.
#include <cstdlib>
#include <string_view>

#include "peers/lookup.h"

using namespace anabranch;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto json = parse_json({reinterpret_cast<const char*>(data), size});
  if (!json) return 0;
  if (const auto question = parse_question(*json)) {
    const auto again = parse_question(to_json(*question));
    if (!again || again->keys != question->keys || again->fingerprint != question->fingerprint) std::abort();
  }
  if (const auto kept = parse_kept(*json, 100)) {
    const auto again = parse_kept(to_json(*kept), 100);
    if (!again || again->points != kept->points || kept->blocks > 100) std::abort();
  }
  return 0;
}
