// The syntax tree of a template: plain data, owned by one Ast, immutable after parsing.
#pragma once

#include <deque>
#include <string>
#include <unordered_map>
#include <vector>

#include "jinja/value.h"

namespace anabranch::jinja {

using Filter = Value (*)(Run&, const Value&, const Arguments&);
using Test = bool (*)(Run&, const Value&, const Arguments&);

enum class Op { add, sub, mul, div, floor_div, mod, pow, eq, ne, lt, le, gt, ge, in, not_in };

enum class ExprKind {
  constant,     // value
  name,         // symbol
  list,         // operands
  tuple,        // operands
  dict,         // operands: key, value, key, value, ...
  attribute,    // operands[0].name
  item,         // operands[0][operands[1]]
  slice,        // operands[0][operands[1] : operands[2] : operands[3]]; absent ones are null
  call,         // operands[0](operands[1], ..., named)
  filter,       // operands[0] | filter(operands[1], ..., named); operands[0] null in a filter block
  test,         // operands[0] is test(operands[1], ..., named)
  negate,       // -operands[0]
  plus,         // +operands[0]
  logical_not,  // not operands[0]
  logical_and,
  logical_or,
  binary,       // operands[0] ops[0] operands[1]
  compare,      // operands[0] ops[0] operands[1] ops[1] operands[2] ...
  concat,       // operands[0] ~ operands[1] ~ ...
  conditional,  // operands[0] if operands[1] else operands[2], which may be null
};

struct Expr {
  ExprKind kind;
  uint32_t at = 0;  // byte offset in the source
  int height = 1;   // levels of the tree from this node down
  Value value;
  int symbol = -1;
  std::string name;
  std::vector<const Expr*> operands;
  std::vector<std::pair<std::string, const Expr*>> named;  // keyword arguments
  std::vector<Op> ops;
  Filter filter = nullptr;
  Test test = nullptr;
};

enum class StmtKind {
  text,          // text
  output,        // expr
  branch,        // if branches[0].test then branches[0].body elif ... else otherwise
  loop,          // for target in expr if filter: body; `otherwise` if there are no items
  set,           // target = expr
  set_block,     // target = output of body, filtered by expr (a chain of filters) unless it is null
  macro,         // symbol, parameters, body
  call,          // the macro call expr with `caller` = parameters and body
  filter_block,  // output of body, filtered by expr
  with,          // body with assignments in a new scope; also {% generation %}
  break_loop,
  continue_loop,
};

struct Stmt;
using Body = std::vector<const Stmt*>;

struct Branch {
  const Expr* test;
  Body body;
};

struct Parameter {
  int symbol;
  const Expr* default_value;  // null if there is none
};

struct Stmt {
  StmtKind kind;
  uint32_t at = 0;
  Text text;
  const Expr* expr = nullptr;
  const Expr* filter = nullptr;
  const Expr* target = nullptr;  // a name, a tuple of targets, or an attribute of a namespace's name
  std::vector<Branch> branches;
  std::vector<std::pair<const Expr*, const Expr*>> assignments;  // with: target, value
  int symbol = -1;
  std::vector<Parameter> parameters;
  bool uses_caller = false;
  Body body, otherwise;
};

// The symbols whose number is fixed.
constexpr int kLoopSymbol = 0;
constexpr int kCallerSymbol = 1;

struct Ast {
  std::string source;  // with normalised newlines
  std::deque<Expr> exprs;
  std::deque<Stmt> stmts;
  Body body;
  std::vector<std::string> symbols;
  std::unordered_map<std::string, int> symbol_of;
};

}  // namespace anabranch::jinja
