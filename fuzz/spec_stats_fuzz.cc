// Speculation statistics from a file: whatever is read writes back as the same text, and can be decided with.
#include <cstdint>
#include <cstdlib>

#include "decode/spec_stats.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto stats = anabranch::parse_spec_stats(text);
  if (!stats) return 0;
  if (anabranch::spec_stats_text(*stats) != text) std::abort();
  anabranch::SpecCosts costs(*stats);
  anabranch::SpecController controller(costs, {});
  anabranch::RoundLimits limits;
  limits.max_drafts = anabranch::kMaxDraft;
  limits.available.fill(true);
  if (controller.choose(limits).depth > anabranch::kMaxDraft) std::abort();
  return 0;
}
