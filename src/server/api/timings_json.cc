#include "server/api/timings_json.h"

#include <algorithm>

namespace anabranch::server {
namespace {

constexpr double kMilliseconds = 1000;

}  // namespace

Json timings_json(const Usage& usage) {
  const int read = usage.prompt_tokens - usage.cached_tokens, made = usage.completion_tokens;
  const int steps = std::max(0, made - 1);  // the first token comes from prefill
  const auto each_ms = [](double seconds, int tokens) {
    return tokens > 0 ? seconds * kMilliseconds / tokens : 0.0;
  };
  const auto per_second = [](double seconds, int tokens) { return seconds > 0 ? tokens / seconds : 0.0; };
  Json json = {{"cache_n", usage.cached_tokens},
               {"prompt_n", read},
               {"prompt_ms", usage.prefill_s * kMilliseconds},
               {"prompt_per_token_ms", each_ms(usage.prefill_s, read)},
               {"prompt_per_second", per_second(usage.prefill_s, read)},
               {"predicted_n", made},
               {"predicted_ms", usage.decode_s * kMilliseconds},
               {"predicted_per_token_ms", each_ms(usage.decode_s, steps)},
               {"predicted_per_second", per_second(usage.decode_s, steps)}};
  uint64_t drafted = 0, accepted = 0;
  for (const auto& source : usage.speculation.sources) {
    drafted += source.drafted;
    accepted += source.accepted;
  }
  if (drafted > 0) {
    json["draft_n"] = drafted;
    json["draft_n_accepted"] = accepted;
  }
  return json;
}

Json progress_json(const Usage& usage, int read, double seconds) {
  return {{"total", usage.prompt_tokens},
          {"cache", usage.cached_tokens},
          {"processed", read},
          {"time_ms", seconds * kMilliseconds}};
}

}  // namespace anabranch::server
