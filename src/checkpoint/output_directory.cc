#include "checkpoint/output_directory.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace anabranch {

namespace fs = std::filesystem;

namespace {

// Removes only directories that look like a converted model: config.json and safetensors, no folders.
bool is_model_or_empty(const fs::path& path) {
  std::error_code code;
  if (!fs::is_directory(path, code)) return false;
  if (fs::is_empty(path, code)) return true;
  bool weights = false;
  for (const auto& entry : fs::directory_iterator(path, code)) {
    if (!entry.is_regular_file(code)) return false;
    weights = weights || entry.path().extension() == ".safetensors";
  }
  return weights && fs::exists(path / "config.json", code);
}

bool lies_within(const fs::path& inner, const fs::path& outer) {
  std::error_code code;
  const fs::path a = fs::weakly_canonical(inner, code), b = fs::weakly_canonical(outer, code);
  return std::mismatch(b.begin(), b.end(), a.begin(), a.end()).first == b.end();
}

}  // namespace

Result<std::unique_ptr<OutputDirectory>> OutputDirectory::make(const std::string& target,
                                                               const std::string& source, bool force) {
  if (target.empty()) return make_error(ErrorKind::invalid, "no output directory is given");
  std::error_code code;
  fs::path path = fs::absolute(target, code).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (fs::exists(fs::symlink_status(path, code))) {
    if (lies_within(source, path))
      return make_error(ErrorKind::invalid, "{} holds the source itself: write to another directory", target);
    if (!force) return make_error(ErrorKind::invalid, "{} exists already; --force replaces it", target);
    if (fs::is_symlink(path, code) || !is_model_or_empty(path))
      return make_error(ErrorKind::invalid, "{} is not a model directory: it is not replaced", target);
  }
  fs::create_directories(path.parent_path(), code);
  std::string work = path.string() + ".partial-XXXXXX";
  if (!::mkdtemp(work.data()))
    return make_error(ErrorKind::io, "cannot write to {}: {}; choose another output",
                      path.parent_path().string(), std::strerror(errno));
  fs::permissions(work, fs::perms(0755), code);
  return std::unique_ptr<OutputDirectory>(new OutputDirectory(path.string(), work));
}

OutputDirectory::~OutputDirectory() {
  std::error_code code;
  if (!published_) fs::remove_all(work_, code);
}

Result<void> OutputDirectory::publish() {
  std::error_code code;
  fs::path old;
  if (fs::exists(target_, code)) {
    old = work_ + ".old";
    fs::rename(target_, old, code);
    if (code) return make_error(ErrorKind::io, "cannot replace {}: {}", target_, code.message());
  }
  fs::rename(work_, target_, code);
  if (code) {
    std::error_code ignored;
    if (!old.empty()) fs::rename(old, target_, ignored);
    return make_error(ErrorKind::io, "cannot rename {} to {}: {}", work_, target_, code.message());
  }
  published_ = true;
  if (!old.empty()) fs::remove_all(old, code);
  return {};
}

}  // namespace anabranch
