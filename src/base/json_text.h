// JSON inside a model's output: finds its end, and the text of its parts. Values keep the model's own text,
// so that no number changes by a conversion to double.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace anabranch {

enum class Scan { more, complete, broken };

// Finds the end of a JSON string that arrives byte by byte, starting after its opening quote.
class StringScan {
 public:
  // quote: the character that closes the string.
  void open(char quote = '"') {
    open_ = true;
    quote_ = quote;
  }
  bool is_open() const { return open_; }
  void take(char c) {
    if (escaped_)
      escaped_ = false;
    else if (c == '\\')
      escaped_ = true;
    else if (c == quote_)
      open_ = false;
  }

 private:
  bool open_ = false, escaped_ = false;
  char quote_ = '"';
};

// Finds the end of an object or array that arrives in pieces. It only looks at brackets and strings, and
// stops early at bytes that cannot be JSON; parse_json checks the rest.
class JsonScan {
 public:
  // text[at] is the next byte to look at; each call gets the whole text so far. Complete: `at` is after the
  // value. Broken: `at` is the first byte that does not fit.
  Scan advance(std::string_view text, size_t& at);

 private:
  std::string open_;  // the closing brackets that are still expected
  StringScan string_;
};

// The members of an object (values as text), or the elements of an array (without keys). text: valid JSON.
struct JsonItem {
  std::string key;
  std::string_view value;
};
std::vector<JsonItem> json_items(std::string_view text);

// Bytes of \uXXXX.
inline constexpr size_t kEscapeBytes = 6;
// The UTF-16 code unit of \uXXXX at the beginning of `text`; nullopt: there is none.
std::optional<unsigned> escaped_unit(std::string_view text);
constexpr bool is_first_surrogate(unsigned unit) {
  return unit >= 0xD800 && unit <= 0xDBFF;
}
constexpr bool is_second_surrogate(unsigned unit) {
  return unit >= 0xDC00 && unit <= 0xDFFF;
}

// The text as a JSON string: escaped and in quotes.
std::string json_string(std::string_view text);
// Converts a value that a model wrote without quotes: JSON is unchanged, and Python's True, False and None
// are recognised; nullopt: anything else.
std::optional<std::string> literal_json(std::string_view text);

}  // namespace anabranch
