// Models in the format of Anthropic's API, for requests of its clients to /v1/models and /v1/models/{id}.
#pragma once

#include <cstdint>
#include <string>

#include "base/json.h"
#include "server/api/model_pool.h"

namespace anabranch::server {

// entry: null if the model was never named. created: Unix seconds.
Json anthropic_model(const std::string& name, const ModelPool::Entry* entry, int64_t created);
// The list of such models.
Json anthropic_models(Json models);

}  // namespace anabranch::server
