#include "cli/standard_input.h"

#include <iostream>

namespace anabranch::cli {
namespace {

constexpr int kEnd = std::char_traits<char>::eof();

Error too_much(const char* what, size_t most_bytes) {
  return make_error(ErrorKind::exhausted,
                    "{} has more than {} bytes, and no more are read: is it what you meant?", what,
                    most_bytes);
}

}  // namespace

Result<std::string> read_standard_input(size_t most_bytes) {
  std::string text;
  char part[1 << 16];
  while (std::cin.read(part, sizeof part), std::cin.gcount() > 0) {
    text.append(part, static_cast<size_t>(std::cin.gcount()));
    if (text.size() > most_bytes) return too_much("standard input", most_bytes);
  }
  return text;
}

Result<std::optional<std::string>> read_standard_line(size_t most_bytes) {
  if (!std::cin) return std::optional<std::string>();
  std::string line;
  std::streambuf& input = *std::cin.rdbuf();
  int c = input.sbumpc();
  for (; c != kEnd && c != '\n'; c = input.sbumpc()) {
    if (line.size() == most_bytes) return too_much("a line of standard input", most_bytes);
    line += static_cast<char>(c);
  }
  if (c == kEnd) std::cin.setstate(std::ios::eofbit | std::ios::failbit);  // an interrupt also ends the input
  return c == kEnd && line.empty() ? std::nullopt : std::optional(std::move(line));
}

}  // namespace anabranch::cli
