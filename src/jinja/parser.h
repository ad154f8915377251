// Source -> syntax tree. Unknown tags, filters and tests are errors here, with line and column; but a filter
// or test inside {% if %} only when it is reached, as in Jinja (templates use it to probe for features).
#pragma once

#include <memory>
#include <string_view>

#include "jinja/ast.h"

namespace anabranch::jinja {

// Throws Failure.
std::unique_ptr<const Ast> parse(std::string_view source);

}  // namespace anabranch::jinja
