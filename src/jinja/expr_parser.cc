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

}  // namespace

ExprParser::ExprParser(Ast& ast) : ast_(ast), tokens_(lex(ast.source)) {
  intern("loop");    // kLoopSymbol
  intern("caller");  // kCallerSymbol
}

bool ExprParser::skip_op(std::string_view op) {
  if (!is_op(op)) return false;
  take();
  return true;
}

bool ExprParser::skip_name(std::string_view name) {
  if (!is_name(name)) return false;
  take();
  return true;
}

void ExprParser::expect_op(std::string_view op) {
  if (!skip_op(op))
    fail_here("expected '{}'{}", op, current().text.empty() ? "" : ", got '" + current().text + "'");
}

void ExprParser::expect(TokenKind kind, std::string_view what) {
  if (current().kind != kind)
    fail_here("expected '{}'{}", what, current().text.empty() ? "" : ", got '" + current().text + "'");
  take();
}

int ExprParser::intern(const std::string& name) {
  auto [it, added] = ast_.symbol_of.emplace(name, static_cast<int>(ast_.symbols.size()));
  if (added) ast_.symbols.push_back(name);
  return it->second;
}

int ExprParser::take_new_name() {
  if (current().kind != TokenKind::name) fail_here("expected a name");
  if (is_constant_name(current().text)) fail_here("cannot assign to '{}'", current().text);
  return intern(take().text);
}

void ExprParser::raise_height(Expr& expr) {
  int inner = 0;
  for (const Expr* operand : expr.operands)
    if (operand != nullptr) inner = std::max(inner, operand->height);
  for (const auto& [name, value] : expr.named) inner = std::max(inner, value->height);
  expr.height = inner + 1;
  if (expr.height > kMaxExprHeight) fail_here("an expression of more than {} levels", kMaxExprHeight);
}

Expr& ExprParser::add(ExprKind kind, std::vector<const Expr*> operands) {
  ast_.exprs.emplace_back();
  Expr& expr = ast_.exprs.back();
  expr.kind = kind;
  expr.at = current().at;
  expr.operands = std::move(operands);
  raise_height(expr);
  return expr;
}

const Expr* ExprParser::constant(Value value) {
  Expr& expr = add(ExprKind::constant);
  expr.value = std::move(value);
  return &expr;
}

const Expr* ExprParser::parse_tuple(bool conditional) {
  auto element = [&] { return conditional ? parse_conditional() : parse_or(); };
  const Expr* first = element();
  if (!is_op(",")) return first;
  std::vector<const Expr*> items{first};
  while (skip_op(",")) {
    if (current().kind == TokenKind::variable_end || current().kind == TokenKind::block_end || is_op(")"))
      break;
    items.push_back(element());
  }
  return &add(ExprKind::tuple, std::move(items));
}

const Expr* ExprParser::parse_single_target() {
  if (skip_op("(")) {
    Nesting nesting(*this);
    const Expr* target = parse_target();
    expect_op(")");
    return target;
  }
  Expr& name = add(ExprKind::name);
  name.symbol = take_new_name();
  if (!is_op(".")) return &name;
  Expr& attribute = add(ExprKind::attribute, {&name});
  take();
  if (current().kind != TokenKind::name) fail_here("expected an attribute's name");
  attribute.name = take().text;
  return &attribute;
}

const Expr* ExprParser::parse_target() {
  const Expr* first = parse_single_target();
  if (!is_op(",")) return first;
  std::vector<const Expr*> items{first};
  while (skip_op(",")) {
    if (is_name("in") || is_op("=") || is_op(")")) break;
    items.push_back(parse_single_target());
  }
  return &add(ExprKind::tuple, std::move(items));
}

const Expr* ExprParser::parse_conditional() {
  Nesting nesting(*this);
  const Expr* node = parse_or();
  while (is_name("if")) {
    Expr& conditional = add(ExprKind::conditional);
    take();
    const Expr* test = parse_or();
    const Expr* otherwise = skip_name("else") ? parse_conditional() : nullptr;
    conditional.operands = {node, test, otherwise};
    raise_height(conditional);
    node = &conditional;
  }
  return node;
}

const Expr* ExprParser::parse_or() {
  const Expr* node = parse_and();
  while (skip_name("or")) {
    const Expr* right = parse_and();
    node = &add(ExprKind::logical_or, {node, right});
  }
  return node;
}

const Expr* ExprParser::parse_and() {
  const Expr* node = parse_not();
  while (skip_name("and")) {
    const Expr* right = parse_not();
    node = &add(ExprKind::logical_and, {node, right});
  }
  return node;
}

const Expr* ExprParser::parse_not() {
  if (!skip_name("not")) return parse_compare();
  Nesting nesting(*this);
  const Expr* operand = parse_not();
  return &add(ExprKind::logical_not, {operand});
}

const Expr* ExprParser::parse_compare() {
  const Expr* first = parse_sum();
  std::vector<const Expr*> operands{first};
  std::vector<Op> ops;
  uint32_t at = current().at;
  for (;;) {
    if (auto op = comparison(current())) {
      take();
      ops.push_back(*op);
    } else if (skip_name("in")) {
      ops.push_back(Op::in);
    } else if (is_name("not") && ahead(1).kind == TokenKind::name && ahead(1).text == "in") {
      take();
      take();
      ops.push_back(Op::not_in);
    } else {
      break;
    }
    operands.push_back(parse_sum());
  }
  if (ops.empty()) return first;
  Expr& compare = add(ExprKind::compare, std::move(operands));
  compare.ops = std::move(ops);
  compare.at = at;
  return &compare;
}

const Expr* ExprParser::parse_sum() {
  const Expr* node = parse_concat();
  while (is_op("+") || is_op("-")) {
    uint32_t at = current().at;
    Op op = take().text == "+" ? Op::add : Op::sub;
    const Expr* right = parse_concat();
    Expr& sum = add(ExprKind::binary, {node, right});
    sum.ops = {op};
    sum.at = at;
    node = &sum;
  }
  return node;
}

const Expr* ExprParser::parse_concat() {
  const Expr* first = parse_product();
  if (!is_op("~")) return first;
  std::vector<const Expr*> operands{first};
  while (skip_op("~")) operands.push_back(parse_product());
  return &add(ExprKind::concat, std::move(operands));
}

const Expr* ExprParser::parse_product() {
  const Expr* node = parse_power();
  while (is_op("*") || is_op("/") || is_op("//") || is_op("%")) {
    uint32_t at = current().at;
    std::string text = take().text;
    const Expr* right = parse_power();
    Expr& product = add(ExprKind::binary, {node, right});
    product.ops = {text == "*" ? Op::mul : text == "/" ? Op::div : text == "//" ? Op::floor_div : Op::mod};
    product.at = at;
    node = &product;
  }
  return node;
}

// Left to right, as Jinja has it: 2 ** 3 ** 2 is 64.
const Expr* ExprParser::parse_power() {
  const Expr* node = parse_unary(true);
  while (is_op("**")) {
    uint32_t at = current().at;
    take();
    const Expr* right = parse_unary(true);
    Expr& power = add(ExprKind::binary, {node, right});
    power.ops = {Op::pow};
    power.at = at;
    node = &power;
  }
  return node;
}

const Expr* ExprParser::parse_unary(bool with_filters) {
  const Expr* node = nullptr;
  if (is_op("-") || is_op("+")) {
    Nesting nesting(*this);
    Expr& sign = add(is_op("-") ? ExprKind::negate : ExprKind::plus);
    take();
    sign.operands = {parse_unary(false)};
    raise_height(sign);
    node = &sign;
  } else {
    node = parse_primary();
  }
  node = parse_postfix(node);
  return with_filters ? parse_filters(node) : node;
}

const Expr* ExprParser::parse_primary() {
  const Token token = current();
  if (token.kind == TokenKind::integer || token.kind == TokenKind::real) return parse_number();
  if (token.kind == TokenKind::string) {
    std::string text;
    while (current().kind == TokenKind::string) text += take().text;
    return constant(Text(std::move(text), true));
  }
  if (token.kind == TokenKind::name) {
    Expr& expr = add(is_constant_name(token.text) ? ExprKind::constant : ExprKind::name);
    take();
    if (expr.kind == ExprKind::name) {
      expr.symbol = intern(token.text);
      caller_uses_ += expr.symbol == kCallerSymbol;
    } else if (token.text == "none" || token.text == "None")
      expr.value = None{};
    else
      expr.value = token.text == "true" || token.text == "True";
    return &expr;
  }
  if (is_op("[")) return parse_list();
  if (is_op("{")) return parse_dict();
  if (!skip_op("("))
    fail_here("expected an expression{}", token.text.empty() ? "" : ", got '" + token.text + "'");
  const Expr* inner = is_op(")") ? &add(ExprKind::tuple) : parse_tuple(true);
  expect_op(")");
  return inner;
}

const Expr* ExprParser::parse_number() {
  Expr& expr = add(ExprKind::constant);
  const Token& token = take();
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
    if (digit >= base) fail_at(ast_.source, token.at, "'{}' is not a number", token.text);
    if (__builtin_mul_overflow(value, Int{base}, &value) || __builtin_add_overflow(value, Int{digit}, &value))
      fail_at(ast_.source, token.at, "the number is too large");
  }
  expr.value = value;
  return &expr;
}

const Expr* ExprParser::parse_list() {
  Nesting nesting(*this);
  Expr& list = add(ExprKind::list);
  take();
  while (!is_op("]")) {
    if (!list.operands.empty()) expect_op(",");
    if (is_op("]")) break;
    list.operands.push_back(parse_expression());
  }
  take();
  raise_height(list);
  return &list;
}

const Expr* ExprParser::parse_dict() {
  Nesting nesting(*this);
  Expr& dict = add(ExprKind::dict);
  take();
  while (!is_op("}")) {
    if (!dict.operands.empty()) expect_op(",");
    if (is_op("}")) break;
    dict.operands.push_back(parse_expression());
    expect_op(":");
    dict.operands.push_back(parse_expression());
  }
  take();
  raise_height(dict);
  return &dict;
}

const Expr* ExprParser::parse_postfix(const Expr* node) {
  for (;;) {
    if (is_op(".") || is_op("["))
      node = parse_subscript(node);
    else if (is_op("("))
      node = parse_call(node);
    else
      return node;
  }
}

const Expr* ExprParser::parse_subscript(const Expr* object) {
  uint32_t at = current().at;
  if (skip_op(".")) {
    Expr* expr = nullptr;
    if (current().kind == TokenKind::name) {
      expr = &add(ExprKind::attribute, {object});
      expr->name = take().text;
    } else if (current().kind == TokenKind::integer) {
      const Expr* index = parse_number();
      expr = &add(ExprKind::item, {object, index});
    } else {
      fail_here("expected a name or a number after '.'");
    }
    expr->at = at;
    return expr;
  }
  expect_op("[");
  Nesting nesting(*this);
  auto part_ends = [&] { return is_op(":") || is_op("]"); };
  std::vector<const Expr*> parts;  // of a slice
  const Expr* first = part_ends() ? nullptr : parse_tuple(true);
  if (first == nullptr && is_op("]")) fail_here("an empty subscript");
  if (is_op("]")) {
    take();
    Expr& item = add(ExprKind::item, {object, first});
    item.at = at;
    return &item;
  }
  parts = {object, first, nullptr, nullptr};
  for (size_t i = 2; i < 4 && skip_op(":"); ++i)
    if (!part_ends()) parts[i] = parse_expression();
  expect_op("]");
  Expr& slice = add(ExprKind::slice, std::move(parts));
  slice.at = at;
  return &slice;
}

void ExprParser::parse_arguments(Expr& call) {
  Nesting nesting(*this);
  expect_op("(");
  for (bool first = true; !is_op(")"); first = false) {
    if (!first) expect_op(",");
    if (is_op(")")) break;
    if (is_op("*") || is_op("**")) fail_here("'*' before an argument is not supported");
    if (current().kind == TokenKind::name && ahead(1).kind == TokenKind::op && ahead(1).text == "=") {
      std::string name = take().text;
      take();
      const Expr* value = parse_expression();
      call.named.emplace_back(std::move(name), value);
    } else {
      if (!call.named.empty()) fail_here("a positional argument after a keyword argument");
      call.operands.push_back(parse_expression());
    }
  }
  take();
  raise_height(call);
}

const Expr* ExprParser::parse_call(const Expr* function) {
  Expr& call = add(ExprKind::call, {function});
  parse_arguments(call);
  return &call;
}

const Expr* ExprParser::parse_filter(const Expr* input) {
  Expr& filter = add(ExprKind::filter, {input});
  if (current().kind != TokenKind::name) fail_here("expected a filter's name");
  filter.name = current().text;
  filter.filter = find_filter(filter.name);
  if (filter.filter == nullptr && branches_ == 0) fail_here("there is no filter named '{}'", filter.name);
  take();
  if (is_op("(")) parse_arguments(filter);
  return &filter;
}

const Expr* ExprParser::parse_filters(const Expr* input) {
  for (;;) {
    if (skip_op("|"))
      input = parse_filter(input);
    else if (input != nullptr && skip_name("is"))
      input = parse_test(input);
    else if (input != nullptr && is_op("("))
      input = parse_call(input);
    else
      return input;
  }
}

const Expr* ExprParser::parse_test(const Expr* subject) {
  bool negated = skip_name("not");
  Expr& test = add(ExprKind::test, {subject});
  if (current().kind != TokenKind::name) fail_here("expected a test's name");
  test.name = current().text;
  test.test = find_test(test.name);
  if (test.test == nullptr && branches_ == 0) fail_here("there is no test named '{}'", test.name);
  take();
  static constexpr std::string_view kFollowers[] = {"else", "or", "and", "if", "not", "in", "recursive"};
  const Token& next = current();
  bool argument = next.kind == TokenKind::string || next.kind == TokenKind::integer ||
                  next.kind == TokenKind::real || is_op("[") || is_op("{");
  if (next.kind == TokenKind::name)
    argument = std::find(std::begin(kFollowers), std::end(kFollowers), next.text) == std::end(kFollowers);
  if (is_op("(")) {
    parse_arguments(test);
  } else if (argument) {
    if (is_name("is")) fail_here("tests cannot be chained with 'is'");
    Nesting nesting(*this);
    test.operands.push_back(parse_postfix(parse_primary()));
    raise_height(test);
  }
  return negated ? &add(ExprKind::logical_not, {&test}) : &test;
}

}  // namespace anabranch::jinja
