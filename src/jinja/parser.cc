#include "jinja/parser.h"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

#include "jinja/expr_parser.h"
#include "jinja/unicode.h"

namespace anabranch::jinja {
namespace {

class Parser : private ExprParser {
 public:
  explicit Parser(Ast& ast) : ExprParser(ast) {}

  void run() {
    ast_.body = parse_body({});
    if (!at_end()) fail_here("unexpected '{}'", current().text);
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  Stmt& add_stmt(StmtKind kind) {
    ast_.stmts.emplace_back();
    ast_.stmts.back().kind = kind;
    ast_.stmts.back().at = current().at;
    return ast_.stmts.back();
  }

  // Statements up to one of the tags `ends`, of which "{%" is consumed; or to the end of the source.
  Body parse_body(Names ends) {
    Nesting nesting(*this);
    Body body;
    while (!at_end()) {
      if (current().kind == TokenKind::data) {
        Stmt& stmt = add_stmt(StmtKind::text);
        stmt.text = Text(take().text, true);
        body.push_back(&stmt);
      } else if (current().kind == TokenKind::variable_begin) {
        Stmt& stmt = add_stmt(StmtKind::output);
        take();
        stmt.expr = parse_tuple(true);
        expect(TokenKind::variable_end, "}}");
        body.push_back(&stmt);
      } else {
        take();  // {%
        if (current().kind != TokenKind::name) fail_here("a tag's name is missing");
        if (std::find(ends.begin(), ends.end(), current().text) != ends.end()) return body;
        body.push_back(&parse_statement());
      }
    }
    if (ends.size() > 0) fail_here("the template ends, but {{% {} %}} is missing", *(ends.end() - 1));
    return body;
  }

  Stmt& parse_statement() {
    const std::string tag = current().text;
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
      fail_here("unexpected tag '{}': there is nothing for it to end or continue", tag);
    fail_here("the tag '{}' is not supported", tag);
  }

  void expect_block_end() { expect(TokenKind::block_end, "%}"); }

  // At the name of an end tag.
  void end_block() {
    take();
    expect_block_end();
  }

  Stmt& parse_if() {
    Stmt& stmt = add_stmt(StmtKind::branch);
    ++branches_;
    do {
      take();  // if, elif
      const Expr* test = parse_tuple(false);
      expect_block_end();
      Body body = parse_body({"elif", "else", "endif"});
      stmt.branches.push_back({test, std::move(body)});
    } while (current().text == "elif");
    if (current().text == "else") {
      end_block();
      stmt.otherwise = parse_body({"endif"});
    }
    --branches_;
    end_block();
    return stmt;
  }

  Stmt& parse_for() {
    Stmt& stmt = add_stmt(StmtKind::loop);
    take();
    stmt.target = parse_target();
    if (!skip_name("in")) fail_here("'in' is missing after the loop variable");
    stmt.expr = parse_tuple(false);
    if (skip_name("if")) stmt.filter = parse_expression();
    if (is_name("recursive")) fail_here("recursive loops are not supported");
    expect_block_end();
    ++loops_;
    stmt.body = parse_body({"else", "endfor"});
    --loops_;
    if (current().text == "else") {
      end_block();
      stmt.otherwise = parse_body({"endfor"});
    }
    end_block();
    return stmt;
  }

  Stmt& parse_set() {
    Stmt& stmt = add_stmt(StmtKind::set);
    take();
    stmt.target = parse_target();
    if (skip_op("=")) {
      stmt.expr = parse_tuple(true);
      expect_block_end();
      return stmt;
    }
    stmt.kind = StmtKind::set_block;
    stmt.expr = parse_filters(nullptr);
    expect_block_end();
    stmt.body = parse_body({"endset"});
    end_block();
    return stmt;
  }

  // "(a, b=1)"; nothing at all for {% call %}.
  std::vector<Parameter> parse_parameters() {
    std::vector<Parameter> parameters;
    expect_op("(");
    while (!is_op(")")) {
      if (!parameters.empty()) expect_op(",");
      if (is_op(")")) break;
      int symbol = take_new_name();
      const Expr* default_value = nullptr;
      if (skip_op("="))
        default_value = parse_expression();
      else if (!parameters.empty() && parameters.back().default_value != nullptr)
        fail_here("a parameter without a default follows one with a default");
      parameters.push_back({symbol, default_value});
    }
    expect_op(")");
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
    take();
    stmt.symbol = take_new_name();
    stmt.parameters = parse_parameters();
    expect_block_end();
    int caller_uses = caller_uses_;
    stmt.body = parse_function_body("endmacro");
    stmt.uses_caller = caller_uses_ > caller_uses;
    return stmt;
  }

  Stmt& parse_call_block() {
    Stmt& stmt = add_stmt(StmtKind::call);
    take();
    if (is_op("(")) stmt.parameters = parse_parameters();
    stmt.expr = parse_expression();
    if (stmt.expr->kind != ExprKind::call) fail_here("{{% call %}} needs a call");
    expect_block_end();
    stmt.body = parse_function_body("endcall");
    return stmt;
  }

  Stmt& parse_filter_block() {
    Stmt& stmt = add_stmt(StmtKind::filter_block);
    take();
    stmt.expr = parse_filters(parse_filter(nullptr));
    expect_block_end();
    stmt.body = parse_body({"endfilter"});
    end_block();
    return stmt;
  }

  Stmt& parse_with() {
    Stmt& stmt = add_stmt(StmtKind::with);
    take();
    while (current().kind != TokenKind::block_end) {
      if (!stmt.assignments.empty()) expect_op(",");
      const Expr* target = parse_single_target();
      expect_op("=");
      const Expr* value = parse_expression();
      stmt.assignments.emplace_back(target, value);
    }
    expect_block_end();
    stmt.body = parse_body({"endwith"});
    end_block();
    return stmt;
  }

  // Transformers uses it to find the assistant's tokens in training: a scope and nothing more.
  Stmt& parse_generation() {
    Stmt& stmt = add_stmt(StmtKind::with);
    take();
    expect_block_end();
    stmt.body = parse_function_body("endgeneration");
    return stmt;
  }

  Stmt& parse_loop_control() {
    if (loops_ == 0) fail_here("'{}' outside a loop", current().text);
    Stmt& stmt = add_stmt(current().text == "break" ? StmtKind::break_loop : StmtKind::continue_loop);
    end_block();
    return stmt;
  }

  int loops_ = 0;  // around this point, within the macro
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
