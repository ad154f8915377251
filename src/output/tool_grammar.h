// A model's tool calls as a grammar: in the form that its template taught it, of the tools that are there,
// with arguments that satisfy their schemas.
#pragma once

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "grammar/grammar_rules.h"
#include "output/output_format.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

struct CallWishes {
  std::string only;      // the one tool that may be called; empty: any
  bool several = false;  // calls one after another
  bool forced = false;   // arguments satisfy the schemas of all tools; else of those with "strict": true
};

// Adds what calls are written as; gives the element for one or more. tools: OpenAI's array. Errors: invalid
// and unsupported, as of add_schema, with the tool's name; unsupported (the model's form is not built, or it
// has none).
Result<std::string> add_calls(const OutputFormat& format, const Tokenizer& tokenizer, const Json& tools,
                              const CallWishes& wishes, GrammarRules& rules);

// Free text and, wherever the model opens one, calls: of tools with "strict": true, arguments that satisfy
// their schemas, of others any. Errors: as of add_calls; unsupported unless calls are tagged.
Result<std::string> add_free_text_with_calls(const OutputFormat& format, const Tokenizer& tokenizer,
                                             const Json& tools, GrammarRules& rules);

}  // namespace anabranch
