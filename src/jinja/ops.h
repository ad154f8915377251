// The operators of the template language, with Python's meaning. They fail on operands of unsupported types.
#pragma once

#include <string_view>

#include "jinja/ast.h"

namespace anabranch::jinja {

Value binary(Op op, const Value& a, const Value& b, Budget& budget);
bool compare(Op op, const Value& a, const Value& b, Budget& budget);
bool contains(const Value& container, const Value& item, Budget& budget);
Value negate(const Value& v);

// object.name looks for a method first, then for an item; object[key] for an item first. Undefined if there
// is neither.
Value get_attribute(const Value& object, std::string_view name, Budget& budget);
Value get_item(const Value& object, const Value& key, Budget& budget);
// object[start:stop:step]; a bound that is None or undefined counts as absent.
Value get_slice(const Value& object, const Value& start, const Value& stop, const Value& step,
                Budget& budget);

// "%s and %d" % values. Supports %s %r %d %i %f %% and a precision, as in %.2f.
Value format_percent(const Text& format, const std::vector<Value>& values, Budget& budget);

}  // namespace anabranch::jinja
