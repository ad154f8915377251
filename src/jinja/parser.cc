#include "jinja/parser.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include "jinja/expr_parser.h"
#include "jinja/unicode.h"

namespace anabranch::jinja {
namespace {

class Parser {
 public:
  explicit Parser(Ast& ast) : p_(ast) {}

  void run() {
    p_.ast.body = parse_body({});
    if (!p_.at_end()) p_.fail_here("unexpected '{}'", p_.current().text);
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  Stmt& add_stmt(StmtKind kind) {
    p_.ast.stmts.emplace_back();
    p_.ast.stmts.back().kind = kind;
    p_.ast.stmts.back().at = p_.current().at;
    return p_.ast.stmts.back();
  }

  // The statements up to one of the tags `ends`, whose "{%" is consumed; without `ends`, up to the end of the
  // source.
  Body parse_body(Names ends) {
    TokenCursor::Nesting nesting(p_);
    Body body;
    while (!p_.at_end()) {
      if (p_.is(TokenKind::data)) {
        Stmt& stmt = add_stmt(StmtKind::text);
        stmt.text = Text(p_.take().text, true);
        body.push_back(&stmt);
      } else if (p_.is(TokenKind::variable_begin)) {
        Stmt& stmt = add_stmt(StmtKind::output);
        p_.take();
        stmt.expr = parse_tuple(p_, true);
        p_.expect(TokenKind::variable_end, "}}");
        body.push_back(&stmt);
      } else {
        p_.take();  // {%
        if (!p_.is(TokenKind::name)) p_.fail_here("a tag's name is missing");
        if (std::find(ends.begin(), ends.end(), p_.current().text) != ends.end()) return body;
        body.push_back(&parse_statement());
      }
    }
    if (ends.size() > 0) p_.fail_here("the template ends, but {{% {} %}} is missing", *(ends.end() - 1));
    return body;
  }

  Stmt& parse_statement() {
    const std::string tag = p_.current().text;
    if (tag == "if") return parse_if();
    if (tag == "for") return parse_for();
    if (tag == "set") return parse_set();
    if (tag == "macro") return parse_macro();
    if (tag == "call") return parse_call_block();
    if (tag == "filter") return parse_filter_block();
    if (tag == "with") return parse_with();
    if (tag == "generation") return parse_generation();
    if (tag == "break" || tag == "continue") return parse_loop_control();
    if (tag.substr(0, 3) == "end" || tag == "else" || tag == "elif")
      p_.fail_here("unexpected tag '{}': there is nothing for it to end or continue", tag);
    p_.fail_here("the tag '{}' is not supported", tag);
  }

  void expect_block_end() { p_.expect(TokenKind::block_end, "%}"); }

  // Reads the rest of an end tag, from its name on.
  void end_block() {
    p_.take();
    expect_block_end();
  }

  Stmt& parse_if() {
    Stmt& stmt = add_stmt(StmtKind::branch);
    ++p_.branches;
    do {
      p_.take();  // if, elif
      const Expr* test = parse_tuple(p_, false);
      expect_block_end();
      Body body = parse_body({"elif", "else", "endif"});
      stmt.branches.push_back({test, std::move(body)});
    } while (p_.current().text == "elif");
    if (p_.current().text == "else") {
      end_block();
      stmt.otherwise = parse_body({"endif"});
    }
    --p_.branches;
    end_block();
    return stmt;
  }

  Stmt& parse_for() {
    Stmt& stmt = add_stmt(StmtKind::loop);
    p_.take();
    stmt.target = parse_target(p_);
    if (!p_.skip_name("in")) p_.fail_here("'in' is missing after the loop variable");
    stmt.expr = parse_tuple(p_, false);
    if (p_.skip_name("if")) stmt.filter = parse_expression(p_);
    if (p_.is_name("recursive")) p_.fail_here("recursive loops are not supported");
    expect_block_end();
    ++loops_;
    stmt.body = parse_body({"else", "endfor"});
    --loops_;
    if (p_.current().text == "else") {
      end_block();
      stmt.otherwise = parse_body({"endfor"});
    }
    end_block();
    return stmt;
  }

  Stmt& parse_set() {
    Stmt& stmt = add_stmt(StmtKind::set);
    p_.take();
    stmt.target = parse_target(p_);
    if (p_.skip_op("=")) {
      stmt.expr = parse_tuple(p_, true);
      expect_block_end();
      return stmt;
    }
    stmt.kind = StmtKind::set_block;
    stmt.expr = parse_filters(p_, nullptr);
    expect_block_end();
    stmt.body = parse_body({"endset"});
    end_block();
    return stmt;
  }

  // The parameters of a macro or a {% call %} block, such as "(a, b=1)".
  std::vector<Parameter> parse_parameters() {
    std::vector<Parameter> parameters;
    p_.expect_op("(");
    while (!p_.is_op(")")) {
      if (!parameters.empty()) p_.expect_op(",");
      if (p_.is_op(")")) break;
      int symbol = take_new_name(p_);
      const Expr* default_value = nullptr;
      if (p_.skip_op("="))
        default_value = parse_expression(p_);
      else if (!parameters.empty() && parameters.back().default_value != nullptr)
        p_.fail_here("a parameter without a default follows one with a default");
      parameters.push_back({symbol, default_value});
    }
    p_.expect_op(")");
    return parameters;
  }

  Body parse_function_body(std::string_view end) {
    int loops = std::exchange(loops_, 0);
    Body body = parse_body({end});
    loops_ = loops;
    end_block();
    return body;
  }

  Stmt& parse_macro() {
    Stmt& stmt = add_stmt(StmtKind::macro);
    p_.take();
    stmt.symbol = take_new_name(p_);
    stmt.parameters = parse_parameters();
    expect_block_end();
    int caller_uses = p_.caller_uses;
    stmt.body = parse_function_body("endmacro");
    stmt.uses_caller = p_.caller_uses > caller_uses;
    return stmt;
  }

  Stmt& parse_call_block() {
    Stmt& stmt = add_stmt(StmtKind::call);
    p_.take();
    if (p_.is_op("(")) stmt.parameters = parse_parameters();
    stmt.expr = parse_expression(p_);
    if (stmt.expr->kind != ExprKind::call) p_.fail_here("{{% call %}} needs a call");
    expect_block_end();
    stmt.body = parse_function_body("endcall");
    return stmt;
  }

  Stmt& parse_filter_block() {
    Stmt& stmt = add_stmt(StmtKind::filter_block);
    p_.take();
    stmt.expr = parse_filters(p_, parse_filter(p_, nullptr));
    expect_block_end();
    stmt.body = parse_body({"endfilter"});
    end_block();
    return stmt;
  }

  Stmt& parse_with() {
    Stmt& stmt = add_stmt(StmtKind::with);
    p_.take();
    while (!p_.is(TokenKind::block_end)) {
      if (!stmt.assignments.empty()) p_.expect_op(",");
      const Expr* target = parse_single_target(p_);
      p_.expect_op("=");
      const Expr* value = parse_expression(p_);
      stmt.assignments.emplace_back(target, value);
    }
    expect_block_end();
    stmt.body = parse_body({"endwith"});
    end_block();
    return stmt;
  }

  // Transformers uses {% generation %} to find the assistant's tokens in training. Here it is only a new
  // scope.
  Stmt& parse_generation() {
    Stmt& stmt = add_stmt(StmtKind::with);
    p_.take();
    expect_block_end();
    stmt.body = parse_function_body("endgeneration");
    return stmt;
  }

  Stmt& parse_loop_control() {
    if (loops_ == 0) p_.fail_here("'{}' outside a loop", p_.current().text);
    Stmt& stmt = add_stmt(p_.current().text == "break" ? StmtKind::break_loop : StmtKind::continue_loop);
    end_block();
    return stmt;
  }

  ParseState p_;
  int loops_ = 0;  // how many loops of the same macro enclose the current token
};

}  // namespace

std::unique_ptr<const Ast> parse(std::string_view source) {
  if (source.size() > kMaxTemplateBytes)
    fail_limit("the chat template has {} bytes, more than the limit of {}", source.size(), kMaxTemplateBytes);
  if (!valid_utf8(source)) fail("the chat template is not valid UTF-8");
  auto ast = std::make_unique<Ast>();
  ast->source = normalize_newlines(source);
  Parser(*ast).run();
  return ast;
}

}  // namespace anabranch::jinja
