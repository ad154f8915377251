// What a mistyped word was meant to be.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace anabranch {

// The letters to insert, remove, replace or swap with a neighbour until a is b (optimal string alignment).
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate with the fewest letters to insert, remove, replace or swap with a neighbour; none when that
// would be more than a third of the word's letters (at least two).
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);
// "; did you mean X?", or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace anabranch
