#include "base/printed_text.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "base/outside_text.h"

namespace anabranch {
namespace {

TEST(PrintedText, ALineStaysOne) {
  EXPECT_EQ(escape_line("a\nb\tc\r\x1b]52;c;x\x07\u202e"), "a\\nb\\tc\\x0d\\x1b]52;c;x\\x07\\u202e");
  EXPECT_EQ(escape_line("Gr\u00fc\u00dfe"), "Gr\u00fc\u00dfe");
}

TEST(PrintedText, JsonHidesNothingAndSaysTheSame) {
  const Json json = {{"a\u202e", "x\u009b1m\x7f\U000E0041\u2066 \x1b\n\u00e9\U0001F600"}};
  const std::string text = dump_json(json, 2), escaped = escape_json(text);
  EXPECT_EQ(escape_hidden(escaped), escaped);
  EXPECT_NE(escaped.find("\\udb40\\udc41"), std::string::npos) << escaped;
  EXPECT_EQ(parse_json(escaped).value(), json);
  EXPECT_EQ(escape_json("{\n  \"a\": \"\u00e9\"\n}"), "{\n  \"a\": \"\u00e9\"\n}");
}

}  // namespace
}  // namespace anabranch
