// Counters of speculation as JSON for users.
#pragma once

#include "base/json.h"
#include "engine/engine.h"

namespace anabranch {

// {"rounds", "drafted", "accepted", "sources": {"mtp": {"rounds", "drafted", "accepted", "drafted_at": [by
// position], "accepted_at", "draft_s", "verify_s"}, ...}}; rounds without a draft are the source "none".
Json speculation_json(const SpecCounters& counters);

}  // namespace anabranch
