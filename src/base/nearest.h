// Suggestions for mistyped words.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace anabranch {

// Number of letters to insert, remove, replace or swap with a neighbour to turn a into b (optimal string
// alignment).
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate with the smallest edit_distance(); none if that is more than a third of the word's letters
// (at least two are allowed).
std::optional<std::string> nearest(std::string_view word, std::span<const std::string> candidates);
// "; did you mean X?", or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace anabranch
