// A model's predictions beside those of the original that it was made from, for `eval` and `convert`.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "engine/loader.h"
#include "models/divergence.h"

namespace anabranch::cli {

// Loads `path` on the device of `model`, to be compared with it. Errors: as load_model's; invalid (their
// vocabularies differ: predictions can only be compared token by token).
Result<LoadedModel> load_original(const std::string& path, const LoadedModel& model);

// {"kl_mean": ..., "kl_p99": ..., "kl_max": ..., "same_top": ...}: nats, and a share from 0 to 1.
Json divergence_json(const Comparison& comparison);
// "KL divergence 0.012345 (99th percentile 0.123456, largest 1.234567), same top token 95.12 %"
std::string divergence_text(const Comparison& comparison);

}  // namespace anabranch::cli
