// A string that records for every byte who wrote it: the template (trusted), or a message, a tool or another
// variable (untrusted). All string operations of the template language are built from append and slice.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace anabranch::jinja {

class Text {
 public:
  struct Run {
    size_t end;  // one past its last byte
    bool trusted;
  };

  Text() = default;
  Text(std::string bytes, bool trusted) : bytes_(std::move(bytes)) {
    if (!bytes_.empty()) runs_.push_back({bytes_.size(), trusted});
  }

  const std::string& bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // The runs cover all bytes in order; of two neighbours, one is trusted and the other is not.
  const std::vector<Run>& runs() const { return runs_; }
  // Whether the byte at `at` is trusted.
  bool trusted_at(size_t at) const;

  void append(std::string_view bytes, bool trusted);
  void append(const Text& other) { append_slice(other, 0, other.size()); }
  // Bytes [begin, end) of `other`, which must not be *this.
  void append_slice(const Text& other, size_t begin, size_t end);
  Text slice(size_t begin, size_t end) const;

 private:
  std::vector<Run>::const_iterator run_at(size_t at) const;

  std::string bytes_;
  std::vector<Run> runs_;
};

// The offset of `needle` in `hay` at or after `from`, or npos. Takes linear time for all inputs.
size_t find_bytes(std::string_view hay, std::string_view needle, size_t from = 0);

}  // namespace anabranch::jinja
