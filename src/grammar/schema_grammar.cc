#include "grammar/schema_grammar.h"

#include <fmt/format.h>

#include "grammar/automaton.h"
#include "grammar/json_rules.h"
#include "grammar/schema_writer.h"

namespace anabranch {

Result<std::string> add_schema(const Json& schema, GrammarRules& rules, const std::string& where, Keep keep) {
  return SchemaWriter(schema, rules, where, keep).whole();
}

std::string add_any_object(GrammarRules& rules) {
  return add_any("object", rules);
}

Result<std::string> add_parameters(const Json& schema, const ParameterTags& tags, GrammarRules& rules,
                                   const std::string& where, Keep keep) {
  return SchemaWriter(schema, rules, where, keep).parameters(tags);
}

ParameterTags function_tags() {
  return {"\"<parameter=\"", "\">\\n\"", "\"\\n</parameter>\\n\"", "</parameter>", true};
}

Result<std::string> text_to_tag(const ParameterTags& tags, GrammarRules& rules) {
  const std::string key = "text to " + tags.tag;
  if (const std::string* known = rules.find(key)) return *known;
  WorkBudget own;  // the same work for every grammar, so it is not charged
  TRY(const Automaton text,
      text_without(tags.lines ? fmt::format(R"(^{0}\n|^{0}$|\n{0}\n|\n{0}$)", tags.tag) : tags.tag, own));
  const std::string element = add_automaton(text, StringSyntax::plain, "text", rules);
  rules.remember(key, element);
  return element;
}

}  // namespace anabranch
