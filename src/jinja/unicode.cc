#include "jinja/unicode.h"

#include <utf8proc.h>

#include <algorithm>

namespace anabranch::jinja {
namespace {

constexpr char32_t kReplacement = 0xFFFD;

// The length of the valid sequence at `at`; 0 if there is none.
size_t sequence_length(std::string_view s, size_t at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(s[i]); };
  unsigned char b = byte(at);
  if (b < 0x80) return 1;
  size_t n = b >= 0xF0 ? 4 : b >= 0xE0 ? 3 : 2;
  if (b < 0xC2 || b > 0xF4 || at + n > s.size()) return 0;
  for (size_t i = 1; i < n; ++i)
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  unsigned char second = byte(at + 1);
  if ((b == 0xE0 && second < 0xA0) || (b == 0xED && second > 0x9F)) return 0;
  if ((b == 0xF0 && second < 0x90) || (b == 0xF4 && second > 0x8F)) return 0;
  return n;
}

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

// The common characters whose upper case has several letters, such as ligatures (from Unicode SpecialCasing).
struct SpecialCase {
  char32_t c;
  const char* upper;
  const char* title;
};
constexpr SpecialCase kSpecialCases[] = {
    {0xDF, "SS", "Ss"},     {0x149, "\u02bcN", "\u02bcN"}, {0xFB00, "FF", "Ff"},
    {0xFB01, "FI", "Fi"},   {0xFB02, "FL", "Fl"},          {0xFB03, "FFI", "Ffi"},
    {0xFB04, "FFL", "Ffl"}, {0xFB05, "ST", "St"},          {0xFB06, "ST", "St"},
};

const SpecialCase* special_case(char32_t c) {
  for (const SpecialCase& s : kSpecialCases)
    if (s.c == c) return &s;
  return nullptr;
}

}  // namespace

char32_t next_code_point(std::string_view s, size_t& at) {
  size_t n = sequence_length(s, at);
  auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(s[at + i])); };
  char32_t c = kReplacement;
  if (n == 1) c = byte(0);
  if (n == 2) c = (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
  if (n == 3) c = (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  if (n == 4) c = (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  at += std::max<size_t>(n, 1);
  return c;
}

void append_code_point(std::string& out, char32_t c) {
  utf8proc_uint8_t bytes[4];
  utf8proc_ssize_t n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), bytes);
  out.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(n));
}

size_t previous_code_point(std::string_view s, size_t at) {
  size_t start = at - 1;
  while (start > 0 && at - start < 4 && (static_cast<unsigned char>(s[start]) & 0xC0) == 0x80) --start;
  return start;
}

size_t count_code_points(std::string_view s) {
  return static_cast<size_t>(std::count_if(
      s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

size_t byte_offset(std::string_view s, size_t index) {
  size_t at = 0;
  for (; at < s.size(); ++at) {
    if ((static_cast<unsigned char>(s[at]) & 0xC0) == 0x80) continue;
    if (index-- == 0) break;
  }
  return at;
}

bool valid_utf8(std::string_view s) {
  for (size_t at = 0; at < s.size();) {
    size_t n = sequence_length(s, at);
    if (n == 0) return false;
    at += n;
  }
  return true;
}

std::string sanitize_utf8(std::string_view s) {
  std::string out;
  out.reserve(s.size());
  bool bad = false;
  for (size_t at = 0; at < s.size();) {
    size_t n = sequence_length(s, at);
    if (n == 0) {
      if (!bad) append_code_point(out, kReplacement);
      bad = true;
      ++at;
    } else {
      out.append(s, at, n);
      bad = false;
      at += n;
    }
  }
  return out;
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_line_break(char32_t c) {
  return (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

bool is_alpha(char32_t c) {
  utf8proc_category_t k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}

bool is_digit(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_ND;
}
bool is_upper(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU;
}
bool is_lower(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL || c == 0xAA || c == 0xBA;
}

bool is_printable(char32_t c) {
  if (c == ' ') return true;
  utf8proc_category_t k = category(c);
  return k != UTF8PROC_CATEGORY_CN && k < UTF8PROC_CATEGORY_ZS;
}

void append_upper(std::string& out, char32_t c) {
  if (const SpecialCase* special = special_case(c))
    out += special->upper;
  else
    append_code_point(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

void append_lower(std::string& out, char32_t c) {
  if (c == 0x130)
    out += "i\u0307";  // İ
  else
    append_code_point(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

void append_title(std::string& out, char32_t c) {
  if (const SpecialCase* special = special_case(c))
    out += special->title;
  else
    append_code_point(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
}

}  // namespace anabranch::jinja
