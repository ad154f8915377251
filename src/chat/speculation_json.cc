#include "chat/speculation_json.h"

#include <span>

namespace anabranch {
namespace {

// An array by draft position, up to the last position that was reached.
Json by_position(const std::array<long, kMaxDraft>& counts, const std::array<long, kMaxDraft>& drafted) {
  Json out = Json::array();
  for (int i = 0; i < kMaxDraft && drafted[i] > 0; i++) out.push_back(counts[i]);
  return out;
}

}  // namespace

Json speculation_json(const SpecCounters& counters) {
  long rounds = 0, drafted = 0, accepted = 0;
  Json sources = Json::object();
  for (int i = 0; i < kDraftSources; i++) {
    const auto& s = counters.sources[i];
    if (s.rounds == 0) continue;
    rounds += s.rounds;
    drafted += s.drafted;
    accepted += s.accepted;
    Json one = {{"rounds", s.rounds}};
    if (i > 0) {
      one["drafted"] = s.drafted;
      one["accepted"] = s.accepted;
      one["drafted_at"] = by_position(s.drafted_at, s.drafted_at);
      one["accepted_at"] = by_position(s.accepted_at, s.drafted_at);
      one["draft_s"] = s.draft_s;
    }
    one["verify_s"] = s.verify_s;
    sources[name_of(static_cast<DraftSource>(i))] = std::move(one);
  }
  return {{"rounds", rounds}, {"drafted", drafted}, {"accepted", accepted}, {"sources", std::move(sources)}};
}

}  // namespace anabranch
