// Filters on lists and dicts.
#pragma once

#include "jinja/ast.h"

namespace anabranch::jinja {

Filter find_sequence_filter(std::string_view name);  // nullptr if there is none

}  // namespace anabranch::jinja
