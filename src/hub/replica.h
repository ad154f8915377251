// A model that is not downloaded, as a directory on this machine: its small files, and of its weights the
// headers. What follows a header is a hole, which takes no space and reads as zeros.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace anabranch::hub {

class Replica {
 public:
  // None: no directory for temporary files can be written.
  static std::optional<Replica> make();
  ~Replica();  // removes it
  Replica(Replica&& other) noexcept : directory_(std::move(other.directory_)) { other.directory_.clear(); }
  Replica& operator=(Replica&& other) noexcept {
    std::swap(directory_, other.directory_);
    return *this;
  }

  const std::string& directory() const { return directory_; }
  // Makes a file that begins with `text` and has `size` bytes (at least those of the text). path: safe,
  // within the directory; what was there is replaced. False: the system refuses.
  bool write(const std::string& path, std::string_view text, uint64_t size = 0) const;
  // A safetensors file without tensors, for one that is not known yet.
  bool write_empty_safetensors(const std::string& path) const;
  // Makes the path a link to a file of this machine.
  bool link(const std::string& path, const std::string& target) const;
  // A text that names files of the directory, as messages name them: below `repo`.
  std::string with_repo(std::string text, const std::string& repo) const;

 private:
  explicit Replica(std::string directory) : directory_(std::move(directory)) {}
  std::string directory_;
};

}  // namespace anabranch::hub
