// A stand-in directory for a model that is not downloaded: its small files, and the headers of its weights.
// The rest of a weights file is a hole, which takes no space and reads as zeros.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace anabranch::hub {

class Replica {
 public:
  // Makes an empty directory. None: there is no writable directory for temporary files.
  static std::optional<Replica> make();
  ~Replica();  // removes it
  Replica(Replica&& other) noexcept : directory_(std::move(other.directory_)) { other.directory_.clear(); }
  Replica& operator=(Replica&& other) noexcept {
    std::swap(directory_, other.directory_);
    return *this;
  }

  const std::string& directory() const { return directory_; }
  // Makes a file of `size` bytes (at least the length of the text) that begins with `text`. path: safe,
  // within the directory; an existing file is replaced. False: the system refused.
  bool write(const std::string& path, std::string_view text, uint64_t size = 0) const;
  // Writes a safetensors file without tensors, in place of one whose header is not known yet.
  bool write_empty_safetensors(const std::string& path) const;
  // Makes the path a link to a file of this machine.
  bool link(const std::string& path, const std::string& target) const;
  // Replaces the directory in a message that names files with `repo`.
  std::string with_repo(std::string text, const std::string& repo) const;

 private:
  explicit Replica(std::string directory) : directory_(std::move(directory)) {}
  std::string directory_;
};

}  // namespace anabranch::hub
