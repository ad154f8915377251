#include "base/python_json.h"

#include <string>
#include <utility>

namespace anabranch {
namespace {

// The end of the string that begins with the quote at `at`.
size_t end_of_string(std::string_view text, size_t at) {
  for (at++; at < text.size() && text[at] != '"'; at++)
    if (text[at] == '\\') at++;
  return at + 1;
}

std::string as_objects(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '"') {
      const size_t end = end_of_string(text, at);
      out += text.substr(at, end - at);
      at = end;
      continue;
    }
    size_t length = 0;
    for (const std::string_view word : {"NaN", "Infinity", "-Infinity"})
      if (text.substr(at).starts_with(word)) length = word.size();
    if (length > 0)
      out.append("{\"__float__\": \"").append(text.substr(at, length)).append("\"}");
    else
      out += text[at];
    at += length > 0 ? length : 1;
  }
  return out;
}

}  // namespace

Result<Json> parse_python_json(std::string_view text, const JsonLimits& limits) {
  auto plain = parse_json(text, limits);
  if (plain.ok() || text.size() > limits.bytes) return plain;
  auto with_objects = parse_json(as_objects(text), limits);
  return with_objects.ok() ? std::move(with_objects) : std::move(plain);
}

}  // namespace anabranch
