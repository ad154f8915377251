#include "server/api/adapter_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/part_name.h"
#include "server/api/control_characters.h"

namespace anabranch::server {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostPath = 4096;  // bytes
constexpr int kMostFiles = 1000;    // of an adapter's directory

// Whether the path is the directory or below it. Both are absolute, and have neither "." nor "..".
bool is_within(const fs::path& path, const fs::path& directory) {
  return std::mismatch(directory.begin(), directory.end(), path.begin(), path.end()).first == directory.end();
}

// Whether another file that would be read lies elsewhere: a part of this split file, or a file of this
// directory.
bool leads_out(const fs::path& path, const fs::path& directory) {
  const auto is_elsewhere = [&](const fs::path& file) {
    std::error_code dangles;
    const fs::path real = fs::canonical(file, dangles);
    return !dangles && !is_within(real, directory);
  };
  if (std::ranges::any_of(paths_of_parts(path), is_elsewhere)) return true;
  std::error_code failed;
  int files = 0;
  for (fs::directory_iterator it(path, failed), end; !failed && it != end; it.increment(failed)) {
    if (++files > kMostFiles || is_elsewhere(it->path())) return true;
  }
  return false;
}

// As the operator wrote it, so without following links.
fs::path as_written(const std::string& directory) {
  std::error_code failed;  // the path is empty then
  const fs::path path = fs::absolute(directory, failed).lexically_normal();
  return path.has_filename() ? path : path.parent_path();  // "/srv/adapters/" ends in an empty element
}

}  // namespace

ApiResult<std::string> allowed_adapter_path(const std::string& path,
                                            const std::vector<std::string>& directories) {
  if (path.empty() || path.size() > kMostPath || has_control_characters(path))
    return ApiError{
        400,
        fmt::format("'lora_path' must be a path of 1 to {} bytes, without control characters", kMostPath),
        "lora_path", "invalid_value"};
  const ApiError elsewhere{
      403,
      "'lora_path' must name an adapter in a directory of --lora-dir, without '..' and without "
      "links that lead out of it",
      "lora_path", "path_not_allowed"};
  const fs::path wanted(path);
  if (std::ranges::find(wanted, fs::path("..")) != wanted.end()) return elsewhere;
  ApiError error = elsewhere;
  for (const std::string& directory : directories) {
    std::error_code failed;
    const fs::path base = fs::canonical(directory, failed);
    if (failed) continue;
    const fs::path at = (wanted.is_absolute() ? wanted : base / wanted).lexically_normal();
    if (!is_within(at, base) && !is_within(at, as_written(directory))) continue;
    const fs::path real = fs::canonical(at, failed);
    if (!failed && is_within(real, base) && !leads_out(real, base)) return real.string();
    if (failed)
      error = {404, fmt::format("There is no adapter at '{}'", path), "lora_path", "adapter_not_found"};
  }
  return error;
}

}  // namespace anabranch::server
