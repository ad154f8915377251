// Walks the syntax tree. One Evaluator per render.
#include <algorithm>

#include "jinja/lexer.h"
#include "jinja/library.h"
#include "jinja/ops.h"
#include "jinja/run.h"

namespace anabranch::jinja {
namespace {

// Variables of a loop iteration, a macro call, ... Owned by the stack of evaluation; a macro keeps its
// defining scope weakly, or scope and macro would keep each other alive.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<int, Value>> variables;

  Value* find(int symbol) {
    for (auto& [key, value] : variables)
      if (key == symbol) return &value;
    return nullptr;
  }
  void set(int symbol, Value value) {
    if (Value* old = find(symbol))
      *old = std::move(value);
    else
      variables.emplace_back(symbol, std::move(value));
  }
};

enum class Flow { next, break_loop, continue_loop };

class Evaluator {
 public:
  Evaluator(const Ast& ast, const std::vector<std::pair<std::string, Value>>& variables,
            std::optional<int64_t> now, size_t steps)
      : ast_(ast), run_(steps), context_(ast.symbols.size()), scope_(std::make_shared<Scope>()) {
    run_.now = now;
    for (size_t i = 0; i < ast.symbols.size(); ++i) context_[i] = find_global(ast.symbols[i]);
    for (const auto& [name, value] : variables) {
      auto symbol = ast.symbol_of.find(name);
      if (symbol != ast.symbol_of.end()) context_[static_cast<size_t>(symbol->second)] = value;
    }
  }

  Text render() {
    try {
      execute(ast_.body);
      return std::move(output_);
    } catch (Failure& failure) {
      if (!failure.located)
        failure.error.message =
            fmt::format("chat template, {}: {}", describe_position(ast_.source, at_), failure.error.message);
      throw;
    }
  }

 private:
  // A new scope, innermost while this lives.
  struct Inner {
    Inner(Evaluator& e, std::shared_ptr<Scope> parent) : evaluator(e), outer(e.scope_) {
      e.scope_ = std::make_shared<Scope>();
      e.scope_->parent = std::move(parent);
    }
    ~Inner() { evaluator.scope_ = std::move(outer); }
    Evaluator& evaluator;
    std::shared_ptr<Scope> outer;
  };

  // --- statements ---

  Flow execute(const Body& body) {
    for (const Stmt* stmt : body) {
      Flow flow = execute(*stmt);
      if (flow != Flow::next) return flow;
    }
    return Flow::next;
  }

  Flow execute(const Stmt& stmt) {
    Run::Level level(run_);
    run_.budget.spend(1);
    at_ = stmt.at;
    switch (stmt.kind) {
      case StmtKind::text:
        emit(stmt.text);
        return Flow::next;
      case StmtKind::output:
        emit(evaluate(*stmt.expr));
        return Flow::next;
      case StmtKind::branch:
        return execute_branch(stmt);
      case StmtKind::loop:
        return execute_loop(stmt);
      case StmtKind::set:
        assign(*stmt.target, evaluate(*stmt.expr));
        return Flow::next;
      case StmtKind::set_block:
      case StmtKind::filter_block:
        return execute_captured(stmt);
      case StmtKind::macro:
        scope_->set(stmt.symbol, make_macro(stmt, ast_.symbols[static_cast<size_t>(stmt.symbol)]));
        return Flow::next;
      case StmtKind::call:
        execute_call(stmt);
        return Flow::next;
      case StmtKind::with:
        return execute_with(stmt);
      case StmtKind::break_loop:
        return Flow::break_loop;
      case StmtKind::continue_loop:
        return Flow::continue_loop;
    }
    return Flow::next;
  }

  void emit(const Text& text) {
    run_.budget.spend_text(text.size());
    if (output_.size() + text.size() > kMaxTextBytes)
      fail_limit("a text of more than {} bytes", kMaxTextBytes);
    output_.append(text);
  }

  void emit(const Value& value) {
    if (value.is(Kind::text))
      emit(value.text());
    else
      emit(to_text(value, run_.budget));
  }

  Flow execute_branch(const Stmt& stmt) {
    for (const Branch& branch : stmt.branches)
      if (truthy(evaluate(*branch.test))) return execute(branch.body);
    return execute(stmt.otherwise);
  }

  std::shared_ptr<const List> loop_items(const Stmt& stmt) {
    Value source = evaluate(*stmt.expr);
    at_ = stmt.at;
    std::shared_ptr<const List> items = iterate(source, run_.budget);
    if (stmt.filter == nullptr) return items;
    std::vector<Value> kept;
    for (const Value& item : items->items) {
      Inner inner(*this, scope_);
      assign(*stmt.target, item);
      if (truthy(evaluate(*stmt.filter))) kept.push_back(item);
    }
    return make_list(std::move(kept)).shared_list();
  }

  Flow execute_loop(const Stmt& stmt) {
    std::shared_ptr<const List> items = loop_items(stmt);
    for (size_t i = 0; i < items->items.size(); ++i) {
      run_.budget.spend(1);
      Inner inner(*this, scope_);
      scope_->set(kLoopSymbol, Value(std::make_shared<const Loop>(Loop{items, i})));
      assign(*stmt.target, items->items[i]);
      if (execute(stmt.body) == Flow::break_loop) break;
    }
    return items->items.empty() ? execute(stmt.otherwise) : Flow::next;
  }

  // The output of what `body` does, instead of writing it.
  template <class Body>
  Value capture(Body body) {
    Text outer = std::exchange(output_, Text());
    body();
    std::swap(outer, output_);
    return Value(std::move(outer));
  }

  Flow execute_captured(const Stmt& stmt) {
    Flow flow = Flow::next;
    Value text = capture([&] {
      Inner inner(*this, scope_);
      flow = execute(stmt.body);
    });
    if (stmt.expr != nullptr) text = apply_filters(*stmt.expr, text);
    if (stmt.kind == StmtKind::set_block)
      assign(*stmt.target, std::move(text));
    else
      emit(text);
    return flow;
  }

  Flow execute_with(const Stmt& stmt) {
    std::vector<Value> values;  // all of them see the outer scope
    for (const auto& [target, value] : stmt.assignments) values.push_back(evaluate(*value));
    Inner inner(*this, scope_);
    for (size_t i = 0; i < values.size(); ++i) assign(*stmt.assignments[i].first, values[i]);
    return execute(stmt.body);
  }

  void assign(const Expr& target, const Value& value) {
    if (target.kind == ExprKind::name) {
      run_.budget.spend(1 + scope_->variables.size() / 16);
      scope_->set(target.symbol, value);
    } else if (target.kind == ExprKind::attribute) {
      Value object = look_up(*target.operands[0]);
      at_ = target.at;
      if (!object.is(Kind::name_space)) fail("cannot assign an attribute on a non-namespace object");
      check_attribute_name(target.name);
      run_.budget.spend(1 + object.name_space().attributes.size() / 8);
      object.name_space().set(target.name, value);
    } else {
      std::shared_ptr<const List> items = iterate(value, run_.budget);
      if (items->items.size() != target.operands.size())
        fail("cannot unpack {} values into {} names", items->items.size(), target.operands.size());
      for (size_t i = 0; i < items->items.size(); ++i) assign(*target.operands[i], items->items[i]);
    }
  }

  static void check_attribute_name(std::string_view name) {
    if (name.substr(0, 1) == "_")
      fail("a namespace cannot hold '{}': its name begins with an underscore", name);
  }

  // --- macros ---

  Value make_macro(const Stmt& stmt, std::string name) {
    std::weak_ptr<Scope> scope = scope_;
    auto call = [this, &stmt, scope, name](Run&, const Arguments& arguments) {
      std::shared_ptr<Scope> home = scope.lock();
      if (home == nullptr)
        fail("the macro '{}' is called after the end of the scope it was defined in", name);
      return call_macro(stmt, name, home, arguments);
    };
    return Value(std::make_shared<const Function>(Function{name, call}));
  }

  Value call_macro(const Stmt& stmt, const std::string& name, const std::shared_ptr<Scope>& home,
                   const Arguments& arguments) {
    Run::Level level(run_);
    Inner inner(*this, home);
    bind_arguments(stmt, name, arguments);
    return capture([&] { execute(stmt.body); });
  }

  // Into the innermost scope.
  void bind_arguments(const Stmt& stmt, const std::string& name, const Arguments& arguments) {
    const std::vector<Parameter>& parameters = stmt.parameters;
    if (arguments.positional.size() > parameters.size())
      fail("macro '{}' takes not more than {} argument(s)", name, parameters.size());
    std::vector<const Value*> given(parameters.size());
    for (size_t i = 0; i < arguments.positional.size(); ++i) given[i] = &arguments.positional[i];
    for (const auto& [key, value] : arguments.named) {
      auto it = std::find_if(parameters.begin(), parameters.end(), [&, wanted = &key](const Parameter& p) {
        return ast_.symbols[static_cast<size_t>(p.symbol)] == *wanted;
      });
      if (it != parameters.end())
        given[static_cast<size_t>(it - parameters.begin())] = &value;
      else if (key == "caller" && stmt.uses_caller)
        scope_->set(kCallerSymbol, value);
      else
        fail("macro '{}' takes no keyword argument '{}'", name, key);
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      Value value;
      if (given[i] != nullptr)
        value = *given[i];
      else if (parameters[i].default_value != nullptr)
        value = evaluate(*parameters[i].default_value);
      else
        value = Value::undefined("parameter '" + ast_.symbols[static_cast<size_t>(parameters[i].symbol)] +
                                 "' was not provided");
      scope_->set(parameters[i].symbol, std::move(value));
    }
  }

  void execute_call(const Stmt& stmt) {
    const Expr& call = *stmt.expr;
    Value function = evaluate(*call.operands[0]);
    Arguments arguments = evaluate_arguments(call);
    arguments.named.emplace_back("caller", make_macro(stmt, "caller"));
    at_ = call.at;
    emit(call_function(function, arguments));
  }

  // --- expressions ---

  Value look_up(const Expr& name) {
    for (Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
      run_.budget.spend(1 + scope->variables.size() / 16);
      if (Value* value = scope->find(name.symbol)) return *value;
    }
    const auto& value = context_[static_cast<size_t>(name.symbol)];
    if (value) return *value;
    return Value::undefined("'" + ast_.symbols[static_cast<size_t>(name.symbol)] + "' is undefined");
  }

  Value operand(const Expr& expr, size_t i) {
    return expr.operands[i] == nullptr ? Value(None{}) : evaluate(*expr.operands[i]);
  }

  Value evaluate(const Expr& expr) {
    Run::Level level(run_);
    run_.budget.spend(1);
    switch (expr.kind) {
      case ExprKind::constant:
        return expr.value;
      case ExprKind::name:
        return look_up(expr);
      case ExprKind::logical_not:
        return !truthy(operand(expr, 0));
      case ExprKind::logical_and:
      case ExprKind::logical_or: {
        Value left = operand(expr, 0);
        bool decided = truthy(left) == (expr.kind == ExprKind::logical_or);
        return decided ? left : operand(expr, 1);
      }
      case ExprKind::conditional:
        return evaluate_conditional(expr);
      case ExprKind::list:
      case ExprKind::tuple:
        return make_list(evaluate_all(expr, 0), expr.kind == ExprKind::tuple);
      case ExprKind::dict:
        return evaluate_dict(expr);
      case ExprKind::compare:
        return evaluate_compare(expr);
      case ExprKind::concat:
        return evaluate_concat(expr);
      case ExprKind::call:
        return evaluate_call(expr);
      case ExprKind::filter:
        return apply_filters(expr, Value());
      case ExprKind::test:
        return evaluate_test(expr);
      default:
        return evaluate_operator(expr);
    }
  }

  Value evaluate_operator(const Expr& expr) {
    Value a = operand(expr, 0);
    switch (expr.kind) {
      case ExprKind::attribute:
        at_ = expr.at;
        return get_attribute(a, expr.name, run_.budget);
      case ExprKind::negate:
        at_ = expr.at;
        return negate(a);
      case ExprKind::plus:
        at_ = expr.at;
        if (!a.numeric()) negate(a);  // for its error
        return a.is(Kind::boolean) ? Value(a.integer()) : a;
      case ExprKind::item: {
        Value key = operand(expr, 1);
        at_ = expr.at;
        return get_item(a, key, run_.budget);
      }
      case ExprKind::slice: {
        Value start = operand(expr, 1), stop = operand(expr, 2), step = operand(expr, 3);
        at_ = expr.at;
        return get_slice(a, start, stop, step, run_.budget);
      }
      default: {
        Value b = operand(expr, 1);
        at_ = expr.at;
        return binary(expr.ops[0], a, b, run_.budget);
      }
    }
  }

  std::vector<Value> evaluate_all(const Expr& expr, size_t first) {
    std::vector<Value> values;
    values.reserve(expr.operands.size() - first);
    for (size_t i = first; i < expr.operands.size(); ++i) values.push_back(evaluate(*expr.operands[i]));
    return values;
  }

  Value evaluate_conditional(const Expr& expr) {
    if (truthy(operand(expr, 1))) return operand(expr, 0);
    if (expr.operands[2] != nullptr) return operand(expr, 2);
    return Value::undefined("the inline if-expression evaluated to false and no else section was defined");
  }

  Value evaluate_dict(const Expr& expr) {
    std::vector<std::pair<Value, Value>> items;
    for (size_t i = 0; i < expr.operands.size(); i += 2) {
      Value key = operand(expr, i);
      items.emplace_back(std::move(key), operand(expr, i + 1));
    }
    at_ = expr.at;
    return make_dict(std::move(items));
  }

  Value evaluate_compare(const Expr& expr) {
    Value left = operand(expr, 0);
    for (size_t i = 0; i < expr.ops.size(); ++i) {
      Value right = operand(expr, i + 1);
      at_ = expr.at;
      if (!compare(expr.ops[i], left, right, run_.budget)) return false;
      left = std::move(right);
    }
    return true;
  }

  Value evaluate_concat(const Expr& expr) {
    Text out;
    for (const Expr* part : expr.operands) {
      Value value = evaluate(*part);
      at_ = expr.at;
      Text text = to_text(value, run_.budget);
      run_.budget.spend_text(out.size() + text.size());
      out.append(text);
    }
    return out;
  }

  Arguments evaluate_arguments(const Expr& call) {
    Arguments arguments;
    arguments.positional = evaluate_all(call, 1);
    for (const auto& [name, value] : call.named) {
      for (const auto& earlier : arguments.named)
        if (earlier.first == name) fail("the keyword argument '{}' is given twice", name);
      arguments.named.emplace_back(name, evaluate(*value));
    }
    return arguments;
  }

  Value call_function(const Value& function, const Arguments& arguments) {
    if (function.is(Kind::undefined)) fail("{}", function.why());
    if (!function.is(Kind::function)) fail("'{}' object is not callable", type_name(function));
    return function.function().call(run_, arguments);
  }

  Value evaluate_call(const Expr& expr) {
    Value function = operand(expr, 0);
    Arguments arguments = evaluate_arguments(expr);
    at_ = expr.at;
    return call_function(function, arguments);
  }

  Value evaluate_test(const Expr& expr) {
    Value subject = operand(expr, 0);
    Arguments arguments = evaluate_arguments(expr);
    at_ = expr.at;
    if (expr.test == nullptr) fail("there is no test named '{}'", expr.name);
    return expr.test(run_, subject, arguments);
  }

  // A chain of filters over `input`, which stands where the chain's innermost operand is missing.
  Value apply_filters(const Expr& expr, const Value& input) {
    const Expr* inner = expr.operands[0];
    Value subject = inner == nullptr                  ? input
                    : inner->kind == ExprKind::filter ? apply_nested(*inner, input)
                                                      : evaluate(*inner);
    Arguments arguments = evaluate_arguments(expr);
    at_ = expr.at;
    if (expr.filter == nullptr) fail("there is no filter named '{}'", expr.name);
    return expr.filter(run_, subject, arguments);
  }

  Value apply_nested(const Expr& expr, const Value& input) {
    Run::Level level(run_);
    run_.budget.spend(1);
    return apply_filters(expr, input);
  }

  const Ast& ast_;
  Run run_;
  std::vector<std::optional<Value>> context_;  // by symbol: variables of the caller, and globals
  std::shared_ptr<Scope> scope_;
  Text output_;
  uint32_t at_ = 0;  // where in the source an error would be
};

}  // namespace

Text evaluate(const Ast& ast, const std::vector<std::pair<std::string, Value>>& variables,
              std::optional<int64_t> now, size_t steps) {
  return Evaluator(ast, variables, now, steps).render();
}

}  // namespace anabranch::jinja
