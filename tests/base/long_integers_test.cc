#include "base/long_integers.h"

#include <gtest/gtest.h>

namespace anabranch {
namespace {

TEST(LongIntegers, OnlyThoseBeyond64BitsChange) {
  for (const std::string same :
       {"", "[]", "18446744073709551615", "-9223372036854775808", "1e30", "100000000000000000000.5",
        "100000000000000000000e1", R"({"100000000000000000000": "100000000000000000000"})",
        R"("\"100000000000000000000")", R"("open 100000000000000000000)", R"("\)", "true, -, +, 1-2"})
    EXPECT_EQ(with_exponents_on_long_integers(same), same);
  EXPECT_EQ(with_exponents_on_long_integers("18446744073709551616"), "18446744073709551616e0");
  EXPECT_EQ(with_exponents_on_long_integers("-9223372036854775809"), "-9223372036854775809e0");
  EXPECT_EQ(
      with_exponents_on_long_integers(R"({"a":1000000000000000019884624838656,"b":[99999999999999999999]})"),
      R"({"a":1000000000000000019884624838656e0,"b":[99999999999999999999e0]})");
}

}  // namespace
}  // namespace anabranch
