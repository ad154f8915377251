// The state of one run of a template (budget, clock, namespaces), and how functions read their arguments.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <vector>

#include "jinja/ast.h"

namespace anabranch::jinja {

class Run {
 public:
  explicit Run(size_t steps) : budget(steps) {}

  // Counts one level of recursion while it lives; fails beyond kMaxRunDepth levels.
  struct Level {
    explicit Level(Run& r) : run(r) {
      if (++r.depth_ > kMaxRunDepth) fail_limit("nested deeper than {} levels", kMaxRunDepth);
    }
    ~Level() { --run.depth_; }
    Run& run;
  };

  Budget budget;
  std::optional<int64_t> now;  // seconds since 1970 for strftime_now; if unset, the system's clock
  std::vector<std::unique_ptr<Namespace>> namespaces;

 private:
  int depth_ = 0;
};

// Matches arguments to parameter names by Python's rules.
class Parameters {
 public:
  // Fails if a name is unknown or given twice, or if one of the first `required` parameters is missing.
  Parameters(std::string_view function, const Arguments& arguments,
             std::initializer_list<std::string_view> names, size_t required = 0);

  bool has(size_t i) const { return values_[i] != nullptr; }
  const Value& operator[](size_t i) const { return *values_[i]; }
  // The default if the argument is absent or None; fails on other types.
  Int integer(size_t i, Int otherwise) const;
  bool flag(size_t i, bool otherwise) const;
  // The argument converted by str(); the default if it is absent.
  Text text(size_t i, std::string_view otherwise, Budget& budget) const;

 private:
  std::string_view function_;
  std::vector<const Value*> values_;
};

// The output of the whole template. Throws Failure.
Text evaluate(const Ast& ast, const std::vector<std::pair<std::string, Value>>& variables,
              std::optional<int64_t> now, size_t steps = kMaxSteps);

}  // namespace anabranch::jinja
