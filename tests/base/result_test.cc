#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace anabranch {
namespace {

Result<int> parse_digit(char c) {
  if (c < '0' || c > '9') return make_error(ErrorKind::invalid, "'{}' is not a digit", c);
  return c - '0';
}

Result<int> add_digits(const std::string& text) {
  int sum = 0;
  for (char c : text) {
    TRY(const int digit, parse_digit(c));
    sum += digit;
  }
  return sum;
}

Result<void> require_even(int value) {
  if (value % 2) return make_error(ErrorKind::unsupported, "{} is odd", value);
  return {};
}

Result<std::string> even_sum(const std::string& text) {
  TRY(int sum, add_digits(text));
  TRY_VOID(require_even(sum));
  return std::to_string(sum);
}

TEST(Result, HoldsAValue) {
  const Result<int> result = add_digits("123");
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(static_cast<bool>(result));
  EXPECT_EQ(*result, 6);
  EXPECT_EQ(result.value(), 6);
}

TEST(Result, TryPassesTheErrorOn) {
  const Result<std::string> result = even_sum("1x3");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::invalid);
  EXPECT_EQ(result.error().message, "'x' is not a digit");
}

TEST(Result, TryVoidPassesTheErrorOn) {
  EXPECT_EQ(even_sum("13").value(), "4");
  const Result<std::string> result = even_sum("12");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().kind, ErrorKind::unsupported);
  EXPECT_EQ(result.error().message, "3 is odd");
}

TEST(Result, CarriesMoveOnlyTypes) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(**result, 7);
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 7);
}

// A Result<Error-like type> must not confuse value and error.
TEST(Result, ValueAndErrorOfOneTypeStayApart) {
  const Result<std::string> good = std::string("fine");
  const Result<std::string> bad = make_error(ErrorKind::io, "disk");
  EXPECT_TRUE(good.ok());
  EXPECT_FALSE(bad.ok());
}

TEST(ResultDeathTest, ValueOfAnErrorAbortsWithItsText) {
  const Result<int> result = parse_digit('x');
  EXPECT_DEATH((void)result.value(), "'x' is not a digit");
}

TEST(CheckDeathTest, PrintsConditionAndValues) {
  const int got = 3;
  EXPECT_DEATH(CHECK(got == 4, "got {}", got), "CHECK\\(got == 4\\) failed: got 3");
  CHECK(got == 3);  // and a true one does nothing
}

}  // namespace
}  // namespace anabranch
