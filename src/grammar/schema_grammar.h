// JSON schemas as grammars. Every text of the grammar satisfies the schema. A keyword that a grammar cannot
// enforce is an error with its name and place, unless the caller wants to keep what is possible.
//
// The grammar leaves out some texts that satisfy the schema: properties come in the schema's order; others
// are written only if the schema mentions them (additionalProperties, patternProperties) or names no
// properties; numbers have at most 18 digits; two parts are separated by nothing, by one space, or by a new
// line and at most 16 spaces.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "grammar/grammar_rules.h"
#include "grammar/schema_keywords.h"

namespace anabranch {

// What ends a name in Python's notation; no name of a call or of its arguments has one of these.
inline constexpr std::string_view kEndsPythonName = "()[]{}\"'=,;<> \t\r\n";

// Adds rules for the values of the schema; returns the element that stands for them in other rules. Errors:
// invalid (it is not a schema, or nothing satisfies it), unsupported (a keyword cannot be enforced),
// exhausted (it is too large). The message names the place as a JSON pointer that begins with `where`.
// keep: whether keywords that cannot be enforced are left out instead; then a text may violate them.
Result<std::string> add_schema(const Json& schema, GrammarRules& rules, const std::string& where = "#",
                               Keep keep = Keep::all);
// Any JSON object.
std::string add_any_object(GrammarRules& rules);
// How a format writes a parameter of a call: open NAME name_end VALUE close, each the text of an element.
// Strings have no quotes.
struct ParameterTags {
  std::string open, name_end, close;
  std::string tag;            // the closing tag, which ends a value for a reader
  bool lines = false;         // only on a line of its own
  std::string text_end = "";  // instead of name_end before a value that is a string; empty: no other
};
// Qwen's: <parameter=NAME>\n...\n</parameter>\n
ParameterTags function_tags();
// The text of a parameter between its tags: any text without its closing tag, or, if `lines`, without a line
// that is it (output/parameter_value.h).
Result<std::string> text_to_tag(const ParameterTags& tags, GrammarRules& rules);
// The parameters of a call, in the schema's order.
Result<std::string> add_parameters(const Json& schema, const ParameterTags& tags, GrammarRules& rules,
                                   const std::string& where = "#", Keep keep = Keep::all);
// The arguments of a call in Python's notation, in the schema's order: (NAME=VALUE, ...), with JSON's values.
Result<std::string> add_keyword_arguments(const Json& schema, GrammarRules& rules,
                                          const std::string& where = "#", Keep keep = Keep::all);
// The same for any names and values.
std::string add_any_keyword_arguments(GrammarRules& rules);

}  // namespace anabranch
