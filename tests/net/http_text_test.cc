#include "net/http_text.h"

#include <gtest/gtest.h>

namespace anabranch::net {
namespace {

TEST(Origin, LeavesUsualPortsOut) {
  EXPECT_EQ(origin_of("https://Hub.Example:443/x?y"), "https://hub.example");
  EXPECT_EQ(origin_of("http://hub:8080/x"), "http://hub:8080");
  EXPECT_EQ(origin_of("HTTP://[::1]:80"), "http://[::1]");
  EXPECT_NE(origin_of("https://hub.example"), origin_of("https://hub.example.evil"));
  EXPECT_NE(origin_of("https://hub@evil/"), origin_of("https://hub/"));
}

TEST(Origin, ShowsEveryPortIfAsked) {
  EXPECT_EQ(origin_with_port("https://Hub.Example/x?y"), "https://hub.example:443");
  EXPECT_EQ(origin_with_port("http://user:word@hub"), "http://hub:80");
  EXPECT_EQ(origin_with_port("http://[::1]:8080/"), "http://[::1]:8080");
}

TEST(Origin, IsEmptyWithoutAnAddress) {
  for (const char* text : {"", "http://", "file:///etc/passwd", "http:// hub/", "hub://x", "//hub/x",
                           "http://hub:99999", "http://hub:x"}) {
    EXPECT_EQ(origin_of(text), "") << text;
    EXPECT_EQ(origin_with_port(text), "") << text;
  }
}

TEST(PercentDecoding, LeavesWhatIsNoEscape) {
  EXPECT_EQ(percent_decoded("Bearer%20a%2Bb%3d+"), "Bearer a+b=+");
  EXPECT_EQ(percent_decoded("50% %zz %2"), "50% %zz %2");
  EXPECT_EQ(percent_decoded("a%00b"), std::string("a\0b", 3));
  EXPECT_EQ(percent_decoded(""), "");
}

TEST(HttpDate, IsReadInAllFormats) {
  for (const char* text :
       {"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"})
    EXPECT_EQ(parse_http_date(text), 784111777) << text;
  for (const char* text : {"", "soon", "Sun, 46 Nov 1994 08:49:37 GMT"})
    EXPECT_EQ(parse_http_date(text), std::nullopt) << text;
}

}  // namespace
}  // namespace anabranch::net
