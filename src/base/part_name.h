// Names of the parts of a split file, as llama.cpp's gguf-split writes them: NAME-00001-of-00003.gguf, ...
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace anabranch {

constexpr int kMostParts = 4096;

struct PartName {
  std::string stem;                 // with the directory, without "-00001-of-00003.gguf"
  int part = 0, count = 0;          // as the name writes them: from 1
  std::string of(int other) const;  // the path of another part
};

// None: the path does not end so.
std::optional<PartName> parse_part_name(const std::string& path);

// The paths of all parts, in order, whether they are there or not; the path alone where it is not that of one
// of at most kMostParts.
std::vector<std::string> paths_of_parts(const std::string& path);

}  // namespace anabranch
