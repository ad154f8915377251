// Any bytes as a JSON schema or a pattern: a grammar or an error, in little time.
#include <cstdint>

#include "base/json.h"
#include "grammar/automaton.h"
#include "grammar/schema_grammar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace anabranch;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  WorkBudget work;
  if (const auto automaton = compile_regex(text, work); automaton.ok()) {
    GrammarRules rules;
    add_automaton(*automaton, StringSyntax::quoted, "x", rules);
  }
  const auto schema = parse_json(text);
  if (!schema.ok()) return 0;
  for (const bool call : {false, true}) {
    GrammarRules rules;
    const auto element = call ? add_parameters(*schema, function_tags(), rules) : add_schema(*schema, rules);
    CHECK(!element.ok() || !element->empty());
    if (element.ok()) rules.text(*element);
  }
  return 0;
}
