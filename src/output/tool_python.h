// Calls in Python's notation: NAME(KEY=VALUE, ...).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/json_text.h"

namespace anabranch {

// Like JsonScan, for the arguments with their parentheses.
class PythonScan {
 public:
  Scan advance(std::string_view text, size_t& at);
  // The commas between arguments.
  const std::vector<size_t>& commas() const { return commas_; }

 private:
  std::string open_;   // the closing brackets that are still expected
  std::string quote_;  // the quotes that end the string; empty: none
  bool escaped_ = false;
  std::vector<size_t> commas_;
};

// The JSON of one argument's value, typed by the tool's schema as typed_argument() says. `error`: it is
// nothing that can be read.
struct PythonValue {
  std::optional<std::string> json;  // nullopt: the model gives no value
  bool error = false;
};
PythonValue python_value(const Json& tools, std::string_view tool, const std::string& key,
                         std::string_view text);

}  // namespace anabranch
