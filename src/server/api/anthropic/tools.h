// Tools of Anthropic's own types in requests.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/api/anthropic/cache_marks.h"
#include "server/api/json_fields.h"

namespace anabranch::server {

// "tools" as OpenAI's functions. Tools that only Anthropic's servers can run go to left_out, by their types.
// marks: gets those of the tools.
Json read_anthropic_tools(JsonFields& request, const Json& list, std::vector<std::string>& left_out,
                          CacheMarks& marks);

}  // namespace anabranch::server
