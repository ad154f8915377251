// A model's tool calls as a grammar: in the format of the model's template, for the tools of the request,
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
  bool several = false;  // several calls, one after another
  // Arguments satisfy the schemas of all tools, as far as a grammar can keep those of tools that are not
  // strict; otherwise only of tools with "strict": true.
  bool forced = false;
};

// Adds the rules for calls; returns the element for one or more calls. tools: OpenAI's array. Errors: for a
// strict tool those of add_schema (invalid, unsupported), with the tool's name; unsupported (no rules exist
// for the model's format, or it has no format for calls).
Result<std::string> add_calls(const OutputFormat& format, const Tokenizer& tokenizer, const Json& tools,
                              const CallWishes& wishes, GrammarRules& rules);

// The element for an answer that may stand where a call may: behind its header, if the format has messages.
std::string answer_beside_calls(const OutputFormat& format, const Tokenizer& tokenizer,
                                const std::string& answer, GrammarRules& rules);

// Free text, with calls wherever the model opens one. Arguments satisfy the schema if the tool has "strict":
// true; for other tools any are allowed. Errors: those of add_calls; unsupported unless calls are tagged or
// messages.
Result<std::string> add_free_text_with_calls(const OutputFormat& format, const Tokenizer& tokenizer,
                                             const Json& tools, GrammarRules& rules);

}  // namespace anabranch
