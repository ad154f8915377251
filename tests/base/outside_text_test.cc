#include "base/outside_text.h"

#include <gtest/gtest.h>

namespace anabranch {
namespace {

TEST(OutsideText, HiddenCharactersAreWrittenOut) {
  EXPECT_EQ(escape_hidden("plain \u00e9\u6f22\U0001F600\n\t"), "plain \u00e9\u6f22\U0001F600\n\t");
  EXPECT_EQ(escape_hidden("\x1b[31mred\r\x7f"), "\\x1b[31mred\\x0d\\x7f");
  EXPECT_EQ(escape_hidden(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(escape_hidden("a\u202eb\u2066\u200f"), "a\\u202eb\\u2066\\u200f");
  EXPECT_EQ(escape_hidden("\u009b1m"), "\\u009b1m");  // a terminal may take it for an escape
  EXPECT_EQ(escape_hidden("\U000E0041"), "\\U000e0041");
}

TEST(OutsideText, WhatNobodySeesIsWrittenOutWherePeopleAgree) {
  EXPECT_EQ(escape_invisible("rm \u200b\u2060\u00ad\ufe0f\ufeff\u3164\u2800x"),
            "rm \\u200b\\u2060\\u00ad\\ufe0f\\ufeff\\u3164\\u2800x");
  EXPECT_EQ(escape_invisible("a\u202eb\U000E0041\U000E0100"), "a\\u202eb\\U000e0041\\U000e0100");
  EXPECT_EQ(escape_invisible("a\u00a0b\u2003c\u3000"), "a\\u00a0b\\u2003c\\u3000");
  EXPECT_EQ(escape_invisible("a\u2028b\x1b"), "a\\u2028b\\x1b");
  EXPECT_EQ(escape_invisible("Gr\u00fc\u00dfe \u6f22\n\tx"), "Gr\u00fc\u00dfe \u6f22\n\tx");
}

TEST(OutsideText, BytesThatAreNoTextAreWrittenOut) {
  EXPECT_EQ(escape_hidden("\xff\x9b\xc3"), "\\xff\\x9b\\xc3");
  EXPECT_EQ(escape_hidden("\xc0\xaf\xed\xa0\x80"), "\\xc0\\xaf\\xed\\xa0\\x80");  // too long, a surrogate
  EXPECT_EQ(escape_hidden("\xe2\x82"), "\\xe2\\x82");
  EXPECT_EQ(escape_hidden(std::string_view("a\u00e9").substr(0, 2)), "a\\xc3");  // what follows is not ours
}

TEST(OutsideText, QuotationsAreShortAndOnOneLine) {
  EXPECT_EQ(shown("a\nb\tc\x1b"), "a\\nb\\tc\\x1b");
  EXPECT_EQ(shown(std::string(300, 'x')), std::string(200, 'x') + "...");
  EXPECT_EQ(shown("ab\u00e9", 3), "ab...");  // no half character
  EXPECT_EQ(shown("ab\u00e9", 4), "ab\u00e9");
}

}  // namespace
}  // namespace anabranch
