#include "checkpoint/gguf_keys.h"

#include <limits>

namespace anabranch {

namespace {

enum ValueType : uint32_t {
  u32_type = 4,
  i32_type = 5,
  f32_type = 6,
  flag_type = 7,
  text_type = 8,
  list_type = 9,
  u64_type = 10,
  i64_type = 11
};

template <class T>
std::string raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

std::string raw_text(std::string_view text) {
  return raw<uint64_t>(text.size()).append(text);
}

template <class Values, class Write>
std::string raw_list(uint32_t type, const Values& values, const Write& write) {
  std::string out = raw<uint32_t>(list_type) + raw(type) + raw<uint64_t>(values.size());
  for (const auto& value : values) out += write(value);
  return out;
}

// Type and value of a number, a truth value or a text; the type is 0 for anything else. wide: 64 bits.
std::pair<uint32_t, std::string> raw_scalar(const Json& value, bool wide) {
  if (value.is_boolean()) return {flag_type, raw<uint8_t>(value.get<bool>())};
  if (value.is_string()) return {text_type, raw_text(value.get_ref<const std::string&>())};
  if (value.is_number_float()) return {f32_type, raw(static_cast<float>(value.get<double>()))};
  if (value.is_number_unsigned())
    return wide ? std::pair{uint32_t{u64_type}, raw(value.get<uint64_t>())}
                : std::pair{uint32_t{u32_type}, raw(static_cast<uint32_t>(value.get<uint64_t>()))};
  if (value.is_number_integer())
    return wide ? std::pair{uint32_t{i64_type}, raw(value.get<int64_t>())}
                : std::pair{uint32_t{i32_type}, raw(static_cast<int32_t>(value.get<int64_t>()))};
  return {0, ""};
}

bool needs_64_bits(const Json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>() > std::numeric_limits<uint32_t>::max();
  if (!value.is_number_integer()) return false;
  const auto number = value.get<int64_t>();
  return number > std::numeric_limits<int32_t>::max() || number < std::numeric_limits<int32_t>::min();
}

}  // namespace

GgufKeys& GgufKeys::put(std::string_view key, std::string value) {
  if (names_.emplace(key).second) entries_.push_back({std::string(key), std::move(value)});
  return *this;
}

GgufKeys& GgufKeys::u32(std::string_view key, uint64_t value) {
  return put(key, raw<uint32_t>(u32_type) + raw(static_cast<uint32_t>(value)));
}

GgufKeys& GgufKeys::f32(std::string_view key, double value) {
  return put(key, raw<uint32_t>(f32_type) + raw(static_cast<float>(value)));
}

GgufKeys& GgufKeys::flag(std::string_view key, bool value) {
  return put(key, raw<uint32_t>(flag_type) + raw<uint8_t>(value));
}

GgufKeys& GgufKeys::text(std::string_view key, std::string_view value) {
  return put(key, raw<uint32_t>(text_type) + raw_text(value));
}

GgufKeys& GgufKeys::texts(std::string_view key, std::span<const std::string> values) {
  return put(key, raw_list(text_type, values, raw_text));
}

GgufKeys& GgufKeys::texts(std::string_view key, std::span<const std::string_view> values) {
  return put(key, raw_list(text_type, values, raw_text));
}

GgufKeys& GgufKeys::i32s(std::string_view key, std::span<const int32_t> values) {
  return put(key, raw_list(i32_type, values, raw<int32_t>));
}

GgufKeys& GgufKeys::f32s(std::string_view key, std::span<const float> values) {
  return put(key, raw_list(f32_type, values, raw<float>));
}

GgufKeys& GgufKeys::flags(std::string_view key, const std::vector<bool>& values) {
  return put(key, raw_list(flag_type, values, [](bool value) { return raw<uint8_t>(value); }));
}

GgufKeys& GgufKeys::json(std::string_view key, const Json& value) {
  if (!value.is_array()) {
    const auto [type, bytes] = raw_scalar(value, needs_64_bits(value));
    return type == 0 ? *this : put(key, raw(type) + bytes);
  }
  bool wide = false;
  for (const Json& item : value) wide = wide || needs_64_bits(item);
  const uint32_t type = value.empty() ? 0 : raw_scalar(value.front(), wide).first;
  std::string out = raw<uint32_t>(list_type) + raw(type) + raw<uint64_t>(value.size());
  for (const Json& item : value) {
    const auto [item_type, bytes] = raw_scalar(item, wide);
    if (item_type != type) return *this;
    out += bytes;
  }
  return type == 0 ? *this : put(key, std::move(out));
}

GgufKeys& GgufKeys::add(const GgufKeys& others) {
  for (const Entry& entry : others.entries_) put(entry.key, entry.value);
  return *this;
}

std::string GgufKeys::bytes() const {
  std::string out;
  for (const Entry& entry : entries_) out += raw_text(entry.key) + entry.value;
  return out;
}

}  // namespace anabranch
