#include "server/api/json_fields.h"

#include <algorithm>
#include <cmath>

namespace anabranch::server {

const char* json_type(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      return "null";
    case Json::value_t::boolean:
      return "a boolean";
    case Json::value_t::string:
      return "a string";
    case Json::value_t::array:
      return "an array";
    case Json::value_t::object:
      return "an object";
    default:
      return "a number";
  }
}

namespace {

// The member at this path, such as "options.seed"; null: it is absent or null.
const Json* member_at(const Json& object, std::string_view path) {
  const size_t dot = path.find('.');
  const auto it = object.find(path.substr(0, dot));
  if (it == object.end() || it->is_null()) return nullptr;
  if (dot == path.npos) return &*it;
  return it->is_object() ? member_at(*it, path.substr(dot + 1)) : nullptr;
}

}  // namespace

const Json* JsonFields::find(const char* name) const {
  if (names_.empty()) {
    const auto it = object_.find(name);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }
  // An API may have two names for one field.
  for (const FieldName& one : names_)
    if (std::string_view(one.ours) == name)
      if (const Json* value = member_at(object_, one.theirs)) return value;
  return nullptr;
}

std::string JsonFields::named(const std::string& name) const {
  const size_t end = std::min(name.find_first_of(".["), name.size());
  const std::string_view head = std::string_view(name).substr(0, end);
  const FieldName* found = nullptr;
  for (const FieldName& one : names_)
    if (one.ours == head && (!found || member_at(object_, one.theirs))) found = &one;
  return prefix_ + (found ? found->theirs + name.substr(end) : name);
}

void JsonFields::fail(const std::string& field, const char* code, std::string message) {
  fail(ApiError{400, std::move(message), named(field), code});
}

void JsonFields::wrong_type(const char* name, const char* expected, const Json& value) {
  fail(name, "invalid_type", fmt::format("'{}' must be {}, not {}", named(name), expected, json_type(value)));
}

std::optional<bool> JsonFields::boolean(const char* name) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  wrong_type(name, "a boolean", *value);
  return std::nullopt;
}

std::optional<double> JsonFields::number(const char* name, double low, double high) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number()) {
    wrong_type(name, "a number", *value);
    return std::nullopt;
  }
  const double number = value->get<double>();
  if (number >= low && number <= high) return number;
  fail(name, "invalid_value",
       fmt::format("'{}' is {}, but must be between {} and {}", named(name), number, low, high));
  return std::nullopt;
}

std::optional<int64_t> JsonFields::integer(const char* name, int64_t low, int64_t high) {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  bool in_range = false;
  int64_t whole = 0;
  if (value->is_number_unsigned()) {
    const uint64_t number = value->get<uint64_t>();
    in_range = number <= static_cast<uint64_t>(INT64_MAX);
    whole = static_cast<int64_t>(number);
  } else if (value->is_number_integer()) {
    in_range = true;
    whole = value->get<int64_t>();
  } else if (value->is_number_float() && std::nearbyint(value->get<double>()) == value->get<double>()) {
    in_range = std::abs(value->get<double>()) < 9e15;
    if (in_range) whole = static_cast<int64_t>(value->get<double>());
  } else {
    wrong_type(name, "a whole number", *value);
    return std::nullopt;
  }
  if (in_range && whole >= low && whole <= high) return whole;
  fail(name, "invalid_value",
       fmt::format("'{}' is {}, but must be between {} and {}", named(name), value->dump(), low, high));
  return std::nullopt;
}

const std::string* JsonFields::string(const char* name) {
  const Json* value = find(name);
  if (!value) return nullptr;
  if (value->is_string()) return value->get_ptr<const std::string*>();
  wrong_type(name, "a string", *value);
  return nullptr;
}

std::string JsonFields::required_string(const char* name) {
  const std::string* value = string(name);
  if (!value) fail(name, "missing_required_parameter", fmt::format("'{}' is missing", named(name)));
  return value ? *value : "";
}

const Json* JsonFields::object(const char* name) {
  const Json* value = find(name);
  if (!value || value->is_object()) return value;
  wrong_type(name, "an object", *value);
  return nullptr;
}

const Json* JsonFields::array(const char* name) {
  const Json* value = find(name);
  if (!value || value->is_array()) return value;
  wrong_type(name, "an array", *value);
  return nullptr;
}

void JsonFields::only(const char* name, std::initializer_list<Json> allowed, const char* why) {
  const Json* value = find(name);
  if (!value) return;
  for (const Json& one : allowed)
    if (*value == one) return;
  fail(name, "unsupported_value", fmt::format("'{}': {}", named(name), why));
}

}  // namespace anabranch::server
