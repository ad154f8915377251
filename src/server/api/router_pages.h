// Pages that sglang's router reads before it sends requests to a server.
#pragma once

#include "base/json.h"
#include "server/api/model_pool.h"

namespace anabranch::server {

Json router_model_json(const ServedModel& model);
Json router_server_json(const ServedModel& model);

}  // namespace anabranch::server
