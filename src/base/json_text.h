// JSON inside a model's output: where it ends, and the text of its parts. Values keep the model's own text,
// so that no number changes on its way through a double.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace anabranch {

enum class Scan { more, complete, broken };

// Where a JSON string ends that comes byte by byte, from behind its opening quote on.
class StringScan {
 public:
  void open() { open_ = true; }
  bool is_open() const { return open_; }
  void take(char c) {
    if (escaped_)
      escaped_ = false;
    else if (c == '\\')
      escaped_ = true;
    else if (c == '"')
      open_ = false;
  }

 private:
  bool open_ = false, escaped_ = false;
};

// Finds the end of an object or array that comes in pieces. It looks at brackets and strings, and stops early
// at what no JSON has; the rest is parse_json's affair.
class JsonScan {
 public:
  // text[at] is the next byte to look at; each call gets the text so far, longer than before. Complete: `at`
  // is after the value. Broken: at the first byte that does not fit.
  Scan advance(std::string_view text, size_t& at);

 private:
  std::string open_;  // the brackets to come
  StringScan string_;
};

// The members of an object (values as text), or the elements of an array (without keys). text: valid JSON.
struct JsonItem {
  std::string key;
  std::string_view value;
};
std::vector<JsonItem> json_items(std::string_view text);

// As a JSON string.
std::string json_string(std::string_view text);
// What a model wrote without quotes: JSON as it is, Python's True, False and None; nullopt: none of them.
std::optional<std::string> literal_json(std::string_view text);

}  // namespace anabranch
