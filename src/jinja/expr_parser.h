// The grammar of expressions; parser.cc has the statements. All functions throw Failure.
#pragma once

#include "jinja/ast.h"
#include "jinja/token_cursor.h"

namespace anabranch::jinja {

// One template while it is parsed: its tokens, and the tree so far.
struct ParseState : TokenCursor {
  // ast.source must be set.
  explicit ParseState(Ast& ast);

  Ast& ast;
  int caller_uses = 0;  // how often the name `caller` was read so far
  int branches = 0;     // how many {% if %} blocks enclose the current token
};

const Expr* parse_expression(ParseState& p);
// One expression, or a tuple of several separated by commas. If `conditional` is false, an "if" ends the
// expression instead of making it conditional.
const Expr* parse_tuple(ParseState& p, bool conditional);
// The target of an assignment by "set" or "for": a name, a namespace's attribute, or a tuple of targets.
const Expr* parse_target(ParseState& p);
// The same without a tuple, unless it is in parentheses.
const Expr* parse_single_target(ParseState& p);
// The symbol of a name that may be assigned to.
int take_new_name(ParseState& p);
// A chain of filters and tests after `input`, such as "|f(x)|g"; returns `input` if there is none. `input`
// may be null: a filter block has no operand.
const Expr* parse_filters(ParseState& p, const Expr* input);
// One filter, such as "f(x)"; its "|" is already read.
const Expr* parse_filter(ParseState& p, const Expr* input);

}  // namespace anabranch::jinja
