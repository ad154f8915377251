#include "jinja/eval_expr.h"

#include "jinja/ops.h"

namespace anabranch::jinja {
namespace {

// The value of operand i; None if it is absent.
Value operand(EvalState& e, const Expr& expr, size_t i) {
  return expr.operands[i] == nullptr ? Value(None{}) : evaluate(e, *expr.operands[i]);
}

// The operands from `first` on.
std::vector<Value> evaluate_all(EvalState& e, const Expr& expr, size_t first) {
  std::vector<Value> values;
  values.reserve(expr.operands.size() - first);
  for (size_t i = first; i < expr.operands.size(); ++i) values.push_back(evaluate(e, *expr.operands[i]));
  return values;
}

Value evaluate_conditional(EvalState& e, const Expr& expr) {
  if (truthy(operand(e, expr, 1))) return operand(e, expr, 0);
  if (expr.operands[2] != nullptr) return operand(e, expr, 2);
  return Value::undefined("the inline if-expression evaluated to false and no else section was defined");
}

Value evaluate_dict(EvalState& e, const Expr& expr) {
  std::vector<std::pair<Value, Value>> items;
  for (size_t i = 0; i < expr.operands.size(); i += 2) {
    Value key = operand(e, expr, i);
    items.emplace_back(std::move(key), operand(e, expr, i + 1));
  }
  e.at = expr.at;
  return make_dict(std::move(items));
}

Value evaluate_compare(EvalState& e, const Expr& expr) {
  Value left = operand(e, expr, 0);
  for (size_t i = 0; i < expr.ops.size(); ++i) {
    Value right = operand(e, expr, i + 1);
    e.at = expr.at;
    if (!compare(expr.ops[i], left, right, e.run.budget)) return false;
    left = std::move(right);
  }
  return true;
}

Value evaluate_concat(EvalState& e, const Expr& expr) {
  Text out;
  for (const Expr* part : expr.operands) {
    Value value = evaluate(e, *part);
    e.at = expr.at;
    Text text = to_text(value, e.run.budget);
    e.run.budget.spend_text(out.size() + text.size());
    out.append(text);
  }
  return out;
}

Value evaluate_call(EvalState& e, const Expr& expr) {
  Value function = operand(e, expr, 0);
  Arguments arguments = evaluate_arguments(e, expr);
  e.at = expr.at;
  return call_function(e, function, arguments);
}

Value evaluate_test(EvalState& e, const Expr& expr) {
  Value subject = operand(e, expr, 0);
  Arguments arguments = evaluate_arguments(e, expr);
  e.at = expr.at;
  if (expr.test == nullptr) fail("there is no test named '{}'", expr.name);
  return expr.test(e.run, subject, arguments);
}

Value evaluate_operator(EvalState& e, const Expr& expr) {
  Value a = operand(e, expr, 0);
  switch (expr.kind) {
    case ExprKind::attribute:
      e.at = expr.at;
      return get_attribute(a, expr.name, e.run.budget);
    case ExprKind::negate:
      e.at = expr.at;
      return negate(a);
    case ExprKind::plus:
      e.at = expr.at;
      if (!a.numeric()) negate(a);  // fails with the right message
      return a.is(Kind::boolean) ? Value(a.integer()) : a;
    case ExprKind::item: {
      Value key = operand(e, expr, 1);
      e.at = expr.at;
      return get_item(a, key, e.run.budget);
    }
    case ExprKind::slice: {
      Value start = operand(e, expr, 1), stop = operand(e, expr, 2), step = operand(e, expr, 3);
      e.at = expr.at;
      return get_slice(a, start, stop, step, e.run.budget);
    }
    default: {
      Value b = operand(e, expr, 1);
      e.at = expr.at;
      return binary(expr.ops[0], a, b, e.run.budget);
    }
  }
}

// One filter of a chain, counted as a level of recursion.
Value apply_nested(EvalState& e, const Expr& expr, const Value& input) {
  Run::Level level(e.run);
  e.run.budget.spend(1);
  return apply_filters(e, expr, input);
}

}  // namespace

Value evaluate(EvalState& e, const Expr& expr) {
  Run::Level level(e.run);
  e.run.budget.spend(1);
  switch (expr.kind) {
    case ExprKind::constant:
      return expr.value;
    case ExprKind::name:
      return e.variables.look_up(expr.symbol, e.run.budget);
    case ExprKind::logical_not:
      return !truthy(operand(e, expr, 0));
    case ExprKind::logical_and:
    case ExprKind::logical_or: {
      Value left = operand(e, expr, 0);
      bool decided = truthy(left) == (expr.kind == ExprKind::logical_or);
      return decided ? left : operand(e, expr, 1);
    }
    case ExprKind::conditional:
      return evaluate_conditional(e, expr);
    case ExprKind::list:
    case ExprKind::tuple:
      return make_list(evaluate_all(e, expr, 0), expr.kind == ExprKind::tuple);
    case ExprKind::dict:
      return evaluate_dict(e, expr);
    case ExprKind::compare:
      return evaluate_compare(e, expr);
    case ExprKind::concat:
      return evaluate_concat(e, expr);
    case ExprKind::call:
      return evaluate_call(e, expr);
    case ExprKind::filter:
      return apply_filters(e, expr, Value());
    case ExprKind::test:
      return evaluate_test(e, expr);
    default:
      return evaluate_operator(e, expr);
  }
}

Arguments evaluate_arguments(EvalState& e, const Expr& call) {
  Arguments arguments;
  arguments.positional = evaluate_all(e, call, 1);
  for (const auto& [name, value] : call.named) {
    for (const auto& earlier : arguments.named)
      if (earlier.first == name) fail("the keyword argument '{}' is given twice", name);
    arguments.named.emplace_back(name, evaluate(e, *value));
  }
  return arguments;
}

Value call_function(EvalState& e, const Value& function, const Arguments& arguments) {
  if (function.is(Kind::undefined)) fail("{}", function.why());
  if (!function.is(Kind::function)) fail("'{}' object is not callable", type_name(function));
  return function.function().call(e.run, arguments);
}

Value apply_filters(EvalState& e, const Expr& expr, const Value& input) {
  const Expr* inner = expr.operands[0];
  Value subject = inner == nullptr                  ? input
                  : inner->kind == ExprKind::filter ? apply_nested(e, *inner, input)
                                                    : evaluate(e, *inner);
  Arguments arguments = evaluate_arguments(e, expr);
  e.at = expr.at;
  if (expr.filter == nullptr) fail("there is no filter named '{}'", expr.name);
  return expr.filter(e.run, subject, arguments);
}

}  // namespace anabranch::jinja
