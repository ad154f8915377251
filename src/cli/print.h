// All output of commands to a terminal goes through these functions (tools/check_includes.py checks this;
// models' answers go through printer.h). Names, messages and types come from files, servers and clients, so
// text that is put into a line is escaped: it cannot control the terminal, hide, or begin a new line.
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

// Text is escaped on one line; numbers stay as they are.
template <class T>
auto escaped_argument(const T& value) {
  if constexpr (std::is_convertible_v<const T&, std::string_view>)
    return escape_line(std::string_view(value));
  else
    return value;
}
template <class T>
using EscapedArgument = decltype(escaped_argument(std::declval<const T&>()));

// Like fmt::format, but escapes every text among the arguments. The format string is ours and is not escaped.
template <class... Args>
std::string line_of(fmt::format_string<EscapedArgument<Args>...> format, const Args&... args) {
  return fmt::format(format, escaped_argument(args)...);
}

// Prints the text unchanged: for exported conversations and shell scripts.
void say_bytes(std::FILE* stream, std::string_view text);

// Prints to stdout or another stream.
template <class... Args>
void say(std::FILE* stream, fmt::format_string<EscapedArgument<Args>...> format, const Args&... args) {
  say_bytes(stream, line_of<Args...>(format, args...));
}
template <class... Args>
void say(fmt::format_string<EscapedArgument<Args>...> format, const Args&... args) {
  say_bytes(stdout, line_of<Args...>(format, args...));
}

// Prints a text of several lines. Its parts from outside must be on one line each (line_of). Invisible
// characters are escaped.
void say_lines(std::FILE* stream, std::string_view text);
inline void say_lines(std::string_view text) {
  say_lines(stdout, text);
}

// Prints a JSON value and a line feed. Invisible characters in its strings become \u escapes. indent: see
// dump_json.
void say_json(std::FILE* stream, const Json& json, int indent = -1);
inline void say_json(const Json& json, int indent = -1) {
  say_json(stdout, json, indent);
}

}  // namespace anabranch::cli
