// Makes text from files, servers and clients safe for messages. Code that prints a message to a terminal or a
// log passes it through escape_hidden(); a message that quotes such text uses shown(), which also limits its
// length.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace anabranch {

// Decodes the character at text[at], and its length in bytes. For invalid UTF-8: kNoCharacter, and one byte.
inline constexpr char32_t kNoCharacter = 0xFFFFFFFF;
char32_t character_at(std::string_view text, size_t at, size_t& length);

// Whether the character controls a terminal or hides from a reader: control characters other than line feeds
// and tabs, marks that change the direction of writing, invisible "tag" characters.
bool is_hidden(char32_t c);

// Escapes hidden characters and invalid UTF-8 bytes as "\x1b" and "\u202e". Line feeds and tabs stay.
std::string escape_hidden(std::string_view text);

// escape_hidden() on one line: also escapes line feeds and tabs as "\n" and "\t".
std::string escape_line(std::string_view text);

// Also escapes characters without width, or drawn as nothing or as a space (Unicode's
// Default_Ignorable_Code_Point and separators): for text that people are asked to agree to.
std::string escape_invisible(std::string_view text);

// escape_line(), cut after `most` bytes of the text ("...").
std::string shown(std::string_view text, size_t most = 200);

}  // namespace anabranch
