// Code points and their classes, as Python's str methods see them. Input is valid UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace anabranch::jinja {

// The code point at `at`, which is advanced past it. Requires at < s.size(). Never reads past the end; a byte
// that is not UTF-8 counts as U+FFFD of one byte.
char32_t next_code_point(std::string_view s, size_t& at);
void append_code_point(std::string& out, char32_t c);
// Start of the code point that ends at byte `at` > 0.
size_t previous_code_point(std::string_view s, size_t at);

size_t count_code_points(std::string_view s);
// Byte offset of code point `index`, or s.size() when there are fewer.
size_t byte_offset(std::string_view s, size_t index);

bool valid_utf8(std::string_view s);
// Each maximal run of bad bytes becomes U+FFFD.
std::string sanitize_utf8(std::string_view s);

bool is_space(char32_t c);
bool is_line_break(char32_t c);
bool is_alpha(char32_t c);
bool is_digit(char32_t c);
bool is_upper(char32_t c);
bool is_lower(char32_t c);
bool is_printable(char32_t c);

// Full upper, lower and title case where they differ from one code point to one ("ß" -> "SS").
void append_upper(std::string& out, char32_t c);
void append_lower(std::string& out, char32_t c);
void append_title(std::string& out, char32_t c);

}  // namespace anabranch::jinja
