// Answers llama-server's /props and /slots. Reference: llama.cpp's tools/server/README.md.
#pragma once

#include "base/json.h"
#include "server/api/model_pool.h"

namespace anabranch::server {

Json props_json(const ServedModel& model);
// One entry for each sequence that may run at the same time; those in use come first.
Json slots_json(const ServedModel& model);

}  // namespace anabranch::server
