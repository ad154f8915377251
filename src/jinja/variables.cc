#include "jinja/variables.h"

#include "jinja/library.h"

namespace anabranch::jinja {

Value* Scope::find(int symbol) {
  for (auto& [key, value] : variables)
    if (key == symbol) return &value;
  return nullptr;
}

void Scope::set(int symbol, Value value) {
  if (Value* old = find(symbol))
    *old = std::move(value);
  else
    variables.emplace_back(symbol, std::move(value));
}

Variables::Variables(const Ast& ast, const std::vector<std::pair<std::string, Value>>& given)
    : ast_(ast), context_(ast.symbols.size()), scope_(std::make_shared<Scope>()) {
  for (size_t i = 0; i < ast.symbols.size(); ++i) context_[i] = find_global(ast.symbols[i]);
  for (const auto& [name, value] : given) {
    auto symbol = ast.symbol_of.find(name);
    if (symbol != ast.symbol_of.end()) context_[static_cast<size_t>(symbol->second)] = value;
  }
}

Variables::Inner::Inner(Variables& v, std::shared_ptr<Scope> parent) : variables(v), outer(v.scope_) {
  v.scope_ = std::make_shared<Scope>();
  v.scope_->parent = std::move(parent);
}

Value Variables::look_up(int symbol, Budget& budget) const {
  for (Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get()) {
    budget.spend(1 + scope->variables.size() / 16);
    if (Value* value = scope->find(symbol)) return *value;
  }
  const auto& value = context_[static_cast<size_t>(symbol)];
  if (value) return *value;
  return Value::undefined("'" + ast_.symbols[static_cast<size_t>(symbol)] + "' is undefined");
}

}  // namespace anabranch::jinja
