// What a request says of its answer's form (response_format, a grammar, tool_choice, strict tools), as the
// text of a grammar.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "output/output_format.h"
#include "server/api/json_fields.h"
#include "tokenizer/tokenizer.h"

namespace anabranch::server {

struct AnswerForm {
  enum class Kind { text, json, schema, grammar, regex, choice };
  Kind kind = Kind::text;
  Json schema;          // choice: an array of strings
  std::string grammar;  // regex: the pattern
  std::string field;    // of the request, for errors
};

struct ToolChoice {
  enum class Kind { automatic, none, required, named };
  Kind kind = Kind::automatic;
  std::string name;  // if named
};

// "response_format", Anthropic's "output_config.format" and "output_format", and what other servers call it:
// at most one of them. Constraints that cannot be kept are refused by name.
AnswerForm read_answer_form(JsonFields& fields);
// OpenAI's.
ToolChoice read_tool_choice(JsonFields& fields);
// Fails where a choice needs a tool that is not offered. tools: OpenAI's array, or null.
void check_tool_choice(JsonFields& fields, const ToolChoice& choice, const Json& tools);

// Whether the answer is bound to a form at all.
bool wants_form(const AnswerForm& form, const ToolChoice& choice, const Json& tools);

struct FormContext {
  const text::OutputFormat& format;
  const text::Tokenizer& tokenizer;
  const Json& tools;  // array, or null
  bool several_calls = true;
};
struct FormGrammar {
  std::string text;   // empty: the answer is free
  std::string field;  // that asked for it
};
// Errors: as of text::add_schema and add_calls; `field` of what is wrong is in `field`.
Result<FormGrammar> form_grammar(const AnswerForm& form, const ToolChoice& choice, const FormContext& context,
                                 std::string& field);

}  // namespace anabranch::server
