// The expression half of the parser (parser.cc has the statements).
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/ast.h"
#include "jinja/lexer.h"

namespace anabranch::jinja {

class ExprParser {
 protected:
  explicit ExprParser(Ast& ast);

  // Counts one level of recursion while it lives.
  struct Nesting {
    explicit Nesting(ExprParser& p) : parser(p) {
      if (++p.depth_ > kMaxSyntaxDepth) p.fail_here("nested deeper than {} levels", kMaxSyntaxDepth);
    }
    ~Nesting() { --parser.depth_; }
    ExprParser& parser;
  };

  const Token& current() const { return tokens_[position_]; }
  const Token& ahead(size_t n) const { return tokens_[std::min(position_ + n, tokens_.size() - 1)]; }
  bool at_end() const { return current().kind == TokenKind::end; }
  const Token& take() { return tokens_[at_end() ? position_ : position_++]; }
  bool is_op(std::string_view op) const { return current().kind == TokenKind::op && current().text == op; }
  bool is_name(std::string_view name) const {
    return current().kind == TokenKind::name && current().text == name;
  }
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  void expect_op(std::string_view op);
  void expect(TokenKind kind, std::string_view what);
  // A name that may be assigned to, as a symbol.
  int take_new_name();
  template <class... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(ast_.source, current().at, format, std::forward<Args>(args)...);
  }

  const Expr* parse_expression() { return parse_conditional(); }
  // An expression, or several with commas between them as a tuple. Without `conditional`, "if" ends it.
  const Expr* parse_tuple(bool conditional);
  // What "set" and "for" assign to.
  const Expr* parse_target();
  const Expr* parse_single_target();
  // "|f(x)|g" after `input`; returns input when there is none.
  const Expr* parse_filters(const Expr* input);
  // "f(x)" after a "|".
  const Expr* parse_filter(const Expr* input);

  Ast& ast_;
  int caller_uses_ = 0;  // of the name `caller` so far
  int branches_ = 0;     // of {% if %} around this point

 private:
  int intern(const std::string& name);
  Expr& add(ExprKind kind, std::vector<const Expr*> operands = {});
  const Expr* constant(Value value);

  const Expr* parse_conditional();
  const Expr* parse_or();
  const Expr* parse_and();
  const Expr* parse_not();
  const Expr* parse_compare();
  const Expr* parse_sum();
  const Expr* parse_concat();
  const Expr* parse_product();
  const Expr* parse_power();
  const Expr* parse_unary(bool with_filters);
  const Expr* parse_primary();
  const Expr* parse_postfix(const Expr* node);
  const Expr* parse_subscript(const Expr* object);
  const Expr* parse_call(const Expr* function);
  const Expr* parse_test(const Expr* subject);
  const Expr* parse_list();
  const Expr* parse_dict();
  const Expr* parse_number();
  void parse_arguments(Expr& call);
  void raise_height(Expr& expr);

  std::vector<Token> tokens_;
  size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace anabranch::jinja
