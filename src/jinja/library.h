// Finds the filters, tests, methods and functions of the template language by name.
#pragma once

#include <optional>
#include <string_view>

#include "jinja/ast.h"

namespace anabranch::jinja {

Filter find_filter(std::string_view name);  // nullptr if there is none
Test find_test(std::string_view name);

// range, namespace, dict, raise_exception, strftime_now.
std::optional<Value> find_global(std::string_view name);

// A bound method of a str, dict or list. As in Jinja's sandbox, calling a method that would change a list or
// dict is an error.
std::optional<Value> find_method(const Value& object, std::string_view name);
std::optional<Value> find_text_method(const Value& object, std::string_view name);

}  // namespace anabranch::jinja
