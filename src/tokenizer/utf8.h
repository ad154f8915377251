// UTF-8 decoding and the Unicode character classes that tokenizers ask for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace anabranch {

constexpr std::string_view kMetaspace = "\xE2\x96\x81";  // ▁, which SentencePiece writes for a space

struct CodePoint {
  char32_t value = 0xFFFD;
  int length = 1;  // bytes; of the maximal ill-formed part when not valid
  bool valid = false;
  bool cut = false;  // ill-formed only because the text ends here
};

// The code point at text[pos]; pos < text.size(). Overlong forms, surrogates and values above 10FFFF are
// invalid.
CodePoint decode_utf8(std::string_view text, size_t pos);
void append_utf8(std::string& out, char32_t value);

bool is_valid_utf8(std::string_view text);
// Each maximal ill-formed part becomes U+FFFD, as Python's errors="replace" and Rust's from_utf8_lossy do.
std::string replace_invalid_utf8(std::string_view text);
// Trailing bytes that begin a code point which more bytes could complete (0 to 3).
size_t unfinished_utf8_tail(std::string_view text);

bool is_white_space(char32_t c);  // Unicode White_Space
bool is_number(char32_t c);       // Nd, Nl, No
bool is_punctuation(char32_t c);  // ASCII punctuation and P*
bool is_word(char32_t c);         // letters, marks, digits, connectors
bool is_mark(char32_t c);         // Mn, Mc, Me

}  // namespace anabranch
