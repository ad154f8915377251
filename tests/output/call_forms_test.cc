// Formats of calls that are a row of call_marks.cc: read at any cut, forced, and held to the tools' names.
#include <gtest/gtest.h>

#include "output/output_parser.h"
#include "output/streamed.h"

namespace anabranch {
namespace {

OutputRules rules_of(ToolFormat form) {
  return {{ReasoningTags(), form}, std::make_shared<const Json>(Json::parse(R"([
    {"type": "function", "function": {"name": "f", "description": "Files", "parameters": {"type": "object",
      "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}, "free": {}}}}},
    {"type": "function", "function": {"name": "now"}}])"))};
}

void expect_calls(ToolFormat form, const std::string& text, const std::vector<ToolCall>& calls,
                  const std::string& content = "") {
  const OutputRules rules = rules_of(form);
  const ParsedOutput got = parse_output(text, rules);
  expect_at_any_cut(text, rules, got);
  EXPECT_EQ(got.content, content) << text;
  ASSERT_EQ(got.calls.size(), calls.size()) << text;
  for (size_t i = 0; i < calls.size(); i++) {
    EXPECT_EQ(got.calls[i].name, calls[i].name) << text;
    EXPECT_EQ(parse_json(got.calls[i].arguments).value(), parse_json(calls[i].arguments).value()) << text;
  }
}
void expect_text(ToolFormat form, const std::string& text) {
  expect_calls(form, text, {}, text);
}

struct Form {
  ToolFormat format;
  std::string before, between, after;  // around the calls of a block
  std::string call;                    // of NAME with the object {"path": TEXT} or its pair
  bool json = true;                    // TEXT is in quotes
};

std::vector<Form> forms() {
  using enum ToolFormat;
  const std::string text = "{\"path\": TEXT}";
  return {
      {actions, "<|START_ACTION|>[\n    ", ",\n    ", "\n]<|END_ACTION|>",
       "{\"tool_call_id\": \"0\", \"tool_name\": \"NAME\", \"parameters\": " + text + "}"},
      {calls_tag, "<tool_calls>[", ", ", "]</tool_calls>",
       "{\"name\": \"NAME\", \"arguments\": " + text + ", \"id\": \"call1\"}"},
      {calls_tag, "<tool_calls>\n", "\n", "\n</tool_calls>",
       "{\"name\": \"NAME\", \"arguments\": " + text + "}"},
      {toolcall, "<TOOLCALL>[", ", ", "]</TOOLCALL>", "{\"name\": \"NAME\", \"arguments\": " + text + "}"},
      {named_keys, "<|tools_prefix|>[", ", ", "]<|tools_suffix|>", "{\"NAME\": " + text + "}"},
      {deepseek, "<｜tool▁calls▁begin｜>", "", "<｜tool▁calls▁end｜>",
       "<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>" + text + "<｜tool▁call▁end｜>"},
      {deepseek_json, "<｜tool▁calls▁begin｜>", "\n", "<｜tool▁calls▁end｜>",
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME\n```json\n" + text + "\n```<｜tool▁call▁end｜>"},
      {kimi, "<|tool_calls_section_begin|>", "", "<|tool_calls_section_end|>",
       "<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>" + text + "<|tool_call_end|>"},
      {solar, "<|tool_calls|>", "", "<|calls|>",
       "<|tool_call:begin|>a1B2<|tool_call:name|>NAME<|tool_call:args|>" + text + "<|tool_call:end|>"},
      {dsml, "<｜DSML｜tool_calls>\n", "\n", "\n</｜DSML｜tool_calls>",
       "<｜DSML｜invoke name=\"NAME\">\n<｜DSML｜parameter name=\"path\" "
       "string=\"true\">TEXT</｜DSML｜parameter>\n</｜DSML｜invoke>",
       false},
      {dsml_functions, "<｜DSML｜function_calls>\n", "\n", "\n</｜DSML｜function_calls>",
       "<｜DSML｜invoke name=\"NAME\">\n<｜DSML｜parameter name=\"path\" "
       "string=\"true\">TEXT</｜DSML｜parameter>\n</｜DSML｜invoke>",
       false},
      {hunyuan_open, "<tool_calls:opensource>\n", "\n", "\n</tool_calls:opensource>",
       "<tool_call:opensource>NAME<tool_sep:opensource>\n<arg_key:opensource>path</arg_key:opensource>\n"
       "<arg_value:opensource>TEXT</arg_value:opensource>\n</tool_call:opensource>",
       false},
      {hunyuan, "<tool_calls>\n", "\n", "\n</tool_calls>",
       "<tool_call>NAME<tool_sep>\n<arg_key>path</arg_key>\n<arg_value>TEXT</arg_value>\n</tool_call>",
       false},
      {params, "", "\n", "", "<function name=\"NAME\"><param name=\"path\">TEXT</param></function>", false},
      {lines, "<function_calls>", "\n", "</function_calls>", "NAME(path=TEXT)"},
      {python, "<|tool_call_start|>[", ", ", "]<|tool_call_end|>", "NAME(path=TEXT)"},
  };
}

std::string with(std::string text, const std::string& sign, const std::string& by) {
  for (size_t at; (at = text.find(sign)) != text.npos;) text.replace(at, sign.size(), by);
  return text;
}
std::string call_in(const Form& form, const std::string& name, const std::string& path) {
  return with(with(form.call, "NAME", name), "TEXT", form.json ? dump_json(Json(path)) : path);
}

TEST(CallForms, AreReadAtAnyCut) {
  const Json one = {{"path", "a.txt"}}, two = {{"path", "12"}};
  for (const Form& form : forms()) {
    const std::string first = call_in(form, "f", "a.txt"), second = call_in(form, "f", "12");
    const auto block = [&](const std::string& inside) { return form.before + inside + form.after; };
    expect_calls(form.format, block(first), {{"f", dump_json(one)}});
    expect_calls(form.format, "So:\n\n" + block(first + form.between + second) + "\n",
                 {{"f", dump_json(one)}, {"f", dump_json(two)}}, "So:");
    expect_calls(form.format, block(call_in(form, "other", "a.txt")), {{"other", dump_json(one)}});
    std::string part = form.before.substr(0, 9);
    while (!is_valid_utf8(part)) part.pop_back();
    expect_text(form.format, "Write " + part + ", please.");
  }
}

// The model may end its turn behind a whole call.
TEST(CallForms, WithoutTheEndOfTheBlock) {
  const Json one = {{"path", "a.txt"}};
  for (const Form& form : forms()) {
    const bool list = form.before.ends_with("[") || form.before.ends_with("[\n    ");
    if (!list) expect_calls(form.format, form.before + call_in(form, "f", "a.txt"), {{"f", dump_json(one)}});
  }
  expect_calls(ToolFormat::gigachat,
               "<|function_call|>{\"name\": \"f\", \"arguments\": {\"path\": \"a.txt\"}}",
               {{"f", dump_json(one)}});
}

TEST(CallForms, LongTextsStream) {
  const std::string path(200, 'x');
  for (const Form& form : forms()) {
    const std::string call = form.before + call_in(form, "f", path) + form.after;
    OutputParser parser(rules_of(form.format));
    std::vector<OutputEvent> events;
    parser.push(call.substr(0, call.find("xxx") + 150), events);
    ParsedOutput so_far;
    for (const OutputEvent& event : events) so_far.add(event);
    const bool streams = form.format != ToolFormat::named_keys && !is_python(form.format);
    EXPECT_EQ(so_far.calls.size(), streams ? 1u : 0u) << call;
    expect_calls(form.format, call, {{"f", dump_json(Json{{"path", path}})}});
  }
}

TEST(CallForms, WhatOnlyLooksLikeACall) {
  using enum ToolFormat;
  expect_text(actions, "<|START_ACTION|>[{\"tool_name\": \"f\", \"parameters\": 3}]<|END_ACTION|>");
  expect_text(named_keys, "<|tools_prefix|>[{\"f\": 3}]<|tools_suffix|>");
  expect_text(kimi, "<|tool_calls_section_begin|>" + std::string(300, 'x'));
  expect_text(kimi, "<|tool_calls_section_begin|><|tool_call_begin|>f:0 {}<|tool_call_end|>");
  expect_text(deepseek, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>" + std::string(300, 'n'));
  expect_text(deepseek, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>3");
  expect_text(lines, "<function_calls>f is a tool</function_calls>");
  // A last word is no beginning of a call.
  expect_calls(lines, "<function_calls>f(limit=3)\nDone", {{"f", R"({"limit": 3})"}}, "Done");
}

// Names as models write them without their prefix and number.
TEST(CallForms, NamesOfKimi) {
  const auto call = [](const std::string& id) {
    return "<|tool_calls_section_begin|><|tool_call_begin|>" + id +
           "<|tool_call_argument_begin|>{\"limit\": 3}<|tool_call_end|><|tool_calls_section_end|>";
  };
  for (const char* id : {"functions.f:0", "functions.f:12", "f:1", "f", " functions.f:0 "})
    expect_calls(ToolFormat::kimi, call(id), {{"f", R"({"limit": 3})"}});
}

// What the call says about a value counts before the schema, which may say nothing.
TEST(CallForms, DsmlTellsStrings) {
  const auto call = [](const std::string& key, const char* is_string, const std::string& value) {
    return "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n<｜DSML｜parameter name=\"" + key +
           "\" string=\"" + is_string + "\">" + value +
           "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
  };
  expect_calls(ToolFormat::dsml, call("free", "true", "12"), {{"f", R"({"free": "12"})"}});
  expect_calls(ToolFormat::dsml, call("free", "true", "{\"a\": 1}"), {{"f", R"({"free": "{\"a\": 1}"})"}});
  expect_calls(ToolFormat::dsml, call("free", "false", "12"), {{"f", R"({"free": 12})"}});
  expect_calls(ToolFormat::dsml, call("path", "false", "12"), {{"f", R"({"path": "12"})"}});
}

// MiniCPM5 writes texts with tags or lines as CDATA.
TEST(CallForms, QuotedValues) {
  const auto call = [](const std::string& value) {
    return "<function name=\"f\"><param name=\"path\">" + value + "</param></function>";
  };
  expect_calls(ToolFormat::params, call("<![CDATA[a</param></function>\n<b>]]>"),
               {{"f", dump_json(Json{{"path", "a</param></function>\n<b>"}})}});
  expect_calls(ToolFormat::params, call("<![CDATA[" + std::string(100, 'x') + "]]>"),
               {{"f", dump_json(Json{{"path", std::string(100, 'x')}})}});
  expect_calls(ToolFormat::params, call("<![CDATA"), {{"f", R"({"path": "<![CDATA"})"}});
  // The mark is text where no closing tag is behind it.
  expect_calls(ToolFormat::params, call("<![CDATA[if (a[b[0]]>1)\n]]>]]>"),
               {{"f", dump_json(Json{{"path", "if (a[b[0]]>1)\n]]>"}})}});
  expect_calls(ToolFormat::params, call("<![CDATA[a\nb]]>\n"), {{"f", R"({"path": "a\nb"})"}});
  expect_calls(ToolFormat::params, call("<![CDATA[a"), {{"f", R"({"path": "<![CDATA[a"})"}});
}

// Llama's and functionary's form: an object between the tags of a function.
TEST(CallForms, AnObjectBetweenFunctionTags) {
  const std::string call = "<function=f>{\"path\": \"</function>\", \"limit\": 3}</function>";
  const std::string arguments = R"({"path": "</function>", "limit": 3})";
  expect_calls(ToolFormat::tagged, call, {{"f", arguments}});
  expect_calls(ToolFormat::tagged, call + "<function=now>{}</function>", {{"f", arguments}, {"now", "{}"}});
  expect_calls(ToolFormat::tagged, "<tool_call>" + call + "</tool_call> Done.", {{"f", arguments}}, "Done.");
}

// Qwen2.5-Coder and other small models take the tags around the tools for those around calls.
TEST(ToolsTag, ACallOfAToolInIt) {
  const std::string call = "{\"name\": \"f\", \"arguments\": {\"limit\": 3}}";
  const std::string tool =
      "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"description\": \"Files\", "
      "\"parameters\": {\"type\": \"object\", \"properties\": {}}}}";
  const std::string bare = dump_json((*rules_of(ToolFormat::tagged).tools)[0]);
  const auto reads = [&](const std::string& inside) { return "<tools>" + inside + "</tools>"; };
  const ToolCall want{"f", "{\"limit\": 3}"};
  expect_calls(ToolFormat::tagged, reads("\n" + call + "\n"), {want});
  expect_calls(ToolFormat::tagged, "I look.\n" + reads(call + "\n" + call) + "\nWait.", {want, want},
               "I look.Wait.");
  expect_calls(ToolFormat::tagged, reads("[" + call + "]"), {want});
  expect_calls(ToolFormat::tagged, reads(tool + "\n" + call), {want});
  expect_calls(ToolFormat::tagged, reads("[" + bare + ", " + call + "]"), {want});
  expect_calls(ToolFormat::tagged, reads(call) + "<tool_call>\n" + call + "\n</tool_call>", {want, want});
  // Tools alone are text, and so are calls of what is no tool.
  for (const std::string& inside :
       {tool, bare, tool + "\n" + tool, bare.substr(0, bare.size() - 1), std::string("a list of tools"),
        std::string("{\"name\": \"g\", \"arguments\": {}}"), std::string("{\"name\": \"f\"}"), std::string()})
    expect_text(ToolFormat::tagged, "Here: " + reads(inside) + " as asked");
  // Other formats have no such tags.
  expect_text(ToolFormat::key_tags, reads(call));
}

// Without tags, a tool's description is an answer, too.
TEST(ToolsTag, ADescriptionIsNoCall) {
  const Json tools = *rules_of(ToolFormat::tagged).tools;
  for (const ToolFormat form : {ToolFormat::plain, ToolFormat::tagged}) {
    expect_text(form, dump_json(tools[0]));
    expect_text(form, dump_json(tools[0]["function"]));
    const std::string schema = dump_json(tools[0]["function"]["parameters"]);
    expect_text(form, R"({"name": "f", "parameters": )" + schema + R"(, "description": "Files"})");
  }
}

}  // namespace
}  // namespace anabranch
