// Anthropic's "cache_control": the blocks at whose end clients ask for a prefix cache entry.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "chat/cache_mark.h"
#include "server/api/json_fields.h"

namespace anabranch::server {

// Indices of marks among the tools. kNoTool: no tool of the prompt stands before the mark. kToolsetEnd: the
// end of a toolset whose tools are not known yet.
inline constexpr size_t kNoTool = SIZE_MAX, kToolsetEnd = SIZE_MAX - 1;

inline constexpr size_t kMaxCacheMarks = 4;  // of a request, as in Anthropic's API

class CacheMarks {
 public:
  // Reads "cache_control" of a block or a tool: {"type": "ephemeral", "ttl": "5m" or "1h"}. place: where it
  // ends; its `hour` is set here. Fails with 400, which names the field.
  void read(JsonFields& fields, CacheMark place);
  // Puts the marks of toolsets behind the last of all tools.
  void end_toolsets(const Json& tools);
  // Reads the "cache_control" of the request itself, which marks its last block, and returns all marks. Fails
  // if there are too many. messages: those of the whole request.
  std::vector<CacheMark> finish(JsonFields& request, const Json& messages);

 private:
  std::vector<CacheMark> marks_;
};

}  // namespace anabranch::server
