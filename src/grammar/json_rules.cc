#include "grammar/json_rules.h"

#include <fmt/format.h>

#include "grammar/automaton.h"
#include "grammar/number_grammar.h"

namespace anabranch {

std::string add_space(GrammarRules& rules) {
  return rules.add("space", "\"\" | \" \" | \"\\n\" [ ]{0,16}");
}

std::string add_any_string(GrammarRules& rules) {
  return add_automaton(any_text(), StringSyntax::quoted, "string", rules);
}

std::string add_any(const std::string& name, GrammarRules& rules) {
  const std::string object = "any-object", array = "any-array", all = "any-value";
  if (rules.has(all)) return "any-" + name;
  const std::string s = add_space(rules), text = add_any_string(rules);
  WorkBudget own;  // the same work for every grammar, so it is not charged
  const std::string number =
      add_automaton(*compile_regex(*number_regex({}), own, true), StringSyntax::bare, "number", rules);
  rules.define(
      all, fmt::format("{} | {} | \"true\" | \"false\" | \"null\" | {} | {}", text, number, object, array));
  rules.define(object, fmt::format("\"{{\" {} (\"}}\" | any-pair)", s));
  rules.define("any-pair",
               fmt::format("{0} {1} \":\" {1} {2} {1} (\"}}\" | \",\" {1} any-pair)", text, s, all));
  rules.define(array, fmt::format("\"[\" {} (\"]\" | any-item)", s));
  rules.define("any-item", fmt::format("{0} {1} (\"]\" | \",\" {1} any-item)", all, s));
  return "any-" + name;
}

}  // namespace anabranch
