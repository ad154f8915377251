#include "models/config.h"

#include <algorithm>
#include <climits>
#include <cmath>

#include "base/outside_text.h"

namespace anabranch {

bool ConfigReader::has(const char* key) const {
  const auto it = config_->find(key);
  return it != config_->end() && !it->is_null();
}

bool ConfigReader::is_null(const char* key) const {
  const auto it = config_->find(key);
  return it != config_->end() && it->is_null();
}

bool ConfigReader::is_string(const char* key, const char* value) const {
  return has(key) && (*config_)[key] == value;
}

bool ConfigReader::is_false(const char* key) const {
  return has(key) && (*config_)[key] == false;
}

bool ConfigReader::is_list(const char* key) const {
  return has(key) && (*config_)[key].is_array();
}

void ConfigReader::fail(ErrorKind kind, std::string message) {
  if (!error_) error_ = Error{kind, std::move(message)};
}

int ConfigReader::integer(const char* key, int64_t low, int64_t high) {
  if (!has(key)) {
    fail(ErrorKind::invalid, fmt::format("{}: \"{}\" is missing", file_, key));
    return static_cast<int>(low);
  }
  const Json& value = (*config_)[key];
  if (!value.is_number_integer() || value.get<int64_t>() < low || value.get<int64_t>() > high) {
    fail(ErrorKind::invalid, fmt::format("{}: \"{}\" is {}, but a whole number from {} to {} is needed",
                                         file_, key, value.dump(), low, high));
    return static_cast<int>(low);
  }
  return value.get<int>();
}

double ConfigReader::number(const char* key, double low, double high) {
  if (!has(key)) {
    fail(ErrorKind::invalid, fmt::format("{}: \"{}\" is missing", file_, key));
    return low;
  }
  const Json& value = (*config_)[key];
  if (!value.is_number() || !(value.get<double>() >= low && value.get<double>() <= high)) {
    fail(ErrorKind::invalid, fmt::format("{}: \"{}\" is {}, but a number from {} to {} is needed", file_, key,
                                         value.dump(), low, high));
    return low;
  }
  return value.get<double>();
}

int ConfigReader::integer_or(const char* key, int64_t low, int64_t high, int fallback) {
  return has(key) ? integer(key, low, high) : fallback;
}

double ConfigReader::number_or(const char* key, double low, double high, double fallback) {
  return has(key) ? number(key, low, high) : fallback;
}

bool ConfigReader::boolean_or(const char* key, bool fallback) {
  if (!has(key)) return fallback;
  const Json& value = (*config_)[key];
  if (!value.is_boolean()) {
    fail(ErrorKind::invalid,
         fmt::format("{}: \"{}\" is {}, but true or false is needed", file_, key, value.dump()));
    return fallback;
  }
  return value.get<bool>();
}

std::string ConfigReader::string_or(const char* key, std::string fallback) {
  if (!has(key)) return fallback;
  const Json& value = (*config_)[key];
  if (!value.is_string()) {
    fail(ErrorKind::invalid,
         fmt::format("{}: \"{}\" is {}, but a string is needed", file_, key, value.dump()));
    return fallback;
  }
  return value.get<std::string>();
}

std::vector<int> ConfigReader::integers(const char* key) {
  std::vector<int> out;
  if (!has(key)) return out;
  const Json& list = (*config_)[key];
  const bool good = list.is_array() && std::ranges::all_of(list, [](const Json& v) {
                      return v.is_number_integer() && v >= INT_MIN && v <= INT_MAX;
                    });
  if (!good) {
    fail(ErrorKind::invalid, fmt::format("{}: \"{}\" must be a list of integers", file_, key));
    return out;
  }
  for (const Json& value : list) out.push_back(value.get<int>());
  return out;
}

std::vector<double> ConfigReader::numbers(const char* key, double low, double high) {
  std::vector<double> out;
  if (!has(key)) return out;
  const Json& list = (*config_)[key];
  const bool good = list.is_array() && std::ranges::all_of(list, [&](const Json& v) {
                      return v.is_number() && v.get<double>() >= low && v.get<double>() <= high;
                    });
  if (!good) {
    fail(ErrorKind::invalid,
         fmt::format("{}: \"{}\" must be a list of numbers from {} to {}", file_, key, low, high));
    return out;
  }
  for (const Json& value : list) out.push_back(value.get<double>());
  return out;
}

std::vector<std::string> ConfigReader::strings(const char* key) {
  std::vector<std::string> out;
  if (!has(key)) return out;
  const Json& list = (*config_)[key];
  if (!list.is_array()) {
    fail(ErrorKind::invalid, fmt::format("{}: \"{}\" must be a list of strings", file_, key));
    return out;
  }
  for (const Json& value : list) {
    if (!value.is_string()) {
      fail(ErrorKind::invalid, fmt::format("{}: \"{}\" must be a list of strings", file_, key));
      return {};
    }
    out.push_back(value.get<std::string>());
  }
  return out;
}

const Json& ConfigReader::object(const char* key) {
  static const Json empty = Json::object();
  if (!has(key)) return empty;
  const Json& value = (*config_)[key];
  if (!value.is_object()) {
    fail(ErrorKind::invalid, fmt::format("{}: \"{}\" is not an object", file_, key));
    return empty;
  }
  return value;
}

void ConfigReader::unsupported(const char* key, const std::string& value, const std::string& what_works) {
  fail(ErrorKind::unsupported,
       fmt::format("{}: \"{}\" is {}, which is not supported; {}", file_, key, shown(value), what_works));
}

void ConfigReader::invalid(const std::string& message) {
  fail(ErrorKind::invalid, fmt::format("{}: {}", file_, message));
}

Result<void> ConfigReader::check() const {
  if (error_) return *error_;
  return {};
}

std::vector<int> read_token_ids(const Json& value) {
  std::vector<int> out;
  for (const Json& id : value.is_array() ? value : Json::array({value}))
    if (id.is_number_integer() && id >= 0 && id <= INT_MAX) out.push_back(id.get<int>());
  return out;
}

}  // namespace anabranch
