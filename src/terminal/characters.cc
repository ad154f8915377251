#include "terminal/characters.h"

#include <langinfo.h>
#include <utf8proc.h>

#include <algorithm>
#include <clocale>
#include <cstring>

#include "base/outside_text.h"

namespace anabranch::terminal {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

bool is_utf8() {
  return std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

// Whether a new cluster begins at text[at]; state: carried over from the clusters before.
bool begins_cluster(std::u32string_view text, size_t at, utf8proc_int32_t& state) {
  return utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(text[at - 1]),
                                          static_cast<utf8proc_int32_t>(text[at]), &state);
}

}  // namespace

bool use_utf8() {
  if (std::setlocale(LC_CTYPE, "") && is_utf8()) return true;
  for (const char* name : {"C.UTF-8", "C.utf8", "en_US.UTF-8", "UTF-8"})
    if (std::setlocale(LC_CTYPE, name) && is_utf8()) return true;
  return false;
}

std::u32string decode(std::string_view utf8) {
  std::u32string out;
  out.reserve(utf8.size());
  for (size_t at = 0, length = 0; at < utf8.size(); at += length) {
    const char32_t c = character_at(utf8, at, length);
    out += c == kNoCharacter ? kReplacement : c;
  }
  return out;
}

std::string encode(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (char32_t c : text) {
    if (!utf8proc_codepoint_valid(static_cast<utf8proc_int32_t>(c))) c = kReplacement;
    utf8proc_uint8_t bytes[4];
    const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
    out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(n));
  }
  return out;
}

size_t length_after(std::u32string_view text, size_t at) {
  if (at >= text.size()) return 0;
  utf8proc_int32_t state = 0;
  size_t end = at + 1;
  while (end < text.size() && !begins_cluster(text, end, state)) end++;
  return end - at;
}

size_t length_before(std::u32string_view text, size_t at) {
  // Cluster boundaries depend on the whole line before them, for example with flags.
  size_t begin = at == 0 ? 0 : text.substr(0, at - 1).rfind(U'\n') + 1;
  for (size_t next = begin; (next += length_after(text.substr(0, at), next)) < at;) begin = next;
  return at - std::min(begin, at);
}

size_t cells(std::u32string_view text) {
  size_t sum = 0;
  for (size_t at = 0, length = 0; at < text.size(); at += length) {
    length = length_after(text, at);
    int width = 0;
    for (const char32_t c : text.substr(at, length))
      width = std::max(width, utf8proc_charwidth(static_cast<utf8proc_int32_t>(c)));
    sum += static_cast<size_t>(width);
  }
  return sum;
}

size_t cells(std::string_view utf8) {
  return cells(decode(utf8));
}

}  // namespace anabranch::terminal
