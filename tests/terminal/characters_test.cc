#include "terminal/characters.h"

#include <fmt/core.h>
#include <gtest/gtest.h>

#include <clocale>

namespace anabranch::terminal {
namespace {

constexpr const char* kFamily = "\U0001F468\u200D\U0001F469\u200D\U0001F467";  // three people joined
constexpr const char* kFlags = "\U0001F1E9\U0001F1EA\U0001F1E8\U0001F1ED";     // Germany, Switzerland

TEST(Characters, ReadsUtf8AndReplacesWhatIsNone) {
  EXPECT_EQ(encode(decode("Grüße, 你好 🎉")), "Grüße, 你好 🎉");
  EXPECT_EQ(decode("a\xFF"), U"a\uFFFD");
  EXPECT_EQ(decode("\xED\xA0\x80").front(), U'\uFFFD');  // a surrogate
  EXPECT_EQ(encode(U"\xD800"), "\uFFFD");
}

TEST(Characters, AClusterIsOneCharacter) {
  const auto text = decode(fmt::format("e\u0301{}{}x", kFamily, kFlags));
  std::vector<size_t> forwards, backwards;
  for (size_t at = 0; at < text.size(); at += forwards.back()) forwards.push_back(length_after(text, at));
  for (size_t at = text.size(); at > 0; at -= backwards.back()) backwards.push_back(length_before(text, at));
  EXPECT_EQ(forwards, (std::vector<size_t>{2, 5, 2, 2, 1}));
  EXPECT_EQ(backwards, (std::vector<size_t>{1, 2, 2, 5, 2}));
  EXPECT_EQ(length_after(text, text.size()), 0u);
  EXPECT_EQ(length_before(text, 0), 0u);
}

TEST(Characters, LineFeedsStandAlone) {
  const auto text = decode("a\n\nb");
  for (size_t at = 1; at <= text.size(); at++) EXPECT_EQ(length_before(text, at), 1u) << at;
}

TEST(Characters, CellsOfATerminal) {
  EXPECT_EQ(cells("abc"), 3u);
  EXPECT_EQ(cells("你好"), 4u);
  EXPECT_EQ(cells("e\u0301"), 1u);
  EXPECT_EQ(cells(kFamily), 2u);
  EXPECT_EQ(cells("שלום"), 4u);
}

TEST(Characters, Utf8WhateverTheEnvironmentSays) {
  for (const char* locale : {"C", "de_DE.ISO-8859-1", "nonsense", ""}) {
    setenv("LC_ALL", locale, 1);
    std::setlocale(LC_ALL, "C");
    EXPECT_TRUE(use_utf8()) << locale;
    wchar_t c = 0;
    EXPECT_EQ(std::mbtowc(&c, "ü", 2), 2) << locale;
    EXPECT_STREQ(std::setlocale(LC_NUMERIC, nullptr), "C");
  }
}

}  // namespace
}  // namespace anabranch::terminal
