// Ollama's field "keep_alive": how long a model stays loaded.
#pragma once

#include <optional>

#include "server/api/json_fields.h"

namespace anabranch::server {

// "keep_alive": seconds, or a duration as Go writes it ("5m", "1h30m", "-1s"). Fails for other values.
std::optional<double> read_keep_alive(JsonFields& fields);

}  // namespace anabranch::server
