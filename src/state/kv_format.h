// The storage format of cached keys and values.
#pragma once

namespace anabranch {

// Unchanged, or in 8 bits (state/kv_codec.h). q8 takes half the space or less, but output that continues from
// a restored state is only similar to that of a cold run.
enum class KvFormat { exact, q8 };
inline const char* to_string(KvFormat format) {
  return format == KvFormat::q8 ? "q8" : "exact";
}

}  // namespace anabranch
