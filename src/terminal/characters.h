// Text as a terminal shows it: characters of one or more code points, and the cells that they take.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace anabranch::terminal {

// Makes the C library read and write UTF-8, which libedit relies on, also where the environment names no
// locale or one with another encoding. Numbers and messages stay as in the C locale. False: this system has
// no such locale.
bool use_utf8();

// Bytes that are no UTF-8 become U+FFFD.
std::u32string decode(std::string_view utf8);
std::string encode(std::u32string_view text);

// The code points of the character (grapheme cluster, Unicode TR 29) that begins at text[at], and of the one
// that ends before text[at]; 0 at the ends of the text.
size_t length_after(std::u32string_view text, size_t at);
size_t length_before(std::u32string_view text, size_t at);

// Cells that the text takes on one line: a cluster has the width of its widest code point. Control
// characters: 0.
size_t cells(std::u32string_view text);
size_t cells(std::string_view utf8);

}  // namespace anabranch::terminal
