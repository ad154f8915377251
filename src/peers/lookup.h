// The JSON of POST /v1/states/lookup (docs/state-transfer.md), for both sides.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cache/shared_states.h"

namespace anabranch {

// Only workers of the same version exchange states, because their computation may differ between versions.
struct StatesQuestion {
  std::string version;  // of the program
  Fingerprint fingerprint;
  std::vector<PrefixKey> keys;  // see prefix_keys()
};
Json to_json(const StatesQuestion& question);
// Errors: invalid (a field is missing or has a wrong value).
Result<StatesQuestion> parse_question(const Json& json);

Json to_json(const KeptPrefix& kept);
// Errors: invalid (a field is missing, has a wrong value, or exceeds a limit). blocks: the number of blocks
// that were asked for, which is the limit for the answer's number.
Result<KeptPrefix> parse_kept(const Json& json, uint32_t blocks);

// The program's version.
std::string states_version();

}  // namespace anabranch
