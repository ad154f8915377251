#include "base/long_integers.h"

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace anabranch {
namespace {

bool is_number_char(char c) {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}

// Whether a run of number characters is such an integer.
bool is_long_integer(std::string_view number) {
  if (number.find_first_of(".eE+") != number.npos) return false;
  const char *begin = number.data(), *end = begin + number.size();
  int64_t value;
  uint64_t positive;
  return std::from_chars(begin, end, value).ec == std::errc::result_out_of_range &&
         (number.front() == '-' ||
          std::from_chars(begin, end, positive).ec == std::errc::result_out_of_range);
}

// The end of the string that begins at `at`, after its closing quotation mark.
size_t end_of_string(std::string_view json, size_t at) {
  for (at++; at < json.size() && json[at] != '"'; at++)
    if (json[at] == '\\') at++;
  return std::min(at + 1, json.size());
}

}  // namespace

std::string with_exponents_on_long_integers(std::string_view json) {
  std::string out;
  out.reserve(json.size() + 16);
  for (size_t at = 0; at < json.size();) {
    size_t end = at + 1;
    bool is_long = false;
    if (json[at] == '"') {
      end = end_of_string(json, at);
    } else if (is_number_char(json[at])) {
      while (end < json.size() && is_number_char(json[end])) end++;
      is_long = is_long_integer(json.substr(at, end - at));
    }
    out += json.substr(at, end - at);
    if (is_long) out += "e0";
    at = end;
  }
  return out;
}

}  // namespace anabranch
