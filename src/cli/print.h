// The only way to a terminal for what commands print (tools/check_includes.py sees to it; models' answers go
// through printer.h). Names, messages and types come from files, servers and clients: whatever text is put
// into a line is escaped there, so that it can neither act on the terminal, nor hide, nor begin a line of its
// own.
#pragma once

#include <fmt/core.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/json.h"
#include "base/outside_text.h"
#include "base/printed_text.h"

namespace anabranch::cli {

// Text escaped on one line; numbers as they are.
template <class T>
auto escaped_argument(const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>)
    return escape_line(std::string_view(value));
  else
    return value;
}
template <class T>
using EscapedArgument = decltype(escaped_argument(std::declval<const T&>()));

// As fmt::format, with every text among the arguments escaped. The format itself is ours and stays.
template <class... Args>
std::string line_of(fmt::format_string<EscapedArgument<Args>...> format, const Args&... args) {
  return fmt::format(format, escaped_argument(args)...);
}

// As it is: for the exports of conversations and scripts of a shell.
void say_bytes(std::FILE* stream, std::string_view text);

// To stdout or another stream.
template <class... Args>
void say(std::FILE* stream, fmt::format_string<EscapedArgument<Args>...> format, const Args&... args) {
  say_bytes(stream, line_of<Args...>(format, args...));
}
template <class... Args>
void say(fmt::format_string<EscapedArgument<Args>...> format, const Args&... args) {
  say_bytes(stdout, line_of<Args...>(format, args...));
}

// A text of several lines whose parts from outside are on one line each (line_of); what is hidden is escaped.
void say_lines(std::FILE* stream, std::string_view text);
inline void say_lines(std::string_view text) {
  say_lines(stdout, text);
}

// A value of JSON and a line feed; what is hidden in its texts as JSON's \u escapes. indent: as dump_json's.
void say_json(std::FILE* stream, const Json& json, int indent = -1);
inline void say_json(const Json& json, int indent = -1) {
  say_json(stdout, json, indent);
}

}  // namespace anabranch::cli
