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

// "a string", "an object", ...: for messages.
const char* json_type(const Json& value);

// What an API calls a field that others call otherwise, and where it stands: "num_predict", "options.seed".
struct FieldName {
  const char* ours;
  const char* theirs;
};

class JsonFields {
 public:
  // prefix: the object's own place, prepended to field names in messages ("messages[3].").
  explicit JsonFields(const Json& object, std::string prefix = "")
      : object_(object), prefix_(std::move(prefix)) {}
  // Of an API with names of its own: the members take our names, and errors have the API's. Fields that the
  // table has not are not read. It must live as long as this.
  JsonFields(const Json& object, std::span<const FieldName> names) : object_(object), names_(names) {}

  // The field as the API calls it, for messages. name: perhaps with a part behind it, such as "stop[2]".
  std::string named(const std::string& name) const;

  // The field's value, or nullptr when absent or null.
  const Json* find(const char* name) const;
  std::optional<bool> boolean(const char* name);
  // A number in [low, high].
  std::optional<double> number(const char* name, double low, double high);
  // A whole number in [low, high]; 3.0 counts as one.
  std::optional<int64_t> integer(const char* name, int64_t low, int64_t high);
  const std::string* string(const char* name);
  // Fails when absent, too.
  std::string required_string(const char* name);
  const Json* object(const char* name);
  const Json* array(const char* name);

  // Fails with 400 `unsupported_value` when the field is there and is none of `allowed`.
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
