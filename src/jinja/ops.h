// The operators of the template language, with Python's meaning. All fail on types they do not take.
#pragma once

#include <string_view>

#include "jinja/ast.h"

namespace anabranch::jinja {

Value binary(Op op, const Value& a, const Value& b, Budget& budget);
bool compare(Op op, const Value& a, const Value& b, Budget& budget);
bool contains(const Value& container, const Value& item, Budget& budget);
Value negate(const Value& v);

// object.name: a method first, then an item. object[key]: an item first. Undefined when there is neither.
Value get_attribute(const Value& object, std::string_view name, Budget& budget);
Value get_item(const Value& object, const Value& key, Budget& budget);
// object[start:stop:step]; None and undefined bounds are open.
Value get_slice(const Value& object, const Value& start, const Value& stop, const Value& step,
                Budget& budget);

// "%s and %d" % values, for %s %r %d %i %f %.2f %%.
Value format_percent(const Text& format, const std::vector<Value>& values, Budget& budget);

}  // namespace anabranch::jinja
