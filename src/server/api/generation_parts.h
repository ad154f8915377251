// What generation.cc and generation_turns.cc share.
#pragma once

#include <exception>

#include "base/log.h"
#include "server/api/prepare.h"

namespace anabranch::server {

inline ApiError internal_error(const std::exception& e) {
  log_error("preparing a request failed: {}", e.what());
  return {500, "Internal error while preparing the request", "", "internal_error"};
}

// Turns exceptions into an error, because jobs of a worker must not throw.
template <class Work>
PreparedRequest safely(Work work) {
  try {
    return work();
  } catch (const std::exception& e) {
    return internal_error(e);
  }
}

// Whether reading the request takes long enough to keep it apart from others.
inline bool is_long(size_t bytes) {
  constexpr size_t kShortBody = 256u << 10;
  return bytes > kShortBody;
}

// Sums the usage of answers. first_of_prompt: the prompt was not counted yet.
Usage add_up(Usage total, const Usage& usage, bool first_of_prompt);

}  // namespace anabranch::server
