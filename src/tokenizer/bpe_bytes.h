// The alphabet of byte-level BPE: each byte has a printable character (GPT-2's bytes_to_unicode).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace anabranch {

// UTF-8 of the character that stands for a byte: 1 or 2 bytes.
std::string_view byte_to_char(uint8_t byte);
// The bytes that `text` stands for; nothing when a character is not of the alphabet.
std::optional<std::string> chars_to_bytes(std::string_view text);

}  // namespace anabranch
