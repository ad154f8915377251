// How saved keys and values are kept.
#pragma once

namespace anabranch {

// As they are, or in 8 bits (state/kv_codec.h). q8 takes half the space or less, and what follows a restored
// state then only resembles what a cold run would say.
enum class KvForm { exact, q8 };
inline const char* to_string(KvForm form) {
  return form == KvForm::q8 ? "q8" : "exact";
}

}  // namespace anabranch
