// Splits incoming bytes into lines of limited length.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace anabranch::mcp {

class LineReader {
 public:
  explicit LineReader(size_t most) : most_(most) {}
  // Calls `take` for each complete line, without its end. False once a line is longer than `most`, or `take`
  // returned false: the rest is dropped.
  bool push(std::string_view bytes, const std::function<bool(std::string_view line)>& take) {
    while (!bytes.empty()) {
      const size_t end = bytes.find('\n');
      if (line_.size() + bytes.substr(0, end).size() > most_) return false;
      line_ += bytes.substr(0, end);
      if (end == bytes.npos) return true;
      bytes.remove_prefix(end + 1);
      if (line_.ends_with('\r')) line_.pop_back();
      const std::string line = std::exchange(line_, {});
      if (!take(line)) return false;
    }
    return true;
  }

  // Drops the incomplete line.
  void clear() { line_.clear(); }

 private:
  const size_t most_;
  std::string line_;
};

}  // namespace anabranch::mcp
