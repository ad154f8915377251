// Pages that sglang's router reads before it sends requests to a server.
#pragma once

#include "base/json.h"
#include "server/api/model_pool.h"

namespace anabranch::server {

// entry: a model that was loaded once, and may be unloaded now.
Json router_model_json(const ModelPool::Entry& entry);
Json router_server_json(const ModelPool::Entry& entry);

}  // namespace anabranch::server
