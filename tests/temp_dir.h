// A directory of a test's own.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace anabranch::testing {

// A directory that is removed with the object.
class TempDir {
 public:
  TempDir() {
    std::string path = (std::filesystem::temp_directory_path() / "anabranch-test-XXXXXX").string();
    if (!mkdtemp(path.data())) std::abort();
    path_ = path;
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }
  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path_ / name, std::ios::binary) << bytes;
  }

 private:
  std::filesystem::path path_;
};

// The path of a file or directory of this process alone. It is removed at the process's end.
inline std::string temp_path(const std::string& name) {
  static const TempDir folder;
  return folder.file(name);
}

}  // namespace anabranch::testing
