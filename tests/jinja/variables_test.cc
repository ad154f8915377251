#include "jinja/variables.h"

#include <gtest/gtest.h>

#include "jinja/parser.h"

namespace anabranch::jinja {
namespace {

TEST(Variables, InnerScopesHideOuterOnesWhileTheyLive) {
  const auto ast = parse("{{ x }}{{ range }}{{ y }}");
  const int x = ast->symbol_of.at("x"), range = ast->symbol_of.at("range"), y = ast->symbol_of.at("y");
  Variables variables(*ast, {{"x", Value(Int{1})}, {"not_in_the_template", Value(Int{2})}});
  Budget budget(1000);
  const auto number = [&](int symbol) {
    return static_cast<int>(variables.look_up(symbol, budget).integer());
  };
  EXPECT_EQ(number(x), 1);
  EXPECT_TRUE(variables.look_up(range, budget).is(Kind::function));
  EXPECT_EQ(variables.look_up(y, budget).why(), "'y' is undefined");
  variables.innermost()->set(x, Value(Int{3}));
  EXPECT_EQ(number(x), 3);
  const std::shared_ptr<Scope> outer = variables.innermost();
  {
    Variables::Inner inner(variables);
    EXPECT_EQ(number(x), 3);
    variables.innermost()->set(x, Value(Int{4}));
    variables.innermost()->set(x, Value(Int{5}));
    EXPECT_EQ(number(x), 5);
    Variables::Inner macro(variables, outer);  // sees the scope that defined it, not the caller's
    EXPECT_EQ(number(x), 3);
  }
  EXPECT_EQ(variables.innermost(), outer);
  EXPECT_EQ(number(x), 3);
}

TEST(Variables, LookingUpCostsAStepForEachScope) {
  const auto ast = parse("{{ x }}");
  Variables variables(*ast, {});
  Variables::Inner one(variables), two(variables);
  Budget enough(3), too_little(2);
  variables.look_up(ast->symbol_of.at("x"), enough);
  EXPECT_THROW(variables.look_up(ast->symbol_of.at("x"), too_little), Failure);
}

}  // namespace
}  // namespace anabranch::jinja
