// Adapters in the bodies of requests.
#pragma once

#include <map>
#include <vector>

#include "server/api/adapter_registry.h"
#include "server/api/json_fields.h"

namespace anabranch::server {

// llama-server's list of adapters: [{"id", "scale"}, ...]. where: its place, for messages. Returns the scales
// by id; adapters that the list does not name have 0. Fails (400) for ids that the model does not have, ids
// that are there twice, and more adapters than a request may apply.
ApiResult<std::map<int, float>> read_adapter_scales(const Json& list, const std::string& where,
                                                    const std::vector<ServedAdapter>& known);

// The adapters of a request, in the order of their ids: those of "lora" if it is there; else the one that
// "model" names; else those that have a scale of their own (POST /lora-adapters).
std::vector<AppliedAdapter> read_adapters(JsonFields& fields, const AvailableAdapters& available);

}  // namespace anabranch::server
