#include "base/base64.h"

#include <gtest/gtest.h>

namespace anabranch {
namespace {

// The examples of RFC 4648, section 10.
TEST(Base64, IsThatOfTheStandard) {
  const std::pair<const char*, const char*> cases[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text).value(), bytes);
  }
}

TEST(Base64, KeepsEveryByte) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i);
  for (size_t length = 0; length <= bytes.size(); ++length) {
    const std::string part = bytes.substr(0, length);
    EXPECT_EQ(from_base64(to_base64(part)).value(), part);
  }
}

TEST(Base64, RefusesWhatIsNone) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zg==Zg==", "Z===", "====", "Zm9v\n", "Zm9\n", "Zm 9", "Zm9-",
                           "Zm9_", "Zh==", "Zm9=", "=m9v", "Zm\xc3\xa9"})
    EXPECT_FALSE(from_base64(text).ok()) << text;
  EXPECT_NE(from_base64("Zm9vZm-v").error().message.find("offset 6"), std::string::npos);
}

}  // namespace
}  // namespace anabranch
