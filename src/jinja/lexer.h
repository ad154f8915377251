// Splits a template's source into tokens. White space is handled as in Transformers' settings of Jinja:
// trim_blocks and lstrip_blocks are on, and the newline at the end is dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/limits.h"

namespace anabranch::jinja {

enum class TokenKind {
  data,  // template text
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  string,   // escapes resolved
  integer,  // decimal, or with the prefix 0x, 0o or 0b; without underscores
  real,
  op,  // operators and brackets
  end,
};

struct Token {
  TokenKind kind;
  std::string text;
  uint32_t at;  // byte offset in the source
};

// The source with "\n" for every newline, without the last one.
std::string normalize_newlines(std::string_view source);

// source: valid UTF-8 with normalised newlines. Throws Failure with line and column.
std::vector<Token> lex(std::string_view source);

// The position of byte `at` as "line 3, column 7".
std::string describe_position(std::string_view source, size_t at);

template <class... Args>
[[noreturn]] void fail_at(std::string_view source, size_t at, fmt::format_string<Args...> format,
                          Args&&... args) {
  throw Failure{make_error(ErrorKind::invalid, "chat template, {}: {}", describe_position(source, at),
                           fmt::format(format, std::forward<Args>(args)...)),
                true};
}

}  // namespace anabranch::jinja
