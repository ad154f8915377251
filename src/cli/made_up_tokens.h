// Token ids for measuring: spread over the vocabulary, and the same every time.
#pragma once

#include <cstdint>
#include <vector>

namespace anabranch::cli {

// The `count` ids from position `from` on.
inline std::vector<int> made_up_tokens(int from, int count, int vocab) {
  std::vector<int> ids(static_cast<size_t>(count));
  for (int i = 0; i < count; i++) {
    const uint32_t mixed = static_cast<uint32_t>(from + i) * 2654435761u;
    ids[static_cast<size_t>(i)] = static_cast<int>((mixed >> 7) % static_cast<uint32_t>(vocab));
  }
  return ids;
}

}  // namespace anabranch::cli
