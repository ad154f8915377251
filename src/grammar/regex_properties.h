// Properties of Unicode characters in patterns, such as \p{L}.
#pragma once

#include <string_view>

#include "grammar/automaton.h"

namespace anabranch {

// Characters that have the property in every version of Unicode; empty: the property is not known. Of the
// characters beyond ASCII, others may have it, too.
CharSet characters_with(std::string_view property);

}  // namespace anabranch
