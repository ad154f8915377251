// What the speculation controller learnt of a model, kept between runs as a small text file. A file is only
// ever a hint: one that is missing, damaged or of another version is ignored as a whole.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "decode/spec_controller.h"

namespace anabranch {

// Versioned lines of "name numbers..."; reading gives back the same bits.
std::string spec_stats_text(const SpecStats& stats);
// Nothing if any line is not exactly as written above, or any number out of its range.
std::optional<SpecStats> parse_spec_stats(std::string_view text);

// $XDG_CACHE_HOME/anabranch/speculation/<key>.txt, or under ~/.cache; empty if neither variable holds an
// absolute path, or if the key is not 1 to 128 of [A-Za-z0-9_-].
std::string spec_stats_path(std::string_view key);

// Never fail: defaults if there is nothing to read; nothing is written where that is not possible. Written
// beside the file and renamed, readable by the owner only.
SpecStats load_spec_stats(const std::string& path);
bool save_spec_stats(const std::string& path, const SpecStats& stats);  // false: not written

}  // namespace anabranch
