// Reads config.json (or its text_config) key by key. The reader remembers the first wrong value and check()
// reports it, so that a family's parser can be written as a plain list.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace anabranch {

class ConfigReader {
 public:
  // `file` is named in errors. The Json must outlive the reader.
  ConfigReader(const Json& config, std::string file) : config_(&config), file_(std::move(file)) {}

  bool has(const char* key) const;      // present and not null
  bool is_null(const char* key) const;  // present, and null
  bool is_string(const char* key, const char* value) const;
  bool is_list(const char* key) const;
  bool is_false(const char* key) const;
  // Required, within [low, high].
  int integer(const char* key, int64_t low, int64_t high);
  double number(const char* key, double low, double high);
  // Optional: the fallback, or an empty list, when absent.
  int integer_or(const char* key, int64_t low, int64_t high, int fallback);
  double number_or(const char* key, double low, double high, double fallback);
  bool boolean_or(const char* key, bool fallback);
  std::string string_or(const char* key, std::string fallback);
  std::vector<int> integers(const char* key);
  std::vector<double> numbers(const char* key, double low, double high);
  std::vector<std::string> strings(const char* key);
  // The value under `key` when it is an object, else an empty object.
  const Json& object(const char* key);

  // Remembers that `key` has a value this build cannot run.
  void unsupported(const char* key, const std::string& value, const std::string& what_works);
  void invalid(const std::string& message);

  // Reports the first wrong value.
  Result<void> check() const;

 private:
  void fail(ErrorKind kind, std::string message);
  const Json* config_;
  std::string file_;
  std::optional<Error> error_;
};

// "eos_token_id": a number, or a list of them. Values that cannot be a token's id are skipped.
std::vector<int> read_token_ids(const Json& value);

}  // namespace anabranch
