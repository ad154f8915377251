#include <algorithm>

#include "jinja/eval_expr.h"
#include "jinja/lexer.h"
#include "jinja/run.h"

namespace anabranch::jinja {
namespace {

enum class Flow { next, break_loop, continue_loop };

// Executes the statements of one template, once.
class Evaluator {
 public:
  Evaluator(const Ast& ast, const std::vector<std::pair<std::string, Value>>& variables,
            std::optional<int64_t> now, size_t steps)
      : ast_(ast), state_{Run(steps), Variables(ast, variables)} {
    state_.run.now = now;
  }

  Text render() {
    try {
      execute(ast_.body);
      return std::move(output_);
    } catch (Failure& failure) {
      if (!failure.located)
        failure.error.message = fmt::format("chat template, {}: {}",
                                            describe_position(ast_.source, state_.at), failure.error.message);
      throw;
    }
  }

 private:
  Flow execute(const Body& body) {
    for (const Stmt* stmt : body) {
      Flow flow = execute(*stmt);
      if (flow != Flow::next) return flow;
    }
    return Flow::next;
  }

  Flow execute(const Stmt& stmt) {
    Run::Level level(state_.run);
    state_.run.budget.spend(1);
    state_.at = stmt.at;
    switch (stmt.kind) {
      case StmtKind::text:
        emit(stmt.text);
        return Flow::next;
      case StmtKind::output:
        emit(evaluate(state_, *stmt.expr));
        return Flow::next;
      case StmtKind::branch:
        return execute_branch(stmt);
      case StmtKind::loop:
        return execute_loop(stmt);
      case StmtKind::set:
        assign(*stmt.target, evaluate(state_, *stmt.expr));
        return Flow::next;
      case StmtKind::set_block:
      case StmtKind::filter_block:
        return execute_captured(stmt);
      case StmtKind::macro:
        state_.variables.innermost()->set(stmt.symbol,
                                          make_macro(stmt, ast_.symbols[static_cast<size_t>(stmt.symbol)]));
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
    state_.run.budget.spend_text(text.size());
    if (output_.size() + text.size() > kMaxTextBytes)
      fail_limit("a text of more than {} bytes", kMaxTextBytes);
    output_.append(text);
  }

  void emit(const Value& value) {
    if (value.is(Kind::text))
      emit(value.text());
    else
      emit(to_text(value, state_.run.budget));
  }

  Flow execute_branch(const Stmt& stmt) {
    for (const Branch& branch : stmt.branches)
      if (truthy(evaluate(state_, *branch.test))) return execute(branch.body);
    return execute(stmt.otherwise);
  }

  std::shared_ptr<const List> loop_items(const Stmt& stmt) {
    Value source = evaluate(state_, *stmt.expr);
    state_.at = stmt.at;
    std::shared_ptr<const List> items = iterate(source, state_.run.budget);
    if (stmt.filter == nullptr) return items;
    std::vector<Value> kept;
    for (const Value& item : items->items) {
      Variables::Inner inner(state_.variables);
      assign(*stmt.target, item);
      if (truthy(evaluate(state_, *stmt.filter))) kept.push_back(item);
    }
    return make_list(std::move(kept)).shared_list();
  }

  Flow execute_loop(const Stmt& stmt) {
    std::shared_ptr<const List> items = loop_items(stmt);
    for (size_t i = 0; i < items->items.size(); ++i) {
      state_.run.budget.spend(1);
      Variables::Inner inner(state_.variables);
      state_.variables.innermost()->set(kLoopSymbol, Value(std::make_shared<const Loop>(Loop{items, i})));
      assign(*stmt.target, items->items[i]);
      if (execute(stmt.body) == Flow::break_loop) break;
    }
    return items->items.empty() ? execute(stmt.otherwise) : Flow::next;
  }

  // Returns what `body` writes, instead of adding it to the output.
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
      Variables::Inner inner(state_.variables);
      flow = execute(stmt.body);
    });
    if (stmt.expr != nullptr) text = apply_filters(state_, *stmt.expr, text);
    if (stmt.kind == StmtKind::set_block)
      assign(*stmt.target, std::move(text));
    else
      emit(text);
    return flow;
  }

  Flow execute_with(const Stmt& stmt) {
    std::vector<Value> values;  // evaluated in the outer scope
    for (const auto& [target, value] : stmt.assignments) values.push_back(evaluate(state_, *value));
    Variables::Inner inner(state_.variables);
    for (size_t i = 0; i < values.size(); ++i) assign(*stmt.assignments[i].first, values[i]);
    return execute(stmt.body);
  }

  void assign(const Expr& target, const Value& value) {
    if (target.kind == ExprKind::name) {
      state_.run.budget.spend(1 + state_.variables.innermost()->variables.size() / 16);
      state_.variables.innermost()->set(target.symbol, value);
    } else if (target.kind == ExprKind::attribute) {
      Value object = state_.variables.look_up(target.operands[0]->symbol, state_.run.budget);
      state_.at = target.at;
      if (!object.is(Kind::name_space)) fail("cannot assign an attribute on a non-namespace object");
      check_attribute_name(target.name);
      state_.run.budget.spend(1 + object.name_space().attributes.size() / 8);
      object.name_space().set(target.name, value);
    } else {
      std::shared_ptr<const List> items = iterate(value, state_.run.budget);
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
    std::weak_ptr<Scope> scope = state_.variables.innermost();
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
    Run::Level level(state_.run);
    Variables::Inner inner(state_.variables, home);
    bind_arguments(stmt, name, arguments);
    return capture([&] { execute(stmt.body); });
  }

  // Sets the parameters in the innermost scope.
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
        state_.variables.innermost()->set(kCallerSymbol, value);
      else
        fail("macro '{}' takes no keyword argument '{}'", name, key);
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      Value value;
      if (given[i] != nullptr)
        value = *given[i];
      else if (parameters[i].default_value != nullptr)
        value = evaluate(state_, *parameters[i].default_value);
      else
        value = Value::undefined("parameter '" + ast_.symbols[static_cast<size_t>(parameters[i].symbol)] +
                                 "' was not provided");
      state_.variables.innermost()->set(parameters[i].symbol, std::move(value));
    }
  }

  void execute_call(const Stmt& stmt) {
    const Expr& call = *stmt.expr;
    Value function = evaluate(state_, *call.operands[0]);
    Arguments arguments = evaluate_arguments(state_, call);
    arguments.named.emplace_back("caller", make_macro(stmt, "caller"));
    state_.at = call.at;
    emit(call_function(state_, function, arguments));
  }

  const Ast& ast_;
  EvalState state_;
  Text output_;
};

}  // namespace

Text evaluate(const Ast& ast, const std::vector<std::pair<std::string, Value>>& variables,
              std::optional<int64_t> now, size_t steps) {
  return Evaluator(ast, variables, now, steps).render();
}

}  // namespace anabranch::jinja
