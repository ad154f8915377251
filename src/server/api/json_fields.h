// Reads the fields of a JSON object one after the other and keeps the first error, so that a parser is a
// plain list of fields with one check at its end. Refers to the object; does not own it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/json.h"
#include "server/http/api_error.h"

namespace anabranch::server {

// The name of a value's type for messages: "a string", "an object", ...
const char* json_type(const Json& value);

// An API's own name for a field that other APIs name differently, with its path: "num_predict",
// "options.seed".
struct FieldName {
  const char* ours;
  const char* theirs;
};

class JsonFields {
 public:
  // prefix: the object's own place, prepended to field names in messages ("messages[3].").
  explicit JsonFields(const Json& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}
  // For an API with its own field names: the members take our names, and errors use the API's. Fields that
  // are not in the table are not read. The table must outlive this object.
  JsonFields(const Json& object, std::span<const FieldName> names) : object_(object), names_(names) {}

  // The API's name of a field, for messages. name: may have a suffix, as in "stop[2]".
  std::string named(const std::string& name) const;

  // The field's value, or nullptr when absent or null.
  const Json* find(const char* name) const;
  std::optional<bool> boolean(const char* name);
  // A number in [low, high].
  std::optional<double> number(const char* name, double low, double high);
  // A whole number in [low, high]; 3.0 counts as one.
  std::optional<int64_t> integer(const char* name, int64_t low, int64_t high);
  const std::string* string(const char* name);
  // Like string(), but also fails when the field is absent.
  std::string required_string(const char* name);
  const Json* object(const char* name);
  const Json* array(const char* name);

  // Fails with 400 `unsupported_value` when the field is present and not one of `allowed`.
  void only(const char* name, std::initializer_list<Json> allowed, const char* why);

  void fail(const std::string& field, const char* code, std::string message);
  void fail(ApiError error) {
    if (!error_) error_ = std::move(error);
  }
  const std::optional<ApiError>& error() const { return error_; }

 private:
  void wrong_type(const char* name, const char* expected, const Json& value);

  const Json& object_;
  std::string prefix_;
  std::span<const FieldName> names_;  // empty: the object's own names
  std::optional<ApiError> error_;
};

}  // namespace anabranch::server
