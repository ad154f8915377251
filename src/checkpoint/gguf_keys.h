// Metadata of a GGUF file that is to be written: keys with typed values, in the order in which they were
// added.
#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace anabranch {

class GgufKeys {
 public:
  // If a key exists already, its first value stays.
  GgufKeys& u32(std::string_view key, uint64_t value);
  GgufKeys& f32(std::string_view key, double value);
  GgufKeys& flag(std::string_view key, bool value);
  GgufKeys& text(std::string_view key, std::string_view value);
  GgufKeys& texts(std::string_view key, std::span<const std::string> values);
  GgufKeys& texts(std::string_view key, std::span<const std::string_view> values);
  GgufKeys& i32s(std::string_view key, std::span<const int32_t> values);
  GgufKeys& f32s(std::string_view key, std::span<const float> values);
  GgufKeys& flags(std::string_view key, const std::vector<bool>& values);
  // A value as the reader of GGUF files returns it (GgufFile::metadata): unsigned numbers become u32, others
  // i32 or f32. Nested and empty lists are left out.
  GgufKeys& json(std::string_view key, const Json& value);
  GgufKeys& add(const GgufKeys& others);

  bool has(std::string_view key) const { return names_.contains(key); }
  uint64_t count() const { return entries_.size(); }
  std::string bytes() const;

 private:
  struct Entry {
    std::string key, value;  // the value with its type before it
  };
  GgufKeys& put(std::string_view key, std::string value);

  std::vector<Entry> entries_;
  std::set<std::string, std::less<>> names_;
};

}  // namespace anabranch
