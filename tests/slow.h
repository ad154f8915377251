// Sanitizers slow a program down: limits of time grow by kSlowdown there, and the longest tests try fewer
// cases.
#pragma once

namespace anabranch {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ANABRANCH_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ANABRANCH_SANITIZED 1
#endif
#endif

#if defined(ANABRANCH_SANITIZED)
inline constexpr int kSlowdown = 20;
#else
inline constexpr int kSlowdown = 1;
#endif

// How long a test waits for what comes at once on an idle machine: others run beside it, and some are slower.
inline constexpr int kWaitSeconds = 50 + 10 * kSlowdown;

}  // namespace anabranch
