// What sglang's router asks of a server before it sends requests to it.
#pragma once

#include "base/json.h"
#include "server/api/model_pool.h"

namespace anabranch::server {

Json router_model_json(const ServedModel& model);
Json router_server_json(const ServedModel& model);

}  // namespace anabranch::server
