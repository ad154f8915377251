#include "output/tool_grammar.h"

#include <fmt/format.h>

#include "grammar/schema_grammar.h"

namespace anabranch {
namespace {

const Json kAnyArguments = {{"type", "object"}};

class CallWriter {
 public:
  CallWriter(const OutputFormat& format, const Tokenizer& tokenizer, GrammarRules& rules)
      : format_(format), tokenizer_(tokenizer), rules_(rules) {}

  Result<std::string> calls(const Json& tools, const CallWishes& wishes) {
    std::string any;
    for (const Json& tool : tools) {
      const Json& function = tool["function"];
      if (!wishes.only.empty() && string_at(function, "name") != wishes.only) continue;
      TRY(const std::string element, call(function, parameters_of(function, wishes.forced)));
      any += (any.empty() ? "" : " | ") + element;
    }
    return wrapped(rules_.add("call", any), wishes.several);
  }

  Result<std::string> free_text(const Json& tools) {
    if (format_.tools == ToolFormat::messages) {  // an answer or a call, by the header
      TRY(const std::string call, calls(tools, {}));
      return rules_.add("free_text", fmt::format("{} | {}", answer_header("[^\\u0000]*"), call));
    }
    if (call_closer(format_.tools).empty()) return not_built("strict tools");
    std::string any;
    for (const Json& tool : tools) {
      const Json& function = tool["function"];
      TRY(const std::string element, call(function, parameters_of(function, false)));
      any += (any.empty() ? "" : " | ") + element;
    }
    std::string body = rules_.add("call_body", block(rules_.add("call", any), true));
    const std::string_view mark = call_openers(format_.tools)[0];
    auto opener = tokenizer_.find(mark);
    const size_t part = mark.find(kDsmlMark);
    if (!opener && part != mark.npos && (opener = tokenizer_.find(kDsmlMark)))
      body =
          rules_.add("call_body", fmt::format("{} {}", literal(mark.substr(part + kDsmlMark.size())), body));
    if (!opener)  // the model spells it with ordinary tokens
      return rules_.add("free_text", fmt::format("TagDispatch(({}, {}))", literal(mark), body));
    // Marks that the model must not write in free text.
    std::string excluded;
    for (const int id : mark_tokens(format_, tokenizer_))
      if (id != *opener) excluded += fmt::format("{}, ", id);
    return rules_.add("free_text",
                      fmt::format("TokenTagDispatch(({}, {}), excludes=({}))", *opener, body, excluded));
  }

  // A text as an answer, in the format's header if it has one.
  std::string answer_header(const std::string& text) const {
    if (format_.tools != ToolFormat::messages) return text;
    return fmt::format("{} \"final\" {} {}", mark("<|channel|>"), mark("<|message|>"), text);
  }

 private:
  Error not_built(std::string_view what) const {
    return make_error(ErrorKind::unsupported,
                      "{} are not supported in the format in which this model writes calls", what);
  }
  static bool is_strict(const Json& function) {
    const auto strict = function.find("strict");
    return strict != function.end() && *strict == true;
  }
  static const Json& parameters_of(const Json& function, bool forced) {
    const auto it = function.find("parameters");
    const bool held = forced || is_strict(function);
    return !held || it == function.end() || it->is_null() ? kAnyArguments : *it;
  }
  // The element for a mark: a token if the vocabulary has it, otherwise its text.
  std::string mark(std::string_view text) const {
    const auto id = tokenizer_.find(text);
    return id ? fmt::format("Token({})", *id) : spelled(text);
  }
  // The same for what is a mark only if it is a whole tag.
  std::string tag(std::string_view text) const { return is_whole_tag(text) ? mark(text) : spelled(text); }
  // Some marks are spelled around a token.
  std::string spelled(std::string_view text) const {
    for (const std::string_view part : inner_tags(format_.tools)) {
      const size_t at = text.find(part);
      const auto id = at == text.npos ? std::nullopt : tokenizer_.find(part);
      if (!id) continue;
      const auto before = text.substr(0, at), behind = text.substr(at + part.size());
      return fmt::format("{} Token({}) {}", before.empty() ? "" : tag(before), *id,
                         behind.empty() ? "" : tag(behind));
    }
    return literal(text);
  }

  // Parameters with any names and values, for tools whose arguments are not constrained.
  Result<std::string> any_parameters() {
    const ParameterTags tags = parameter_tags();
    TRY(const std::string text, text_to_tag(tags, rules_));
    return rules_.add("any_parameters", tags.text_end.empty()
                                            ? fmt::format("({} [^<>\\n]+ {} {} {})*", tags.open,
                                                          tags.name_end, text, tags.close)
                                            : fmt::format("({} [^<>\"\\n]+ ({} | {}) {} {})*", tags.open,
                                                          tags.text_end, tags.name_end, text, tags.close));
  }

  ParameterTags parameter_tags() const {
    const PairTags* pair = pair_tags(format_.tools);
    if (!pair) return function_tags();
    // GLM-4.7 writes no line ends between tags.
    const std::string name_end =
        pair->value_open.empty() ? tag(pair->key_close)
                                 : fmt::format("{} \"\\n\"? {}", tag(pair->key_close), tag(pair->value_open));
    ParameterTags tags{tag(pair->key_open), name_end, fmt::format("{} \"\\n\"?", tag(pair->value_close)),
                       std::string(pair->value_close)};
    if (!pair->text_sign.empty()) {
      tags.text_end = fmt::format("{} {}", literal(pair->text_sign), name_end);
      tags.name_end = fmt::format("{} {}", literal(pair->json_sign), name_end);
    }
    return tags;
  }

  // The arguments of a call. For a tool that is not strict they are kept to the schema as far as possible,
  // and are any if the schema is too large for a grammar, or no schema.
  Result<std::string> object(const Json& schema, const std::string& where, bool strict) {
    auto out = add_schema(schema, rules_, where, strict ? Keep::all : Keep::possible);
    return out.ok() || strict ? out : add_any_object(rules_);
  }
  Result<std::string> parameters(const Json& schema, const std::string& where, bool strict) {
    if (schema == kAnyArguments || schema == Json::object()) return any_parameters();
    auto out = add_parameters(schema, parameter_tags(), rules_, where, strict ? Keep::all : Keep::possible);
    return out.ok() || strict ? out : any_parameters();
  }

  Result<std::string> keywords(const Json& schema, const std::string& where, bool strict) {
    if (schema == kAnyArguments || schema == Json::object()) return add_any_keyword_arguments(rules_);
    auto out = add_keyword_arguments(schema, rules_, where, strict ? Keep::all : Keep::possible);
    return out.ok() || strict ? out : add_any_keyword_arguments(rules_);
  }

  // One call, without the marks around it.
  Result<std::string> call(const Json& function, const Json& schema) {
    const std::string name = string_at(function, "name");
    const std::string where = fmt::format("the parameters of {}: #", name);
    const PairTags* pair = pair_tags(format_.tools);
    if (format_.function_tags || pair) {
      if (name.find_first_of("<>\n") != name.npos)
        return make_error(ErrorKind::invalid, "the tool's name {} cannot be written", dump_json(Json(name)));
      TRY(const std::string arguments, parameters(schema, where, is_strict(function)));
      if (pair && pair->name_end.empty())
        return fmt::format("{} \"\\n\"? {} {}", literal(name), arguments, mark(pair->call_close));
      if (pair && pair->call_open.empty())
        return fmt::format("{} {} {}", literal(name + std::string(pair->name_end)), arguments,
                           tag(pair->call_close));
      if (pair)
        return fmt::format("{} {} {} \"\\n\" {} {}", tag(pair->call_open), literal(name), tag(pair->name_end),
                           arguments, tag(pair->call_close));
      return fmt::format("{} {} \"</function>\"", literal(fmt::format("<function={}>\n", name)), arguments);
    }
    if (is_python(format_.tools)) {
      if (name.find_first_of(kEndsPythonName) != name.npos)
        return make_error(ErrorKind::invalid, "the tool's name {} cannot be written", dump_json(Json(name)));
      TRY(const std::string arguments, keywords(schema, where, is_strict(function)));
      return fmt::format("{} {}", literal(name), arguments);
    }
    TRY(const std::string arguments, object(schema, where, is_strict(function)));
    if (format_.tools == ToolFormat::messages)
      return fmt::format("{} {} {} \"json\" {} {}", mark("<|channel|>"),
                         literal(fmt::format("commentary to=functions.{} ", name)), mark("<|constrain|>"),
                         mark("<|message|>"), arguments);
    if (const NameTags* tags = name_tags(format_.tools)) return named_call(*tags, name, arguments);
    if (format_.tools == ToolFormat::actions)
      return fmt::format(
          "{} [0-9]+ {} {} \"}}\"", literal("{\"tool_call_id\": \""),
          literal(fmt::format("\", \"tool_name\": {}, \"parameters\": ", dump_json(Json(name)))), arguments);
    if (format_.tools == ToolFormat::named_keys)
      return fmt::format("{} {} \"}}\"", literal(fmt::format("{{{}: ", dump_json(Json(name)))), arguments);
    const bool bracketed = format_.tools == ToolFormat::mistral && tokenizer_.find("[ARGS]");
    if (bracketed) return fmt::format("{} {} {}", literal(name), mark("[ARGS]"), arguments);
    const char* key = format_.tools == ToolFormat::plain ? "parameters" : "arguments";
    const std::string begin = fmt::format("{{\"name\": {}, \"{}\": ", dump_json(Json(name)), key);
    return fmt::format("{} {} \"}}\"", literal(begin), arguments);
  }

  // A call that is a name and an object between marks.
  Result<std::string> named_call(const NameTags& tags, const std::string& name,
                                 const std::string& arguments) {
    if (name.find_first_of(tags.numbered ? "<>\n:" : "<>\n") != name.npos)
      return make_error(ErrorKind::invalid, "the tool's name {} cannot be written", dump_json(Json(name)));
    std::string out = tag(tags.call_open);
    if (!tags.id_end.empty()) out += fmt::format(" [0-9a-zA-Z_\\-]{{1,32}} {}", tag(tags.id_end));
    out += " " + literal(std::string(tags.prefix) + name);
    if (tags.numbered) out += " \":\" [0-9]{1,4}";
    out += fmt::format(" {} {}", tag(tags.name_end), arguments);
    if (!tags.fence.empty()) out += " \"\\n\" " + literal(tags.fence);
    return out + " " + tag(tags.call_close);
  }

  // A list of calls in brackets, or one.
  static std::string list(const std::string& call, bool several, std::string_view between) {
    return several ? fmt::format("{0} ({1} {0})*", call, literal(between)) : call;
  }

  // The calls of a block behind its opener, with the closing mark; one if the format has one in each block.
  std::string block(const std::string& call, bool several) const {
    const PairTags* pair = pair_tags(format_.tools);
    const std::string close = mark(call_closer(format_.tools));
    switch (format_.tools) {
      case ToolFormat::python:
      case ToolFormat::calls_tag:
      case ToolFormat::toolcall:
      case ToolFormat::named_keys:
        return fmt::format("\"[\" {} \"]\" {}", list(call, several, ", "), close);
      case ToolFormat::actions:
        return fmt::format("\"[\\n    \" {} \"\\n]\" {}", list(call, several, ",\n    "), close);
      case ToolFormat::lines:
        return fmt::format("{} {}", list(call, several, "\n"), close);
      case ToolFormat::deepseek_json:
        return fmt::format("{} {}", list(call, several, "\n"), close);
      case ToolFormat::deepseek:
      case ToolFormat::kimi:
      case ToolFormat::solar:
        return fmt::format("{}{} {}", call, several ? fmt::format(" {}*", call) : "", close);
      default:
        break;
    }
    if (!pair) return fmt::format("\"\\n\" {} \"\\n\" {}", call, mark(call_closer(format_.tools)));
    if (pair->block_close.empty()) return call;
    const std::string more = several ? fmt::format("(\"\\n\" {})* ", call) : "";
    return fmt::format("\"\\n\" {} {}\"\\n\" {}", call, more, mark(pair->block_close));
  }

  Result<std::string> wrapped(const std::string& call, bool several) {
    std::string one, between;
    switch (format_.tools) {
      case ToolFormat::tagged:
      case ToolFormat::key_tags:
      case ToolFormat::minimax:
      case ToolFormat::seed:
      case ToolFormat::python:
      case ToolFormat::params:
        one = fmt::format("{} {}", mark(call_openers(format_.tools)[0]), block(call, several));
        between = "\"\\n\"";
        break;
      case ToolFormat::gigachat:
        return rules_.add("calls", fmt::format("{} {}", mark(call_openers(format_.tools)[0]), call));
      case ToolFormat::lines:
      case ToolFormat::actions:
      case ToolFormat::calls_tag:
      case ToolFormat::toolcall:
      case ToolFormat::named_keys:
      case ToolFormat::deepseek:
      case ToolFormat::deepseek_json:
      case ToolFormat::kimi:
      case ToolFormat::solar:
      case ToolFormat::hunyuan:
      case ToolFormat::hunyuan_open:
      case ToolFormat::dsml:
      case ToolFormat::dsml_functions:  // a turn has one block
        return rules_.add("calls",
                          fmt::format("{} {}", mark(call_openers(format_.tools)[0]), block(call, several)));
      case ToolFormat::messages:  // a call ends the turn
        return rules_.add("calls", call);
      case ToolFormat::plain:
        one = call;
        between = "\"; \"";
        break;
      case ToolFormat::mistral:
        if (tokenizer_.find("[ARGS]")) {
          one = fmt::format("{} {}", mark("[TOOL_CALLS]"), call);
          between = "\"\"";
          break;
        }
        [[fallthrough]];
      case ToolFormat::listed:
        return rules_.add("calls", fmt::format("{} \"[\" {}{} \"]\"", mark(call_openers(format_.tools)[0]),
                                               call, several ? fmt::format(" (\", \" {})*", call) : ""));
      default:
        return not_built("forced calls");
    }
    if (!several) return rules_.add("calls", one);
    one = rules_.add("marked_call", one);
    return rules_.add("calls", fmt::format("{0} ({1} {0})*", one, between));
  }

  const OutputFormat& format_;
  const Tokenizer& tokenizer_;
  GrammarRules& rules_;
};

}  // namespace

Result<std::string> add_calls(const OutputFormat& format, const Tokenizer& tokenizer, const Json& tools,
                              const CallWishes& wishes, GrammarRules& rules) {
  return CallWriter(format, tokenizer, rules).calls(tools, wishes);
}

std::string answer_beside_calls(const OutputFormat& format, const Tokenizer& tokenizer,
                                const std::string& answer, GrammarRules& rules) {
  return CallWriter(format, tokenizer, rules).answer_header(answer);
}

Result<std::string> add_free_text_with_calls(const OutputFormat& format, const Tokenizer& tokenizer,
                                             const Json& tools, GrammarRules& rules) {
  return CallWriter(format, tokenizer, rules).free_text(tools);
}

}  // namespace anabranch
