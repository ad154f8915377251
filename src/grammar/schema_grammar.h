// JSON schemas as grammars: what is written always satisfies the schema. Keywords that a grammar cannot hold
// the model to are refused by name and place, never left out.
//
// Of what satisfies the schema, this is written: properties in the schema's order, others only where
// additionalProperties says so; numbers of at most 18 digits; a space or a new line with at most 16 spaces
// between parts.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "grammar/grammar_rules.h"

namespace anabranch {

// Adds what a value of the schema is written as; gives the element that stands for it in other rules. Errors:
// invalid (no schema; nothing satisfies it), unsupported (a keyword that cannot be kept), exhausted (too
// large). Each names the place as a JSON pointer, with `where` before it.
Result<std::string> add_schema(const Json& schema, GrammarRules& rules, const std::string& where = "#");
// Any JSON object.
std::string add_any_object(GrammarRules& rules);
// What may stand between tags: any text without a closing one.
Result<std::string> text_to_tag(GrammarRules& rules);
// An object as Qwen's calls have it: <parameter=NAME>\n...\n</parameter>\n for each property, strings bare.
Result<std::string> add_parameters(const Json& schema, GrammarRules& rules, const std::string& where = "#");

}  // namespace anabranch
