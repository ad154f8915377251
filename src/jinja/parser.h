// Parses a template's source to a syntax tree. Unknown tags, filters and tests are errors with line and
// column. As in Jinja, an unknown filter or test inside {% if %} is an error only when it is evaluated:
// templates use this to probe for features.
#pragma once

#include <memory>
#include <string_view>

#include "jinja/ast.h"

namespace anabranch::jinja {

// Throws Failure.
std::unique_ptr<const Ast> parse(std::string_view source);

}  // namespace anabranch::jinja
