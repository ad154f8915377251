// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace anabranch::cli {

// "12.3 kB", "4.5 MB", "6.78 GB"
std::string size_text(uint64_t bytes);
// "12 s ago", "3 min ago", "5 h ago", "6 days ago", of a time since 1970
std::string age_text(int64_t then_ns);
// "1 file", "2 files"
std::string count_text(uint64_t n, const std::string& what);

}  // namespace anabranch::cli
