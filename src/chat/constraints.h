// Builds the text of a grammar from everything that restricts an answer (response_format, a grammar,
// tool_choice, strict tools).
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "output/output_format.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

struct ResponseFormat {
  enum class Kind { text, json, schema, grammar, regex, choice };
  Kind kind = Kind::text;
  Json schema;          // choice: an array of strings
  std::string grammar;  // regex: the pattern
  std::string field;    // the request's field, for errors
  // schema: false: keywords that a grammar cannot express are ignored.
  bool strict = true;
};

struct ToolChoice {
  enum class Kind { automatic, none, required, named };
  Kind kind = Kind::automatic;
  std::string name;  // the tool's name, for a named choice
};

// Whether anything restricts the answer.
bool is_constrained(const ResponseFormat& format, const ToolChoice& choice, const Json& tools);

struct ConstraintContext {
  const OutputFormat& format;
  const Tokenizer& tokenizer;
  const Json& tools;  // array, or null
  bool several_calls = true;
};
struct ConstraintGrammar {
  std::string text;   // empty: nothing restricts the answer
  std::string field;  // the request's field that asked for it
};
// Errors: see add_schema and add_calls; `field` is then the request's field at fault.
Result<ConstraintGrammar> constraint_grammar(const ResponseFormat& format, const ToolChoice& choice,
                                             const ConstraintContext& context, std::string& field);

}  // namespace anabranch
