// Text from files, servers and clients, made fit for messages. Whoever prints a message to a terminal or a
// log passes it through escape_hidden(); a message that quotes such text uses shown(), which also keeps it
// short.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace anabranch {

// The character that begins at text[at], and how many bytes it takes. Where there is no valid UTF-8:
// kNoCharacter, and one byte.
inline constexpr char32_t kNoCharacter = 0xFFFFFFFF;
char32_t character_at(std::string_view text, size_t at, size_t& length);

// What acts on a terminal or hides from a reader: control characters other than line feeds and tabs, marks
// that change the direction of writing, invisible "tag" characters.
bool is_hidden(char32_t c);

// Hidden characters and bytes that are no UTF-8 as "\x1b" and "\u202e". Line feeds and tabs stay.
std::string escape_hidden(std::string_view text);

// escape_hidden() on one line: line feeds and tabs, too, as "\n" and "\t".
std::string escape_line(std::string_view text);

// Also what has no width, or is drawn as nothing or as a space (Unicode's Default_Ignorable_Code_Point and
// separators): for text that people are asked to agree to.
std::string escape_invisible(std::string_view text);

// The same as escape_hidden() on one line, and cut after `most` bytes of the text ("...").
std::string shown(std::string_view text, size_t most = 200);

}  // namespace anabranch
