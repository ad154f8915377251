#include "server/api/format_fields.h"

#include <initializer_list>

#include "output/tool_schema.h"

namespace anabranch::server {
namespace {

using Kind = ResponseFormat::Kind;

constexpr size_t kMaxChoices = 5000;

class FormatReader {
 public:
  explicit FormatReader(JsonFields& fields) : fields_(fields) {}

  ResponseFormat read() {
    response_format();
    text_format();
    output_format();
    ollama_format();
    for (const char* name : {"json_schema", "guided_json"}) schema(fields_, name, name);
    choice(fields_, "guided_choice", "guided_choice");
    for (const char* name : {"guided_regex", "regex"}) text(fields_, name, name, Kind::regex);
    for (const char* name : {"grammar", "guided_grammar", "ebnf"}) text(fields_, name, name, Kind::grammar);
    structured_outputs();
    refuse_the_rest();
    return std::move(format_);
  }

 private:
  // Several fields may say the same: clients send a field by its old and its new name.
  void take(ResponseFormat one) {
    const bool same =
        one.kind == format_.kind && one.schema == format_.schema && one.grammar == format_.grammar;
    if (format_.kind == Kind::text)
      format_ = std::move(one);
    else if (!same)
      fields_.fail(
          one.field, "invalid_value",
          fmt::format("'{}' and '{}' ask for different formats of the answer", format_.field, one.field));
  }

  // A schema, or its JSON text.
  void schema(JsonFields& fields, const char* name, const std::string& field) {
    const Json* value = fields.find(name);
    if (!value) return;
    Json schema = *value;
    if (value->is_string()) {
      auto parsed = parse_json(value->get_ref<const std::string&>());
      if (!parsed.ok())
        return fields_.fail(
            field, "invalid_value",
            fmt::format("'{}' is a string that is not JSON: {}", field, parsed.error().message));
      schema = std::move(*parsed);
    }
    take({.kind = Kind::schema, .schema = std::move(schema), .field = field});
  }

  void text(JsonFields& fields, const char* name, const std::string& field, Kind kind) {
    const std::string* value = fields.string(name);
    if (value && !value->empty()) take({.kind = kind, .grammar = *value, .field = field});
  }

  void choice(JsonFields& fields, const char* name, const std::string& field) {
    const Json* list = fields.array(name);
    if (!list) return;
    bool strings = !list->empty() && list->size() <= kMaxChoices;
    for (const Json& one : *list) strings = strings && one.is_string() && one != "";
    if (!strings)
      fields_.fail(
          field, "invalid_value",
          fmt::format("'{}' must be an array of 1 to {} strings, none of them empty", field, kMaxChoices));
    take({.kind = Kind::choice, .schema = *list, .field = field});
  }

  // {"type": "json_schema", "json_schema": {"name", "schema", "strict"}}, or with the schema itself, as in
  // Anthropic's API and llama-server. llama-server's json_object may have a schema, too.
  void typed_format(JsonFields& fields, const char* name, const std::string& field) {
    const Json* format = fields.object(name);
    if (!format) return;
    JsonFields inner(*format, field + ".");
    const std::string type = inner.required_string("type");
    const Json* wrapper = type == "json_schema" ? inner.object("json_schema") : nullptr;
    const bool wrapped = wrapper && JsonFields(*wrapper).find("schema");
    if (type == "json_object") {
      if (inner.find("schema"))
        schema(inner, "schema", field);
      else
        take({.kind = Kind::json, .field = field});
    } else if (wrapped) {
      JsonFields wrapped_fields(*wrapper, field + ".json_schema.");
      schema(wrapped_fields, "schema", field);
      format_.strict = wrapped_fields.boolean("strict").value_or(true);
      if (wrapped_fields.error()) fields_.fail(*wrapped_fields.error());
    } else if (type == "json_schema" && inner.find("schema")) {
      schema(inner, "schema", field);
      format_.strict = inner.boolean("strict").value_or(true);
    } else if (type == "json_schema") {
      inner.fail("json_schema", "missing_required_parameter",
                 fmt::format("'{}.json_schema.schema' is missing", field));
    } else if (type != "text" && !inner.error()) {
      inner.fail("type", "unsupported_value",
                 fmt::format("'{}.type' is {}, but must be text, json_object or json_schema", field,
                             Json(type).dump()));
    }
    if (inner.error()) fields_.fail(*inner.error());
  }

  void response_format() { typed_format(fields_, "response_format", "response_format"); }

  // The field "text" of OpenAI's Responses API.
  void text_format() {
    const Json* text = fields_.find("text");
    if (!text || !text->is_object()) return;
    JsonFields inner(*text, "text.");
    typed_format(inner, "format", "text.format");
    if (inner.error()) fields_.fail(*inner.error());
  }

  // Anthropic's field, by its new and its old name.
  void output_format() {
    if (const Json* config = fields_.object("output_config")) {
      JsonFields inner(*config, "output_config.");
      typed_format(inner, "format", "output_config.format");
      if (inner.error()) fields_.fail(*inner.error());
    }
    typed_format(fields_, "output_format", "output_format");
  }

  // Ollama's "format": "json" or a schema.
  void ollama_format() {
    const Json* format = fields_.find("format");
    if (!format || *format == "") return;
    if (*format == "json")
      take({.kind = Kind::json, .field = "format"});
    else if (format->is_object())
      schema(fields_, "format", "format");
    else
      fields_.fail("format", "unsupported_value", "'format' must be \"json\" or a schema");
  }

  // vLLM's field "structured_outputs".
  void structured_outputs() {
    const Json* object = fields_.object("structured_outputs");
    if (!object) return;
    const std::string place = "structured_outputs.";
    JsonFields inner(*object, place);
    schema(inner, "json", place + "json");
    text(inner, "regex", place + "regex", Kind::regex);
    choice(inner, "choice", place + "choice");
    text(inner, "grammar", place + "grammar", Kind::grammar);
    if (inner.boolean("json_object").value_or(false))
      take({.kind = Kind::json, .field = place + "json_object"});
    inner.only("structural_tag", {}, "structural tags are not built");
    inner.only("whitespace_pattern", {}, "white space in JSON cannot be chosen");
    inner.only("disable_any_whitespace", {false}, "white space in JSON cannot be chosen");
    inner.only("disable_additional_properties", {false},
               "say it in the schema: \"additionalProperties\": false");
    if (inner.error()) fields_.fail(*inner.error());
  }

  // Refuses constraints that are not supported.
  void refuse_the_rest() {
    fields_.only("structural_tag", {}, "structural tags are not built");
    fields_.only("guided_whitespace_pattern", {}, "white space in JSON cannot be chosen");
    fields_.only("guided_decoding_backend",
                 {"auto", "xgrammar", "guidance", "outlines", "lm-format-enforcer"},
                 "there is one backend, without options");
    fields_.only("grammar_lazy", {false}, "a grammar holds from the answer's first token on");
    fields_.only("grammar_triggers", {Json::array()}, "a grammar holds from the answer's first token on");
  }

  JsonFields& fields_;
  ResponseFormat format_;
};

}  // namespace

ResponseFormat read_response_format(JsonFields& fields) {
  return FormatReader(fields).read();
}

ToolChoice read_tool_choice(JsonFields& fields) {
  const Json* value = fields.find("tool_choice");
  ToolChoice choice;
  if (!value) return choice;
  // Clients of other APIs write a word as an object, and "any" for "required".
  const std::string word = value->is_string() ? value->get<std::string>() : string_at(*value, "type");
  if (word == "none") {
    choice.kind = ToolChoice::Kind::none;
  } else if (word == "required" || word == "any") {
    choice.kind = ToolChoice::Kind::required;
  } else if (word == "auto") {
    return choice;
  } else if (value->is_string()) {
    fields.fail(
        "tool_choice", "invalid_value",
        fmt::format("'tool_choice' is {}, but must be auto, none, required or a function", value->dump()));
  } else if (value->is_object()) {
    const std::string type = word.empty() ? "function" : word;
    const Json* part = JsonFields(*value).find(type.c_str());
    choice.kind = ToolChoice::Kind::named;
    choice.name = string_at(part && part->is_object() ? *part : *value, "name");
    if ((type != "function" && type != "custom" && type != "tool") || choice.name.empty())
      fields.fail("tool_choice", "invalid_value",
                  "'tool_choice' must be {\"type\": \"function\", \"function\": {\"name\": ...}}");
  } else {
    fields.fail("tool_choice", "invalid_type",
                fmt::format("'tool_choice' must be a string or an object, not {}", json_type(*value)));
  }
  return choice;
}

void check_tool_choice(JsonFields& fields, const ToolChoice& choice, const Json& tools) {
  const bool named = choice.kind == ToolChoice::Kind::named;
  if (!named && choice.kind != ToolChoice::Kind::required) return;
  if (!tools.is_array() || tools.empty())
    fields.fail("tool_choice", "invalid_value", "'tool_choice' asks for a call, but there are no 'tools'");
  else if (named && !has_tool(tools, choice.name))
    fields.fail(
        "tool_choice", "invalid_value",
        fmt::format("'tool_choice' names {}, which is not among the 'tools'", Json(choice.name).dump()));
}

bool read_parallel_calls(JsonFields& fields) {
  if (const auto several = fields.boolean("parallel_tool_calls")) return *several;
  const Json* choice = fields.find("tool_choice");
  if (!choice || !choice->is_object()) return true;
  JsonFields inner(*choice, "tool_choice.");
  const bool one = inner.boolean("disable_parallel_tool_use").value_or(false);
  if (inner.error()) fields.fail(*inner.error());
  return !one;
}

}  // namespace anabranch::server
