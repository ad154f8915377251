// Gemma's notation for arguments: {key:value,...} with bare keys, and special marks around strings.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "output/lenient_json.h"

namespace anabranch {

// The marks of one of the formats of Gemma models.
struct GemmaMarks {
  std::string_view quote, call_end;
};

// Like JsonScan, for an object in this notation.
class GemmaScan {
 public:
  explicit GemmaScan(const GemmaMarks& marks) : marks_(marks) {}
  // end: nothing follows the text.
  Scan advance(std::string_view text, size_t& at, bool end);

 private:
  // Looks whether the apostrophe at `at` begins a string. Complete: look_ is after the string. Broken: it is
  // text.
  Scan apostrophe(std::string_view text, size_t at, bool end);

  GemmaMarks marks_;
  std::string open_;
  StringScan string_;
  size_t look_ = 0;
  bool in_quote_ = false;
  bool fresh_ = true;  // a value or key may begin here
};

}  // namespace anabranch
