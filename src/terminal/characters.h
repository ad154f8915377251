// Text as a terminal shows it: characters of one or more code points, and their width in cells.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace anabranch::terminal {

// Makes the C library read and write UTF-8, as libedit requires, even if the environment names no locale or
// one with another encoding. Numbers and messages stay as in the C locale. False: this system has no such
// locale.
bool use_utf8();

// Bytes that are not UTF-8 become U+FFFD.
std::u32string decode(std::string_view utf8);
std::string encode(std::u32string_view text);

// The number of code points of the character (grapheme cluster, Unicode TR 29) that begins at text[at], and
// of the one that ends before text[at]; 0 at the ends of the text.
size_t length_after(std::u32string_view text, size_t at);
size_t length_before(std::u32string_view text, size_t at);

// The number of cells of the text on one line: a cluster is as wide as its widest code point. Control
// characters: 0.
size_t cells(std::u32string_view text);
size_t cells(std::string_view utf8);

}  // namespace anabranch::terminal
