// Speculation's counters and settings as users read and write them.
#pragma once

#include "base/json.h"
#include "engine/engine.h"

namespace anabranch::server {

// {"rounds", "drafted", "accepted", "sources": {"mtp": {"rounds", "drafted", "accepted", "drafted_at": [by
// position], "accepted_at", "draft_s", "verify_s"}, ...}}; rounds without a draft are the source "none".
Json speculation_json(const SpecCounters& counters);

// "auto", "off" or a draft source; nothing if it is none of these.
std::optional<SpecMode> speculation_mode(std::string_view name, int depth);

}  // namespace anabranch::server
