#include "jinja/token_cursor.h"

#include <gtest/gtest.h>

#include <memory>

namespace anabranch::jinja {
namespace {

template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Failure& failure) {
    return failure.error.message;
  }
  return "";
}

TEST(TokenCursor, ReadsTokensInOrder) {
  const std::string source = "{{ x + 1 }}";
  TokenCursor cursor(source);
  cursor.expect(TokenKind::variable_begin, "{{");
  EXPECT_TRUE(cursor.is_name("x"));
  EXPECT_FALSE(cursor.skip_name("y"));
  EXPECT_FALSE(cursor.skip_op("x"));
  EXPECT_EQ(cursor.ahead(2).kind, TokenKind::integer);
  EXPECT_EQ(cursor.ahead(100).kind, TokenKind::end);
  EXPECT_TRUE(cursor.skip_name("x"));
  cursor.expect_op("+");
  EXPECT_EQ(cursor.take().text, "1");
  cursor.expect(TokenKind::variable_end, "}}");
  EXPECT_TRUE(cursor.at_end());
  cursor.take();  // stays at the end
  EXPECT_TRUE(cursor.is(TokenKind::end));
}

TEST(TokenCursor, ErrorsNameThePlaceAndTheToken) {
  const std::string source = "a\n{{ x + 1 }}";
  TokenCursor cursor(source);
  cursor.take();
  cursor.take();
  const std::string op = error_of([&] { cursor.expect_op("-"); });
  EXPECT_EQ(op, "chat template, line 2, column 4: expected '-', got 'x'");
  EXPECT_EQ(error_of([&] { cursor.expect(TokenKind::variable_end, "}}"); }),
            "chat template, line 2, column 4: expected '}}', got 'x'");
  EXPECT_TRUE(cursor.is_name("x"));  // a failure moves nothing
}

TEST(TokenCursor, NestingIsLimited) {
  TokenCursor cursor("a");
  const auto nest = [&](int levels) {
    return error_of([&] {
      std::vector<std::unique_ptr<TokenCursor::Nesting>> all;
      for (int i = 0; i < levels; i++) all.push_back(std::make_unique<TokenCursor::Nesting>(cursor));
    });
  };
  EXPECT_EQ(nest(kMaxSyntaxDepth), "");
  EXPECT_EQ(nest(kMaxSyntaxDepth), "");  // every level ended
  EXPECT_EQ(nest(kMaxSyntaxDepth + 1), "chat template, line 1, column 1: nested deeper than 100 levels");
}

}  // namespace
}  // namespace anabranch::jinja
