// Reads objects and lists that are nearly JSON, as models write them.
//
// Beyond JSON it takes Python's spelling (single quotes, True, False, None), a comma behind the last part,
// control characters inside strings, and a backslash before a character that it does not escape: that is a
// backslash, but \' is an apostrophe. What reads as JSON has the same value here.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/json_text.h"

namespace anabranch {

// Like JsonScan, for text that lenient_json() may read.
class LenientScan {
 public:
  Scan advance(std::string_view text, size_t& at);
  // The first byte at which JsonScan would have stopped; npos: none so far.
  size_t odd_at() const { return odd_at_; }
  // The brackets that would close the value here.
  std::string missing() const { return {open_.rbegin(), open_.rend()}; }

 private:
  std::string open_;  // the closing brackets that are still expected
  StringScan string_;
  size_t odd_at_ = std::string_view::npos;
};

// A notation with marks around strings, where keys and values may also stand without marks or quotes.
struct MarkedNotation {
  std::string_view mark;
  // The JSON of a string or bare value, which is the member `key` of the whole object; nullopt: it is left
  // out.
  std::function<std::optional<std::string>(const std::string& key, std::string_view text, bool quoted)> typed;
};

// The bytes of the escape at the beginning of `text`, with its partner if it is half of a pair; 0: it is no
// escape of JSON.
size_t escape_size(std::string_view text);

// The JSON of an object or list; nullopt if the text is none, or exceeds the limits for calls or of
// parse_json().
std::optional<std::string> lenient_json(std::string_view text);
std::optional<std::string> lenient_json(std::string_view text, const MarkedNotation& notation);

}  // namespace anabranch
