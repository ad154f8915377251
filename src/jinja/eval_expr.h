// The values of expressions; eval.cc executes the statements. All functions throw Failure.
#pragma once

#include "jinja/run.h"
#include "jinja/variables.h"

namespace anabranch::jinja {

// One template while it runs.
struct EvalState {
  Run run;
  Variables variables;
  uint32_t at = 0;  // byte offset in the source to which an error refers
};

Value evaluate(EvalState& e, const Expr& expr);
// The arguments of a call, filter or test.
Arguments evaluate_arguments(EvalState& e, const Expr& call);
Value call_function(EvalState& e, const Value& function, const Arguments& arguments);
// The filter `expr`. `input` takes the place of a missing operand at the start of a chain of filters.
Value apply_filters(EvalState& e, const Expr& expr, const Value& input);

}  // namespace anabranch::jinja
