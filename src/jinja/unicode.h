// Code points and their classes, as defined by Python's str methods. Input must be valid UTF-8 unless a
// comment says otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace anabranch::jinja {

// Returns the code point at `at` and advances `at` past it. Requires at < s.size(). Any input is safe: a byte
// that is not UTF-8 counts as U+FFFD of one byte.
char32_t next_code_point(std::string_view s, size_t& at);
void append_code_point(std::string& out, char32_t c);
// The start of the code point that ends at byte `at` > 0.
size_t previous_code_point(std::string_view s, size_t at);

size_t count_code_points(std::string_view s);
// The byte offset of code point `index`, or s.size() if there are fewer.
size_t byte_offset(std::string_view s, size_t index);

bool valid_utf8(std::string_view s);
// Any bytes, with U+FFFD for each maximal run of bytes that are not UTF-8.
std::string sanitize_utf8(std::string_view s);

bool is_space(char32_t c);
bool is_line_break(char32_t c);
bool is_alpha(char32_t c);
bool is_digit(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_printable(char32_t c);

// Append the full case mapping, which may have several code points ("ß" -> "SS").
void append_upper(std::string& out, char32_t c);
void append_lower(std::string& out, char32_t c);
void append_title(std::string& out, char32_t c);

}  // namespace anabranch::jinja
