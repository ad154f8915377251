// Python's str operations on Text; every character keeps its trust.
#pragma once

#include <optional>
#include <vector>

#include "jinja/value.h"

namespace anabranch::jinja {

enum class Side { left, right, both };
// chars: the characters to strip; nullopt: whitespace.
Text strip(const Text& text, const std::optional<std::string>& chars, Side side);

enum class Casing { upper, lower, title, capitalize, swap };
Text change_case(const Text& text, Casing casing, Budget& budget);

// At most `limit` replacements; negative: all of them.
Text replace(const Text& text, const Text& from, const Text& to, Int limit, Budget& budget);

// separator: nullptr splits at runs of whitespace. At most `limit` splits, from the right end if from_right.
std::vector<Value> split(const Text& text, const Text* separator, Int limit, bool from_right, Budget& budget);
std::vector<Text> split_lines(const Text& text, bool keep_ends, Budget& budget);

// The values as str(), with `separator` between them.
Text join(const Text& separator, const std::vector<Value>& values, Budget& budget);

// `count` spaces (or other characters).
Text padding(Int count, std::string_view fill = " ");

}  // namespace anabranch::jinja
