// Helpers for all flags: sizes with units, and messages about wrong flags.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace anabranch::cli {

// "64MB" in bytes: a number that is not negative, and B, KB, MB, GB or TB (powers of 1024; KiB and so on mean
// the same). 0 needs no unit. Nothing if the text has another format or the size is too large.
std::optional<uint64_t> parse_size(std::string_view text);
// Replaces a size by its bytes, or says what is wrong with it.
CLI::Validator size_flag();

// Flags that are added while this exists appear under this heading in the help.
class Group {
 public:
  Group(CLI::App& app, std::string name);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

 private:
  CLI::App& app_;
  const std::string name_;
  const size_t before_;
};

// Removes useless parts from the help: ranges such as "INT in [0 - 134217728]".
void tidy_help(CLI::App& app);

void add_device_flag(CLI::App& app, std::string& device);

// Prints CLI11's help or error (which names the wrong word and the nearest right one), and returns the exit
// status.
int explain(const CLI::App& app, const CLI::ParseError& error);

}  // namespace anabranch::cli
