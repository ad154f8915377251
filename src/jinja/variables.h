// The variables that a template sees while it runs.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jinja/ast.h"

namespace anabranch::jinja {

// The variables of one loop iteration, macro call or block. The running evaluation owns it. A macro refers to
// its defining scope weakly: otherwise scope and macro would keep each other alive.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<int, Value>> variables;  // by symbol

  Value* find(int symbol);
  void set(int symbol, Value value);
};

class Variables {
 public:
  // `given`: variables that the caller of the template sets; they hide globals of the same name. `ast` must
  // outlive this object.
  Variables(const Ast& ast, const std::vector<std::pair<std::string, Value>>& given);

  // Makes a new scope the innermost one while it lives.
  struct Inner {
    Inner(Variables& v, std::shared_ptr<Scope> parent);
    explicit Inner(Variables& v) : Inner(v, v.scope_) {}
    ~Inner() { variables.scope_ = std::move(outer); }
    Variables& variables;
    std::shared_ptr<Scope> outer;
  };

  const std::shared_ptr<Scope>& innermost() const { return scope_; }
  // The value in the nearest scope that has the symbol, else the given or global one, else undefined.
  Value look_up(int symbol, Budget& budget) const;

 private:
  const Ast& ast_;
  std::vector<std::optional<Value>> context_;  // given variables and globals, by symbol
  std::shared_ptr<Scope> scope_;
};

}  // namespace anabranch::jinja
