// Well-formed UTF-8 is what table 3-7 of the Unicode standard says, and nothing else.
#include "tokenizer/utf8.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace anabranch {
namespace {

struct Utf8Row {
  int lead_low, lead_high;  // the first byte
  int low, high;            // the second one; further ones are 80..BF
  size_t length;
};
constexpr Utf8Row kTable[] = {
    {0x00, 0x7F, 0, 0, 1},       {0xC2, 0xDF, 0x80, 0xBF, 2}, {0xE0, 0xE0, 0xA0, 0xBF, 3},
    {0xE1, 0xEC, 0x80, 0xBF, 3}, {0xED, 0xED, 0x80, 0x9F, 3}, {0xEE, 0xEF, 0x80, 0xBF, 3},
    {0xF0, 0xF0, 0x90, 0xBF, 4}, {0xF1, 0xF3, 0x80, 0xBF, 4}, {0xF4, 0xF4, 0x80, 0x8F, 4},
};

// Of the character at `at`: how many bytes fit the table, and how many it needs; needs 0: no such lead.
struct Utf8Fit {
  size_t fits = 0, needs = 0;
};
Utf8Fit fit_at(std::string_view text, size_t at) {
  const int lead = static_cast<unsigned char>(text[at]);
  for (const Utf8Row& row : kTable) {
    if (lead < row.lead_low || lead > row.lead_high) continue;
    size_t n = 1;
    for (; n < row.length && at + n < text.size(); n++) {
      const int byte = static_cast<unsigned char>(text[at + n]);
      if (byte < (n == 1 ? row.low : 0x80) || byte > (n == 1 ? row.high : 0xBF)) break;
    }
    return {n, row.length};
  }
  return {};
}

bool well_formed(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Fit fit = fit_at(text, at);
    if (fit.needs == 0 || fit.fits < fit.needs) return false;
    at += fit.needs;
  }
  return true;
}

// One U+FFFD for each longest part that fits, as the standard recommends.
std::string replaced_by_table(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Utf8Fit fit = fit_at(text, at);
    const bool whole = fit.needs > 0 && fit.fits == fit.needs;
    out += whole ? std::string(text.substr(at, fit.needs)) : "\uFFFD";
    at += std::max<size_t>(fit.fits, 1);
  }
  return out;
}

// The bytes at the end that may yet become a character.
size_t tail_by_table(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Fit fit = fit_at(text, at);
    if (fit.needs > fit.fits && at + fit.fits == text.size()) return fit.fits;
    at += std::max<size_t>(fit.fits, 1);
  }
  return 0;
}

void check_bytes(const std::string& bytes) {
  // Also within a longer text, where eight bytes of ASCII are passed at once.
  for (const std::string& text : {bytes, "12345678" + bytes, bytes + "12345678", "1234567" + bytes + "x"}) {
    ASSERT_EQ(is_valid_utf8(text), well_formed(text)) << ::testing::PrintToString(text);
    ASSERT_EQ(replace_invalid_utf8(text), replaced_by_table(text)) << ::testing::PrintToString(text);
    ASSERT_EQ(unfinished_utf8_tail(text), tail_by_table(text)) << ::testing::PrintToString(text);
  }
}

TEST(Utf8, EveryPairOfBytesIsJudgedByTheTable) {
  for (int first = 0; first < 256; first++)
    for (int second = 0; second < 256; second++) {
      check_bytes({static_cast<char>(first), static_cast<char>(second)});
      if (HasFatalFailure()) return;
    }
}

// Bytes at the borders of all ranges, in every order.
TEST(Utf8, EveryFourBytesOfTheBordersAreJudgedByTheTable) {
  const std::string borders = "\x41\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC2\xDF\xE0\xED\xEF\xF0\xF4\xF5";
  for (const char a : borders)
    for (const char b : borders)
      for (const char c : borders)
        for (const char d : borders) {
          const std::string bytes{a, b, c, d};
          ASSERT_EQ(is_valid_utf8(bytes), well_formed(bytes)) << ::testing::PrintToString(bytes);
          ASSERT_EQ(replace_invalid_utf8(bytes), replaced_by_table(bytes)) << ::testing::PrintToString(bytes);
          ASSERT_EQ(unfinished_utf8_tail(bytes), tail_by_table(bytes)) << ::testing::PrintToString(bytes);
        }
}

TEST(Utf8, SequencesThatOtherReadersRefuseAreRefused) {
  for (const char* bad :
       {"\xC0\x80", "\xC1\xBF", "\x80", "\xBF", "\xE0\x80\x80", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xED\xBF\xBF", "\xF0\x80\x80\x80", "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80",
        "\xFE", "\xFF", "\xC3", "\xE2\x82", "\xF0\x9F\x98", "\xED\xA0\xBD\xED\xB8\x80"}) {
    EXPECT_FALSE(is_valid_utf8(bad)) << ::testing::PrintToString(bad);
    EXPECT_TRUE(is_valid_utf8(replace_invalid_utf8(bad))) << ::testing::PrintToString(bad);
  }
  for (const char* good : {"\xC2\x80", "\xDF\xBF", "\xE0\xA0\x80", "\xED\x9F\xBF", "\xEE\x80\x80",
                           "\xEF\xBF\xBF", "\xF0\x90\x80\x80", "\xF4\x8F\xBF\xBF"})
    EXPECT_TRUE(is_valid_utf8(good)) << ::testing::PrintToString(good);
}

// Every code point comes back, surrogates aside.
TEST(Utf8, EveryCodePointIsWrittenAsItIsRead) {
  for (char32_t c = 0; c <= 0x10FFFF; c++) {
    if (c == 0xD800) c = 0xE000;
    std::string text;
    append_utf8(text, c);
    const CodePoint read = decode_utf8(text, 0);
    ASSERT_TRUE(read.valid && read.value == c && static_cast<size_t>(read.length) == text.size())
        << static_cast<uint32_t>(c);
  }
}

}  // namespace
}  // namespace anabranch
