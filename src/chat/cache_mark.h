// Positions in a chat at which a client asks for a prefix cache entry (Anthropic's cache_control).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/json.h"
#include "chat/volatile_text.h"

namespace anabranch {

struct CacheMark {
  enum class In { tools, message };
  In in = In::message;
  size_t index = 0;  // of the tool that it stands behind, or of the message; may be past the last one
  size_t bytes =
      SIZE_MAX;       // of the message's text before it; as long as the text or longer: the whole message
  bool hour = false;  // the client asks for an hour, not for five minutes; both are kept alike
};

// A mark's place in a prompt.
struct MarkedLength {
  int length = 0;  // tokens
  bool hour = false;
};

// The tokens that a request stores anew, by how long its client asks to keep them.
struct CacheWrites {
  int five_minutes = 0, hour = 0;
};
// cached: the number of tokens that were read from the cache.
CacheWrites cache_writes(const std::vector<MarkedLength>& marks, int cached);

// Moves marks in system messages to where they stand after split_volatile_text(). messages: as before it.
void move_marks(std::vector<CacheMark>& marks, const Json& messages, std::span<const VolatileRule> rules);

// Puts other text behind the mark, so that the prompt changes from there on. Returns the index of the message
// that changed (for a mark among the tools: the number of messages); nothing if no message follows, or there
// is no such place.
std::optional<size_t> change_behind(const CacheMark& mark, Json& messages, Json& tools);

}  // namespace anabranch
