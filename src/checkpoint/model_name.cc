#include "checkpoint/model_name.h"

#include <filesystem>
#include <string_view>

#include "base/part_name.h"

namespace anabranch {

namespace {

namespace fs = std::filesystem;

// "ORG/NAME" for ".../models--ORG--NAME/snapshots/COMMIT"; "" for other paths.
std::string repository_of(const fs::path& snapshot) {
  constexpr std::string_view kStart = "models--";
  const std::string folder = snapshot.parent_path().parent_path().filename().string();
  if (snapshot.parent_path().filename() != "snapshots" || !folder.starts_with(kStart)) return "";
  std::string name = folder.substr(kStart.size());
  const size_t between = name.find("--");
  return between == name.npos ? name : name.replace(between, 2, "/");
}

}  // namespace

std::string model_name_of(const std::string& text) {
  fs::path path = fs::path(text).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // "dir/"
  if (path == "." || path == "..") {
    std::error_code ignored;
    path = fs::weakly_canonical(path, ignored);
  }
  if (const auto part = parse_part_name(path.filename().string())) return part->stem;
  if (path.extension() == ".gguf") return path.stem().string();
  const std::string repository = repository_of(path);
  return repository.empty() ? path.filename().string() : repository;
}

}  // namespace anabranch
