// A call of a client's tool, as the model wrote it.
#pragma once

#include <string>

namespace anabranch {

struct ToolCall {
  std::string name;
  std::string arguments;  // text of a JSON object; numbers as the model wrote them
  bool operator==(const ToolCall&) const = default;
};

// Limits for a call that a model writes. Beyond them it is text, not a call.
inline constexpr size_t kMaxCallBytes = 1 << 20;
inline constexpr size_t kMaxNameBytes = 256;
inline constexpr int kMaxCalls = 256;

}  // namespace anabranch
