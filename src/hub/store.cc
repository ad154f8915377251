#include "hub/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/mapped_file.h"
#include "hub/model_name.h"

namespace anabranch::hub {
namespace {

namespace fs = std::filesystem;

Error io_error(const std::string& what, const fs::path& path, const std::string& why) {
  return make_error(ErrorKind::io, "cannot {} {}: {}", what, path.string(), why);
}

Result<void> make_directories(const fs::path& path) {
  std::error_code code;
  fs::create_directories(path, code);
  if (code) return io_error("make the directory", path, code.message());
  return {};
}

// A name beside `path` that no other process uses.
std::string temporary_name(const fs::path& path) {
  return (path.parent_path() / fmt::format(".tmp-{}-{}", ::getpid(), path.filename().string())).string();
}

Result<void> write_whole(const fs::path& path, const std::string& text) {
  const std::string temporary = temporary_name(path);
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) return io_error("write", temporary, std::strerror(errno));
  const bool written = ::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  int error = written ? 0 : errno;
  if (::close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return {};
  ::unlink(temporary.c_str());
  return io_error("write", path, std::strerror(error));
}

// The directory of a snapshot's file; it is made if missing. No part of it below `base` may be a link, which
// could lead out of the store.
Result<fs::path> parent_in(const fs::path& base, const std::string& path) {
  fs::path at = base;
  const fs::path parent = fs::path(path).parent_path();
  for (const fs::path& part : parent) {
    at /= part;
    struct stat st {};
    if (::mkdir(at.c_str(), 0777) == 0) continue;
    if (errno != EEXIST) return io_error("make the directory", at, std::strerror(errno));
    if (::lstat(at.c_str(), &st) != 0 || !S_ISDIR(st.st_mode))
      return io_error("store a file in", at, "it is no directory");
  }
  return at;
}

}  // namespace

std::string Store::repo_directory(const std::string& repo) const {
  std::string name = "models--" + repo;
  if (const size_t slash = name.find('/'); slash != name.npos) name.replace(slash, 1, "--");
  return root_ + "/" + name;
}

std::string Store::snapshot_directory(const std::string& repo, const std::string& commit) const {
  return repo_directory(repo) + "/snapshots/" + commit;
}

std::string Store::blob_path(const std::string& repo, const std::string& oid) const {
  return repo_directory(repo) + "/blobs/" + oid;
}

std::string Store::lock_path(const std::string& repo, const std::string& oid) const {
  const fs::path directory = repo_directory(repo);
  return root_ + "/.locks/" + directory.filename().string() + "/" + oid + ".lock";
}

Result<void> Store::prepare(const std::string& repo) const {
  std::error_code code;
  const bool is_new = !fs::exists(root_, code);
  TRY_VOID(make_directories(repo_directory(repo) + "/blobs"));
  TRY_VOID(make_directories(repo_directory(repo) + "/snapshots"));
  TRY_VOID(make_directories(fs::path(lock_path(repo, "x")).parent_path()));
  // Backup programs leave out directories with this file (https://bford.info/cachedir).
  if (is_new) TRY_VOID(write_whole(root_ + "/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n"));
  return {};
}

std::optional<std::string> Store::commit_of(const std::string& repo, const std::string& revision) const {
  std::error_code code;
  if (is_commit(revision)) {
    if (fs::is_directory(snapshot_directory(repo, revision), code)) return revision;
    return std::nullopt;
  }
  if (!is_safe_path(revision)) return std::nullopt;
  const auto text = read_file(repo_directory(repo) + "/refs/" + revision, 256);
  if (!text) return std::nullopt;
  const std::string commit = text->substr(0, text->find_first_of(" \r\n"));
  return is_commit(commit) ? std::optional(commit) : std::nullopt;
}

bool Store::has_blob(const std::string& repo, const RepoFile& file) const {
  struct stat st {};
  return ::stat(blob_path(repo, file.oid).c_str(), &st) == 0 && S_ISREG(st.st_mode) &&
         static_cast<uint64_t>(st.st_size) == file.size;
}

uint64_t Store::partial_bytes(const std::string& repo, const RepoFile& file) const {
  struct stat st {};
  const std::string path = blob_path(repo, file.oid) + ".incomplete";
  return ::stat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode) ? static_cast<uint64_t>(st.st_size) : 0;
}

Result<void> Store::link(const std::string& repo, const std::string& commit, const RepoFile& file) const {
  const fs::path base = snapshot_directory(repo, commit);
  TRY_VOID(make_directories(base));
  TRY(const fs::path parent, parent_in(base, file.path));
  const fs::path path = base / file.path;
  const auto depth = std::ranges::count(file.path, '/');
  std::string target = "../../blobs/" + file.oid;
  for (int i = 0; i < depth; i++) target = "../" + target;
  struct stat st {};
  if (::lstat(path.c_str(), &st) == 0) {
    if (S_ISREG(st.st_mode)) return {};
    std::error_code code;
    if (S_ISLNK(st.st_mode) && fs::read_symlink(path, code) == target) return {};
    if (S_ISDIR(st.st_mode)) return io_error("store the file", path, "a directory is in its place");
  }
  const std::string temporary = temporary_name(path);
  ::unlink(temporary.c_str());
  if (::symlink(target.c_str(), temporary.c_str()) != 0)
    return io_error("make the link", path, std::strerror(errno));
  if (::rename(temporary.c_str(), path.c_str()) == 0) return {};
  const int error = errno;
  ::unlink(temporary.c_str());
  return io_error("make the link", path, std::strerror(error));
}

Result<void> Store::write_ref(const std::string& repo, const std::string& revision,
                              const std::string& commit) const {
  if (is_commit(revision)) return {};
  const fs::path refs = repo_directory(repo) + "/refs";
  TRY_VOID(make_directories(refs));
  TRY_VOID(parent_in(refs, revision));
  if (commit_of(repo, revision) == commit) return {};
  return write_whole(refs / revision, commit);
}

std::optional<uint64_t> free_disk(const std::string& directory) {
  fs::path at = directory;
  std::error_code code;
  while (!fs::exists(at, code) && at.has_parent_path() && at != at.parent_path()) at = at.parent_path();
  struct statvfs info {};
  if (::statvfs(at.empty() ? "." : at.c_str(), &info) != 0) return std::nullopt;
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

}  // namespace anabranch::hub
