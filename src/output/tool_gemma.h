// Gemma's notation for arguments: {key:value,...} with bare keys, and special marks around strings.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "output/tool_json.h"

namespace anabranch {

// Like JsonScan, for an object in this notation. quote: the mark around strings.
class GemmaScan {
 public:
  explicit GemmaScan(std::string_view quote) : quote_(quote) {}
  Scan advance(std::string_view text, size_t& at);

 private:
  std::string_view quote_;
  std::string open_;
  StringScan string_;
  bool in_quote_ = false;
  bool fresh_ = true;  // a value or key may begin here
};

// The object as JSON text; nullopt if the text is no such object.
std::optional<std::string> gemma_to_json(std::string_view text, std::string_view quote);

}  // namespace anabranch
