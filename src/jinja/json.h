// The filter `tojson`: json.dumps with the settings of Transformers.
#pragma once

#include <string>

#include "jinja/value.h"

namespace anabranch::jinja {

struct JsonStyle {
  bool ensure_ascii = false, sort_keys = false, pretty = false;
  std::string indent;  // per level, when pretty
  std::string item_separator = ", ", key_separator = ": ";
};

std::string to_json(const Value& v, const JsonStyle& style, Budget& budget);

}  // namespace anabranch::jinja
