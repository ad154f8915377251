// Cuts a template's source into tokens, with Jinja's whitespace rules as Transformers sets them: trim_blocks
// and lstrip_blocks on, no newline kept at the end.
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
  integer,  // as decimal, hexadecimal, ... without underscores
  real,
  op,  // operators and brackets
  end,
};

struct Token {
  TokenKind kind;
  std::string text;
  uint32_t at;  // byte offset in the source
};

// Newlines as "\n", the last one dropped.
std::string normalize_newlines(std::string_view source);

// source: normalised, valid UTF-8. Throws Failure with line and column.
std::vector<Token> lex(std::string_view source);

// "line 3, column 7" of byte `at`.
std::string describe_position(std::string_view source, size_t at);

template <class... Args>
[[noreturn]] void fail_at(std::string_view source, size_t at, fmt::format_string<Args...> format,
                          Args&&... args) {
  throw Failure{make_error(ErrorKind::invalid, "chat template, {}: {}", describe_position(source, at),
                           fmt::format(format, std::forward<Args>(args)...)),
                true};
}

}  // namespace anabranch::jinja
