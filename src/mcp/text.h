// Makes text from servers safe for terminals, logs and prompts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace anabranch::mcp {

// Removes everything that acts on a terminal or hides from a reader: control characters other than line feeds
// and tabs, marks that change the direction of writing, invisible "tag" characters. Bytes that are not UTF-8
// become U+FFFD.
std::string printable(std::string_view text);
// Removes control characters other than line feeds and tabs; every other byte stays.
std::string without_controls(std::string_view text);
// printable() on one line: line feeds and tabs become spaces. At most `bytes` long, with "..." where it is
// cut.
std::string one_line(std::string_view text, size_t bytes);
// The longest prefix of at most `bytes` that does not split a character. text: UTF-8.
std::string_view beginning(std::string_view text, size_t bytes);

}  // namespace anabranch::mcp
