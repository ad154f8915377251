// Python's str operations on Text. Every character stays trusted or untrusted.
#pragma once

#include <optional>
#include <vector>

#include "jinja/value.h"

namespace anabranch::jinja {

enum class Side { left, right, both };
// chars: the characters to strip; nullopt for white space.
Text strip(const Text& text, const std::optional<std::string>& chars, Side side);

enum class Casing { upper, lower, title, capitalize, swap };
Text change_case(const Text& text, Casing casing, Budget& budget);

// Replaces at most `limit` times; without limit if it is negative.
Text replace(const Text& text, const Text& from, const Text& to, Int limit, Budget& budget);

// separator: null to split at runs of white space. Splits at most `limit` times, starting at the right end if
// from_right.
std::vector<Value> split(const Text& text, const Text* separator, Int limit, bool from_right, Budget& budget);
std::vector<Text> split_lines(const Text& text, bool keep_ends, Budget& budget);

// The values converted by str(), with `separator` between them.
Text join(const Text& separator, const std::vector<Value>& values, Budget& budget);

// `fill`, `count` times.
Text padding(Int count, std::string_view fill = " ");

}  // namespace anabranch::jinja
