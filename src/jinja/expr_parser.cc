#include "jinja/expr_parser.h"

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "jinja/library.h"

namespace anabranch::jinja {
namespace {

std::optional<Op> comparison(const Token& token) {
  static constexpr std::pair<std::string_view, Op> kOps[] = {{"==", Op::eq}, {"!=", Op::ne}, {"<", Op::lt},
                                                             {"<=", Op::le}, {">", Op::gt},  {">=", Op::ge}};
  if (token.kind != TokenKind::op) return std::nullopt;
  for (const auto& [text, op] : kOps)
    if (token.text == text) return op;
  return std::nullopt;
}

bool is_constant_name(std::string_view name) {
  static constexpr std::string_view kNames[] = {"true", "false", "none", "True", "False", "None"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames);
}

// The number of a symbol; adds the symbol if it is new.
int intern(Ast& ast, const std::string& name) {
  auto [it, added] = ast.symbol_of.emplace(name, static_cast<int>(ast.symbols.size()));
  if (added) ast.symbols.push_back(name);
  return it->second;
}

// Computes the height of `expr` from its operands.
void set_height(ParseState& p, Expr& expr) {
  int inner = 0;
  for (const Expr* operand : expr.operands)
    if (operand != nullptr) inner = std::max(inner, operand->height);
  for (const auto& [name, value] : expr.named) inner = std::max(inner, value->height);
  expr.height = inner + 1;
  if (expr.height > kMaxExprHeight) p.fail_here("an expression of more than {} levels", kMaxExprHeight);
}

// A new node at the current token.
Expr& add(ParseState& p, ExprKind kind, std::vector<const Expr*> operands = {}) {
  p.ast.exprs.emplace_back();
  Expr& expr = p.ast.exprs.back();
  expr.kind = kind;
  expr.at = p.current().at;
  expr.operands = std::move(operands);
  set_height(p, expr);
  return expr;
}

const Expr* constant(ParseState& p, Value value) {
  Expr& expr = add(p, ExprKind::constant);
  expr.value = std::move(value);
  return &expr;
}

const Expr* parse_number(ParseState& p) {
  Expr& expr = add(p, ExprKind::constant);
  const Token& token = p.take();
  if (token.kind == TokenKind::real) {
    expr.value = std::strtod(token.text.c_str(), nullptr);
    return &expr;
  }
  std::string_view digits = token.text;
  int base = 10;
  if (digits.size() > 1 && digits[0] == '0' && !std::isdigit(static_cast<unsigned char>(digits[1]))) {
    base = digits[1] == 'x' ? 16 : digits[1] == 'o' ? 8 : 2;
    digits.remove_prefix(2);
  }
  Int value = 0;
  for (char c : digits) {
    int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    if (digit >= base) fail_at(p.ast.source, token.at, "'{}' is not a number", token.text);
    if (__builtin_mul_overflow(value, Int{base}, &value) || __builtin_add_overflow(value, Int{digit}, &value))
      fail_at(p.ast.source, token.at, "the number is too large");
  }
  expr.value = value;
  return &expr;
}

const Expr* parse_list(ParseState& p) {
  TokenCursor::Nesting nesting(p);
  Expr& list = add(p, ExprKind::list);
  p.take();
  while (!p.is_op("]")) {
    if (!list.operands.empty()) p.expect_op(",");
    if (p.is_op("]")) break;
    list.operands.push_back(parse_expression(p));
  }
  p.take();
  set_height(p, list);
  return &list;
}

const Expr* parse_dict(ParseState& p) {
  TokenCursor::Nesting nesting(p);
  Expr& dict = add(p, ExprKind::dict);
  p.take();
  while (!p.is_op("}")) {
    if (!dict.operands.empty()) p.expect_op(",");
    if (p.is_op("}")) break;
    dict.operands.push_back(parse_expression(p));
    p.expect_op(":");
    dict.operands.push_back(parse_expression(p));
  }
  p.take();
  set_height(p, dict);
  return &dict;
}

// A literal, a name, or an expression in parentheses.
const Expr* parse_primary(ParseState& p) {
  const Token token = p.current();
  if (token.kind == TokenKind::integer || token.kind == TokenKind::real) return parse_number(p);
  if (token.kind == TokenKind::string) {
    std::string text;
    while (p.is(TokenKind::string)) text += p.take().text;
    return constant(p, Text(std::move(text), true));
  }
  if (token.kind == TokenKind::name) {
    Expr& expr = add(p, is_constant_name(token.text) ? ExprKind::constant : ExprKind::name);
    p.take();
    if (expr.kind == ExprKind::name) {
      expr.symbol = intern(p.ast, token.text);
      p.caller_uses += expr.symbol == kCallerSymbol;
    } else if (token.text == "none" || token.text == "None")
      expr.value = None{};
    else
      expr.value = token.text == "true" || token.text == "True";
    return &expr;
  }
  if (p.is_op("[")) return parse_list(p);
  if (p.is_op("{")) return parse_dict(p);
  if (!p.skip_op("("))
    p.fail_here("expected an expression{}", token.text.empty() ? "" : ", got '" + token.text + "'");
  const Expr* inner = p.is_op(")") ? &add(p, ExprKind::tuple) : parse_tuple(p, true);
  p.expect_op(")");
  return inner;
}

// "(a, b, name=c)", added to `call`.
void parse_arguments(ParseState& p, Expr& call) {
  TokenCursor::Nesting nesting(p);
  p.expect_op("(");
  for (bool first = true; !p.is_op(")"); first = false) {
    if (!first) p.expect_op(",");
    if (p.is_op(")")) break;
    if (p.is_op("*") || p.is_op("**")) p.fail_here("'*' before an argument is not supported");
    if (p.is(TokenKind::name) && p.ahead(1).kind == TokenKind::op && p.ahead(1).text == "=") {
      std::string name = p.take().text;
      p.take();
      const Expr* value = parse_expression(p);
      call.named.emplace_back(std::move(name), value);
    } else {
      if (!call.named.empty()) p.fail_here("a positional argument after a keyword argument");
      call.operands.push_back(parse_expression(p));
    }
  }
  p.take();
  set_height(p, call);
}

const Expr* parse_call(ParseState& p, const Expr* function) {
  Expr& call = add(p, ExprKind::call, {function});
  parse_arguments(p, call);
  return &call;
}

// ".name", ".0", "[index]" or "[start:stop:step]".
const Expr* parse_subscript(ParseState& p, const Expr* object) {
  uint32_t at = p.current().at;
  if (p.skip_op(".")) {
    Expr* expr = nullptr;
    if (p.is(TokenKind::name)) {
      expr = &add(p, ExprKind::attribute, {object});
      expr->name = p.take().text;
    } else if (p.is(TokenKind::integer)) {
      const Expr* index = parse_number(p);
      expr = &add(p, ExprKind::item, {object, index});
    } else {
      p.fail_here("expected a name or a number after '.'");
    }
    expr->at = at;
    return expr;
  }
  p.expect_op("[");
  TokenCursor::Nesting nesting(p);
  auto part_ends = [&] { return p.is_op(":") || p.is_op("]"); };
  const Expr* first = part_ends() ? nullptr : parse_tuple(p, true);
  if (first == nullptr && p.is_op("]")) p.fail_here("an empty subscript");
  if (p.is_op("]")) {
    p.take();
    Expr& item = add(p, ExprKind::item, {object, first});
    item.at = at;
    return &item;
  }
  std::vector<const Expr*> parts = {object, first, nullptr, nullptr};
  for (size_t i = 2; i < 4 && p.skip_op(":"); ++i)
    if (!part_ends()) parts[i] = parse_expression(p);
  p.expect_op("]");
  Expr& slice = add(p, ExprKind::slice, std::move(parts));
  slice.at = at;
  return &slice;
}

// Attributes, subscripts and calls after `node`.
const Expr* parse_postfix(ParseState& p, const Expr* node) {
  for (;;) {
    if (p.is_op(".") || p.is_op("["))
      node = parse_subscript(p, node);
    else if (p.is_op("("))
      node = parse_call(p, node);
    else
      return node;
  }
}

// A test after `subject`; its "is" is already read.
const Expr* parse_test(ParseState& p, const Expr* subject) {
  bool negated = p.skip_name("not");
  Expr& test = add(p, ExprKind::test, {subject});
  if (!p.is(TokenKind::name)) p.fail_here("expected a test's name");
  test.name = p.current().text;
  test.test = find_test(test.name);
  if (test.test == nullptr && p.branches == 0) p.fail_here("there is no test named '{}'", test.name);
  p.take();
  static constexpr std::string_view kFollowers[] = {"else", "or", "and", "if", "not", "in", "recursive"};
  const Token& next = p.current();
  bool argument = next.kind == TokenKind::string || next.kind == TokenKind::integer ||
                  next.kind == TokenKind::real || p.is_op("[") || p.is_op("{");
  if (next.kind == TokenKind::name)
    argument = std::find(std::begin(kFollowers), std::end(kFollowers), next.text) == std::end(kFollowers);
  if (p.is_op("(")) {
    parse_arguments(p, test);
  } else if (argument) {
    if (p.is_name("is")) p.fail_here("tests cannot be chained with 'is'");
    TokenCursor::Nesting nesting(p);
    test.operands.push_back(parse_postfix(p, parse_primary(p)));
    set_height(p, test);
  }
  return negated ? &add(p, ExprKind::logical_not, {&test}) : &test;
}

const Expr* parse_unary(ParseState& p, bool with_filters) {
  const Expr* node = nullptr;
  if (p.is_op("-") || p.is_op("+")) {
    TokenCursor::Nesting nesting(p);
    Expr& sign = add(p, p.is_op("-") ? ExprKind::negate : ExprKind::plus);
    p.take();
    sign.operands = {parse_unary(p, false)};
    set_height(p, sign);
    node = &sign;
  } else {
    node = parse_primary(p);
  }
  node = parse_postfix(p, node);
  return with_filters ? parse_filters(p, node) : node;
}

const Expr* parse_power(ParseState& p) {
  const Expr* node = parse_unary(p, true);
  while (p.is_op("**")) {
    uint32_t at = p.current().at;
    p.take();
    const Expr* right = parse_unary(p, true);
    Expr& power = add(p, ExprKind::binary, {node, right});
    power.ops = {Op::pow};
    power.at = at;
    node = &power;
  }
  return node;
}

const Expr* parse_product(ParseState& p) {
  const Expr* node = parse_power(p);
  while (p.is_op("*") || p.is_op("/") || p.is_op("//") || p.is_op("%")) {
    uint32_t at = p.current().at;
    std::string text = p.take().text;
    const Expr* right = parse_power(p);
    Expr& product = add(p, ExprKind::binary, {node, right});
    product.ops = {text == "*" ? Op::mul : text == "/" ? Op::div : text == "//" ? Op::floor_div : Op::mod};
    product.at = at;
    node = &product;
  }
  return node;
}

const Expr* parse_concat(ParseState& p) {
  const Expr* first = parse_product(p);
  if (!p.is_op("~")) return first;
  std::vector<const Expr*> operands{first};
  while (p.skip_op("~")) operands.push_back(parse_product(p));
  return &add(p, ExprKind::concat, std::move(operands));
}

const Expr* parse_sum(ParseState& p) {
  const Expr* node = parse_concat(p);
  while (p.is_op("+") || p.is_op("-")) {
    uint32_t at = p.current().at;
    Op op = p.take().text == "+" ? Op::add : Op::sub;
    const Expr* right = parse_concat(p);
    Expr& sum = add(p, ExprKind::binary, {node, right});
    sum.ops = {op};
    sum.at = at;
    node = &sum;
  }
  return node;
}

const Expr* parse_compare(ParseState& p) {
  const Expr* first = parse_sum(p);
  std::vector<const Expr*> operands{first};
  std::vector<Op> ops;
  uint32_t at = p.current().at;
  for (;;) {
    if (auto op = comparison(p.current())) {
      p.take();
      ops.push_back(*op);
    } else if (p.skip_name("in")) {
      ops.push_back(Op::in);
    } else if (p.is_name("not") && p.ahead(1).kind == TokenKind::name && p.ahead(1).text == "in") {
      p.take();
      p.take();
      ops.push_back(Op::not_in);
    } else {
      break;
    }
    operands.push_back(parse_sum(p));
  }
  if (ops.empty()) return first;
  Expr& compare = add(p, ExprKind::compare, std::move(operands));
  compare.ops = std::move(ops);
  compare.at = at;
  return &compare;
}

const Expr* parse_not(ParseState& p) {
  if (!p.skip_name("not")) return parse_compare(p);
  TokenCursor::Nesting nesting(p);
  const Expr* operand = parse_not(p);
  return &add(p, ExprKind::logical_not, {operand});
}

const Expr* parse_and(ParseState& p) {
  const Expr* node = parse_not(p);
  while (p.skip_name("and")) {
    const Expr* right = parse_not(p);
    node = &add(p, ExprKind::logical_and, {node, right});
  }
  return node;
}

const Expr* parse_or(ParseState& p) {
  const Expr* node = parse_and(p);
  while (p.skip_name("or")) {
    const Expr* right = parse_and(p);
    node = &add(p, ExprKind::logical_or, {node, right});
  }
  return node;
}

}  // namespace

ParseState::ParseState(Ast& a) : TokenCursor(a.source), ast(a) {
  intern(ast, "loop");    // kLoopSymbol
  intern(ast, "caller");  // kCallerSymbol
}

const Expr* parse_expression(ParseState& p) {
  TokenCursor::Nesting nesting(p);
  const Expr* node = parse_or(p);
  while (p.is_name("if")) {
    Expr& conditional = add(p, ExprKind::conditional);
    p.take();
    const Expr* test = parse_or(p);
    const Expr* otherwise = p.skip_name("else") ? parse_expression(p) : nullptr;
    conditional.operands = {node, test, otherwise};
    set_height(p, conditional);
    node = &conditional;
  }
  return node;
}

const Expr* parse_tuple(ParseState& p, bool conditional) {
  auto element = [&] { return conditional ? parse_expression(p) : parse_or(p); };
  const Expr* first = element();
  if (!p.is_op(",")) return first;
  std::vector<const Expr*> items{first};
  while (p.skip_op(",")) {
    if (p.is(TokenKind::variable_end) || p.is(TokenKind::block_end) || p.is_op(")")) break;
    items.push_back(element());
  }
  return &add(p, ExprKind::tuple, std::move(items));
}

const Expr* parse_single_target(ParseState& p) {
  if (p.skip_op("(")) {
    TokenCursor::Nesting nesting(p);
    const Expr* target = parse_target(p);
    p.expect_op(")");
    return target;
  }
  Expr& name = add(p, ExprKind::name);
  name.symbol = take_new_name(p);
  if (!p.is_op(".")) return &name;
  Expr& attribute = add(p, ExprKind::attribute, {&name});
  p.take();
  if (!p.is(TokenKind::name)) p.fail_here("expected an attribute's name");
  attribute.name = p.take().text;
  return &attribute;
}

const Expr* parse_target(ParseState& p) {
  const Expr* first = parse_single_target(p);
  if (!p.is_op(",")) return first;
  std::vector<const Expr*> items{first};
  while (p.skip_op(",")) {
    if (p.is_name("in") || p.is_op("=") || p.is_op(")")) break;
    items.push_back(parse_single_target(p));
  }
  return &add(p, ExprKind::tuple, std::move(items));
}

int take_new_name(ParseState& p) {
  if (!p.is(TokenKind::name)) p.fail_here("expected a name");
  if (is_constant_name(p.current().text)) p.fail_here("cannot assign to '{}'", p.current().text);
  return intern(p.ast, p.take().text);
}

const Expr* parse_filter(ParseState& p, const Expr* input) {
  Expr& filter = add(p, ExprKind::filter, {input});
  if (!p.is(TokenKind::name)) p.fail_here("expected a filter's name");
  filter.name = p.current().text;
  filter.filter = find_filter(filter.name);
  if (filter.filter == nullptr && p.branches == 0) p.fail_here("there is no filter named '{}'", filter.name);
  p.take();
  if (p.is_op("(")) parse_arguments(p, filter);
  return &filter;
}

const Expr* parse_filters(ParseState& p, const Expr* input) {
  for (;;) {
    if (p.skip_op("|"))
      input = parse_filter(p, input);
    else if (input != nullptr && p.skip_name("is"))
      input = parse_test(p, input);
    else if (input != nullptr && p.is_op("("))
      input = parse_call(p, input);
    else
      return input;
  }
}

}  // namespace anabranch::jinja
