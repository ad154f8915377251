// Reads a template's tokens one after another, for the parsers of statements and expressions.
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "jinja/lexer.h"

namespace anabranch::jinja {

class TokenCursor {
 public:
  // `source` must outlive the cursor. Throws Failure.
  explicit TokenCursor(std::string_view source) : source_(source), tokens_(lex(source)) {}

  // Counts one level of recursion while it lives; fails beyond kMaxSyntaxDepth levels.
  struct Nesting {
    explicit Nesting(TokenCursor& c) : cursor(c) {
      if (++c.depth_ > kMaxSyntaxDepth) c.fail_here("nested deeper than {} levels", kMaxSyntaxDepth);
    }
    ~Nesting() { --cursor.depth_; }
    TokenCursor& cursor;
  };

  // After the last token this is a token of kind `end`.
  const Token& current() const { return tokens_[position_]; }
  const Token& ahead(size_t n) const { return tokens_[std::min(position_ + n, tokens_.size() - 1)]; }
  bool at_end() const { return is(TokenKind::end); }
  bool is(TokenKind kind) const { return current().kind == kind; }
  bool is_op(std::string_view op) const { return is(TokenKind::op) && current().text == op; }
  bool is_name(std::string_view name) const { return is(TokenKind::name) && current().text == name; }

  // Returns the current token and moves past it.
  const Token& take() { return tokens_[at_end() ? position_ : position_++]; }
  // Moves past the operator or name if it is the current token; returns whether it was.
  bool skip_op(std::string_view op);
  bool skip_name(std::string_view name);
  // Moves past a token, and fails if it is another one; `what` names the expected kind in the message.
  void expect_op(std::string_view op);
  void expect(TokenKind kind, std::string_view what);

  // Throws a Failure with the current token's line and column.
  template <class... Args>
  [[noreturn]] void fail_here(fmt::format_string<Args...> format, Args&&... args) const {
    fail_at(source_, current().at, format, std::forward<Args>(args)...);
  }

 private:
  std::string_view source_;
  std::vector<Token> tokens_;
  size_t position_ = 0;
  int depth_ = 0;
};

}  // namespace anabranch::jinja
