#include "chat/constraints.h"

#include <algorithm>
#include <cctype>

#include "grammar/automaton.h"
#include "grammar/schema_grammar.h"
#include "output/tool_grammar.h"

namespace anabranch {
namespace {

bool is_strict(const Json& tool) {
  const auto it = tool["function"].find("strict");
  return it != tool["function"].end() && *it == true;
}

// Whether a grammar uses one of the library's macros that take a pattern: deeply nested, such a pattern
// overflows the stack.
bool has_pattern_macro(std::string_view grammar) {
  const auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  };
  char quote = 0;  // the character that ends the current literal or class; 0: outside
  std::string word;
  for (size_t i = 0; i < grammar.size(); i++) {
    const char c = grammar[i];
    if (quote) {
      if (c == '\\')
        i++;
      else if (c == quote)
        quote = 0;
    } else if (c == '#') {
      i = std::min(grammar.find('\n', i), grammar.size() - 1);
    } else if (c == '(' && (word == "Regex" || word == "Substring")) {
      return true;
    } else if (c == '"' || c == '[') {
      quote = c == '[' ? ']' : c;
      word.clear();
    } else if (in_word(c)) {
      const bool goes_on = i > 0 && in_word(grammar[i - 1]);
      if (!goes_on) word.clear();
      word += c;
    } else if (!std::isspace(static_cast<unsigned char>(c))) {
      word.clear();
    }
  }
  return false;
}

// Whether a grammar may have an option that only our own grammars use (grammar/counted_group.h).
bool has_own_option(std::string_view grammar) {
  constexpr std::string_view kOption = "capture";
  for (size_t at = grammar.find(kOption); at != grammar.npos; at = grammar.find(kOption, at + 1)) {
    const size_t value = grammar.find_first_not_of(" \t\r\n=\"", at + kOption.size());
    if (value != grammar.npos && grammar[value] == '#') return true;
  }
  return false;
}

std::string add_choice(const Json& choices, GrammarRules& rules) {
  std::string any;
  for (const Json& choice : choices)
    any += (any.empty() ? "" : " | ") + literal(choice.get_ref<const std::string&>());
  return rules.add("choice", any);
}

// Adds a rule for an answer that matches the pattern as a whole.
Result<std::string> add_whole(const std::string& pattern, GrammarRules& rules) {
  TRY(std::string element, add_regex(pattern, true, {}, StringSyntax::plain, "regex", rules));
  if (element.empty()) return make_error(ErrorKind::invalid, "no text matches the pattern");
  return element;
}

}  // namespace

bool is_constrained(const ResponseFormat& format, const ToolChoice& choice, const Json& tools) {
  return format.kind != ResponseFormat::Kind::text || choice.kind == ToolChoice::Kind::required ||
         choice.kind == ToolChoice::Kind::named ||
         (tools.is_array() && std::any_of(tools.begin(), tools.end(), is_strict));
}

Result<ConstraintGrammar> constraint_grammar(const ResponseFormat& format, const ToolChoice& choice,
                                             const ConstraintContext& context, std::string& field) {
  const bool offered = context.tools.is_array() && !context.tools.empty();
  const bool forced = choice.kind == ToolChoice::Kind::required || choice.kind == ToolChoice::Kind::named;
  field = format.field;
  if (format.kind == ResponseFormat::Kind::grammar) {
    if (has_pattern_macro(format.grammar))
      return make_error(ErrorKind::unsupported, "Regex and Substring are not supported in grammars");
    if (has_own_option(format.grammar))
      return make_error(ErrorKind::unsupported, "names of captures cannot begin with #");
    if (!forced) return ConstraintGrammar{format.grammar, format.field};
  }
  GrammarRules rules;
  std::string answer;
  if (format.kind == ResponseFormat::Kind::json) answer = add_any_object(rules);
  if (format.kind == ResponseFormat::Kind::schema) {
    TRY(answer, add_schema(format.schema, rules, "#", format.strict ? Keep::all : Keep::possible));
  }
  if (format.kind == ResponseFormat::Kind::choice) answer = add_choice(format.schema, rules);
  if (format.kind == ResponseFormat::Kind::regex) {
    TRY(answer, add_whole(format.grammar, rules));
  }
  if (forced) {  // the format is only checked: with a forced call the answer has no text
    rules = GrammarRules(rules.work());
    answer.clear();
  }
  if (!offered ||
      (!forced && answer.empty() && std::none_of(context.tools.begin(), context.tools.end(), is_strict)))
    return ConstraintGrammar{answer.empty() ? "" : rules.text(answer), format.field};
  field = forced ? "tool_choice" : "tools";
  std::string calls;
  if (forced || !answer.empty()) {
    const bool several = context.several_calls && choice.kind != ToolChoice::Kind::named;
    TRY(calls,
        add_calls(context.format, context.tokenizer, context.tools, {choice.name, several, forced}, rules));
  } else {
    TRY(calls, add_free_text_with_calls(context.format, context.tokenizer, context.tools, rules));
  }
  if (!answer.empty()) answer = answer_beside_calls(context.format, context.tokenizer, answer, rules) + " | ";
  return ConstraintGrammar{rules.text(answer + calls), field};
}

}  // namespace anabranch
