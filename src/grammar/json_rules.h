// Rules for JSON without a schema. Each function returns the element that stands for them in other rules.
#pragma once

#include <string>

#include "grammar/grammar_rules.h"

namespace anabranch {

// The white space that may stand between two parts of a value.
std::string add_space(GrammarRules& rules);
std::string add_any_string(GrammarRules& rules);
// name: "value", "array" or "object".
std::string add_any(const std::string& name, GrammarRules& rules);

}  // namespace anabranch
