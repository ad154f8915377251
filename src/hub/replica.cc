#include "hub/replica.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/file_descriptor.h"

namespace anabranch::hub {

namespace fs = std::filesystem;

std::optional<Replica> Replica::make() {
  std::error_code code;
  std::string pattern = (fs::temp_directory_path(code) / "anabranch-model-XXXXXX").string();
  if (code || !::mkdtemp(pattern.data())) return std::nullopt;
  return Replica(pattern);
}

Replica::~Replica() {
  std::error_code ignored;
  if (!directory_.empty()) fs::remove_all(directory_, ignored);
}

bool Replica::write(const std::string& path, std::string_view text, uint64_t size) const {
  const fs::path file = fs::path(directory_) / path;
  std::error_code code;
  fs::create_directories(file.parent_path(), code);
  const FileDescriptor fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd.ok()) return false;
  size = std::max<uint64_t>(size, text.size());
  while (!text.empty()) {
    const ssize_t n = ::write(*fd, text.data(), text.size());
    if (n <= 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return ::ftruncate(*fd, static_cast<off_t>(size)) == 0;
}

bool Replica::write_empty_safetensors(const std::string& path) const {
  constexpr std::string_view kNoTensors("\x02\0\0\0\0\0\0\0{}", 10);
  return write(path, kNoTensors);
}

bool Replica::link(const std::string& path, const std::string& target) const {
  std::error_code code;
  fs::remove(fs::path(directory_) / path, code);
  fs::create_symlink(fs::absolute(target), fs::path(directory_) / path, code);
  return !code;
}

std::string Replica::with_repo(std::string text, const std::string& repo) const {
  for (size_t at = 0; (at = text.find(directory_, at)) != text.npos; at += repo.size())
    text.replace(at, directory_.size(), repo);
  return text;
}

}  // namespace anabranch::hub
