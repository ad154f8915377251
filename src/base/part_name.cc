#include "base/part_name.h"

#include <string_view>

#include <fmt/format.h>

namespace anabranch {

std::string PartName::of(int other) const {
  return fmt::format("{}-{:05}-of-{:05}.gguf", stem, other, count);
}

std::optional<PartName> parse_part_name(const std::string& path) {
  constexpr std::string_view kForm = "-00001-of-00001.gguf";
  constexpr size_t kPart = 6;  // end of the first number
  if (path.size() <= kForm.size()) return std::nullopt;
  const size_t at = path.size() - kForm.size();
  PartName out{path.substr(0, at)};
  for (size_t i = 0; i < kForm.size(); i++) {
    const char c = path[at + i];
    const bool digit = kForm[i] == '0' || kForm[i] == '1';
    if (digit ? c < '0' || c > '9' : c != kForm[i]) return std::nullopt;
    int& number = i < kPart ? out.part : out.count;
    if (digit) number = number * 10 + (c - '0');
  }
  return out;
}

std::vector<std::string> paths_of_parts(const std::string& path) {
  const auto name = parse_part_name(path);
  if (!name || name->part < 1 || name->part > name->count || name->count > kMostParts) return {path};
  std::vector<std::string> out;
  for (int part = 1; part <= name->count; part++) out.push_back(name->of(part));
  return out;
}

}  // namespace anabranch
