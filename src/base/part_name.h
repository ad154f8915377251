// Names of the parts of a split file, as llama.cpp's gguf-split writes them: NAME-00001-of-00003.gguf, ...
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace anabranch {

constexpr int kMostParts = 4096;

struct PartName {
  std::string stem;                 // with the directory, without "-00001-of-00003.gguf"
  int part = 0, count = 0;          // as in the name: from 1
  std::string of(int other) const;  // the path of another part
};

// None: the path does not have this format.
std::optional<PartName> parse_part_name(const std::string& path);

// The paths of all parts, in order, whether they exist or not; only the path itself if it is not a part of a
// file with at most kMostParts parts.
std::vector<std::string> paths_of_parts(const std::string& path);

}  // namespace anabranch
