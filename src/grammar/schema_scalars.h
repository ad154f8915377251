// Numbers, strings and constants of JSON schemas as rules of a grammar. Each function returns the element
// that stands for the values in other rules; it is "" if no value satisfies the schema. `flat` comes from
// SchemaDocument::flatten, `where` is its JSON pointer.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "grammar/automaton.h"
#include "grammar/grammar_rules.h"
#include "grammar/schema_keywords.h"

namespace anabranch {

Result<std::string> add_integer(const Json& flat, const std::string& where, GrammarRules& rules);
Result<std::string> add_number(const Json& flat, const std::string& where, GrammarRules& rules);
// plain: the element for a string without any limits.
Result<std::string> add_string(const Json& flat, const std::string& where, StringSyntax syntax,
                               const std::string& plain, GrammarRules& rules);
// How strings are written without quotes: the types as which a reader may interpret such text, and the tag
// that ends it.
struct BareText {
  const TypeSet& types;
  std::string_view tag;
};
// The values of enum and const that satisfy the other keywords. bare: null for JSON.
Result<std::string> add_constants(const Json& flat, const Json& values, const std::string& where,
                                  const BareText* bare, GrammarRules& rules);

}  // namespace anabranch
