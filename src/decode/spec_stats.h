// The statistics that the speculation controller learnt about a model, kept between runs in a small text
// file. A file that is missing, damaged or of another version is ignored as a whole.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "decode/spec_controller.h"

namespace anabranch {

// Writes the statistics as a header line with the version, then lines of "name numbers...". Parsing the text
// restores the same bits.
std::string spec_stats_text(const SpecStats& stats);
// Returns nothing if a line is not exactly as spec_stats_text() writes it, or a number is out of its range.
std::optional<SpecStats> parse_spec_stats(std::string_view text);

// $XDG_CACHE_HOME/anabranch/speculation/<key>.txt, or under ~/.cache; empty if neither variable holds an
// absolute path, or if the key is not 1 to 128 of [A-Za-z0-9_-].
std::string spec_stats_path(std::string_view key);

// These never fail: loading falls back to defaults, and saving does nothing where it is not possible. The
// file is written under a temporary name and renamed, and only its owner can read it.
SpecStats load_spec_stats(const std::string& path);
bool save_spec_stats(const std::string& path, const SpecStats& stats);  // false: not written

}  // namespace anabranch
