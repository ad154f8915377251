// Memory that is there and must not be used, for AddressSanitizer: free buffers that are kept, and what an
// allocation has beyond the bytes that were asked for. Without AddressSanitizer both functions do nothing.
#pragma once

#include <unistd.h>

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define ANABRANCH_POISON 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ANABRANCH_POISON 1
#endif
#endif

#if defined(ANABRANCH_POISON)
#include <sanitizer/asan_interface.h>
#endif

namespace anabranch {

#if defined(ANABRANCH_POISON)
inline constexpr bool kPoison = true;
inline void poison(const void* data, size_t bytes) {
  __asan_poison_memory_region(data, bytes);
}
inline void unpoison(const void* data, size_t bytes) {
  __asan_unpoison_memory_region(data, bytes);
}
#else
inline constexpr bool kPoison = false;
inline void poison(const void*, size_t) {}
inline void unpoison(const void*, size_t) {}
#endif

// Of `size` bytes the first `bytes` may be used.
inline void poison_beyond(const void* data, size_t bytes, size_t size) {
  unpoison(data, bytes);
  poison(static_cast<const char*>(data) + bytes, size - bytes);
}

// A mapped file: the last page has more bytes than the file.
inline void poison_beyond_file(const void* data, size_t bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  poison_beyond(data, bytes, (bytes + page - 1) / page * page);
}
inline void unpoison_file(const void* data, size_t bytes) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  unpoison(data, (bytes + page - 1) / page * page);
}

}  // namespace anabranch
