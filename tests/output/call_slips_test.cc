// Calls as models really write them: with slips in the tags, in the spelling of values, and in the JSON.
#include <gtest/gtest.h>

#include <random>

#include "output/output_parser.h"
#include "output/streamed.h"
#include "output/tool_schema.h"

namespace anabranch {
namespace {

Json tools() {
  return Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}, "limit": {"type": "integer"},
      "ratio": {"type": "number"}, "on": {"type": "boolean"}, "items": {"type": "array"},
      "obj": {"type": "object"}, "opt": {"type": ["integer", "null"]}, "either": {"type": ["string", "array"]},
      "free": {}}, "required": ["path"]}}}, {"type": "function", "function": {"name": "g"}}])");
}

OutputRules rules_for(ToolFormat form) {
  return {{ReasoningTags(), form}, std::make_shared<const Json>(tools())};
}

const std::string kOpen = "<tool_call>\n<function=f>\n", kClose = "</function>\n</tool_call>";

std::string parameter(const std::string& key, const std::string& value) {
  return "<parameter=" + key + ">\n" + value + "\n</parameter>\n";
}

// The output has these calls, each as its name and arguments, and this content.
void reads(ToolFormat form, const std::string& text,
           const std::vector<std::pair<std::string, std::string>>& calls, const std::string& content = "") {
  const ParsedOutput got = parse_output(text, rules_for(form));
  expect_at_any_cut(text, rules_for(form), got);
  ASSERT_EQ(got.calls.size(), calls.size()) << text << " content: " << got.content;
  for (size_t i = 0; i < calls.size(); i++) {
    EXPECT_EQ(got.calls[i].name, calls[i].first) << text;
    EXPECT_EQ(parse_json(got.calls[i].arguments).value(), parse_json(calls[i].second).value()) << text;
  }
  EXPECT_EQ(got.content, content) << text;
}
void reads_xml(const std::string& inside, const std::string& arguments) {
  reads(ToolFormat::tagged, kOpen + inside + kClose, {{"f", arguments}});
}
void stays_text(ToolFormat form, const std::string& text) {
  reads(form, text, {}, text);
}

TEST(ParameterTags, LeftOut) {
  const std::string both = R"({"path": "a.txt", "content": "x\ny"})";
  reads_xml("<parameter=path>\na.txt\n<parameter=content>\nx\ny\n</parameter>\n", both);
  reads_xml("<parameter=path>\na.txt\n<parameter=content>\nx\ny\n", both);
  reads_xml(parameter("path", "a.txt") + "<parameter=content>\nx\ny\n", both);
  reads_xml("<parameter=path>\n<parameter=limit>\n3\n", R"({"path": "", "limit": 3})");
  const std::string unclosed = kOpen + "<parameter=path>\na\n";
  reads(ToolFormat::tagged, unclosed + "</tool_call>", {{"f", R"({"path": "a"})"}});
  reads(ToolFormat::tagged, unclosed + "</function>", {{"f", R"({"path": "a"})"}});
  // Nothing of the next call is swallowed, whether or not it has the tags.
  const std::string second = kOpen + parameter("path", "b") + kClose;
  for (const char* close : {"</function>\n</tool_call>\n", "</tool_call>\n", "</parameters>\n</tool_call>\n"})
    for (const std::string& next : {second, kOpen + "<parameter=path>\nb\n" + kClose})
      reads(ToolFormat::tagged, unclosed + close + next,
            {{"f", R"({"path": "a"})"}, {"f", R"({"path": "b"})"}});
}

// A call that the model ends behind a parameter is whole. One that is cut there may have had more parameters.
TEST(ParameterTags, CutBetweenParameters) {
  OutputRules free = rules_for(ToolFormat::tagged), exact = free;
  exact.exact = true;
  const std::string text = "line\n" + std::string(100, 'x');  // long enough for the call to begin
  for (const OutputRules& rules : {free, exact})
    for (const auto& [value, rest] : {std::pair<std::string, std::string>{"a", ""},
                                      {"a", "<"},
                                      {"a", "</function"},
                                      {text, ""},
                                      {text, "</func"}}) {
      const std::string call = kOpen + parameter("path", value) + rest;
      EXPECT_EQ(parse_output(call, rules),
                (ParsedOutput{"", "", {{"f", R"({"path": )" + json_string(value) + "}"}}}))
          << call;
      OutputParser parser(rules);
      std::vector<OutputEvent> events;
      parser.push(call, events);
      parser.finish(events, true);
      for (const OutputEvent& event : events) {
        EXPECT_NE(event.kind, OutputEvent::Kind::content) << call;
        EXPECT_FALSE(event.kind == OutputEvent::Kind::call_end && event.whole) << call;
      }
    }
}

TEST(ParameterTags, Mangled) {
  for (const char* close :
       {"</parameter/>", "</parameter1>", "</parameter", "</parameter_function>", "</parameterfunction>",
        "</parameters>", "</param>", "</parameter >", "<parameter/>", "</parameter=path>", "</ parameter>"}) {
    const std::string path = std::string("<parameter=path>\na\nb\n") + close + "\n";
    reads_xml(path, R"({"path": "a\nb"})");
    reads_xml(path + parameter("limit", "3"), R"({"path": "a\nb", "limit": 3})");
    // Before the right tag it is text.
    reads_xml(path + "</parameter>\n", R"({"path": )" + json_string(std::string("a\nb\n") + close) + "}");
  }
  for (const char* text : {"</para>", "<param=x>", "</param> a", "param"})
    reads_xml(std::string("<parameter=path>\na\n") + text + "\n",
              R"({"path": )" + json_string(std::string("a\n") + text) + "}");
}

TEST(ParameterTags, InsideValues) {
  for (const char* value :
       {"write <parameter=content> and </parameter>, then </function>.", "s = \"</parameter>\"; t = 1",
        "x\n</function>\n</tool_call>\ny", "</parameter>x", "a\n<parameter=path>\nb",
        "a\n<parameter=other>\nb", " <parameter=content>", "<function=g>\n</function>",
        "<function=g>\nno parameter", "</parameter>", "\n",
        "<tool_call>\n<function=g>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
        "<function=g>\n<parameter=a>\n1\n</parameter>\n<parameter=content>\n2\n</parameter>\n</function>\nso",
        "<function=g><parameter=a>1</parameter></function>"})
    reads_xml(parameter("path", value) + parameter("limit", "1"),
              R"({"path": )" + json_string(value) + R"(, "limit": 1})");
  reads_xml(parameter("items", R"(["</parameter></function>", "<parameter=path>"])"),
            R"({"items": ["</parameter></function>", "<parameter=path>"]})");
  reads_xml(parameter("items", "['</parameter>\n</function>']"),
            R"({"items": ["</parameter>\n</function>"]})");
  reads_xml(parameter("items", R"(["</parameter>)"), R"({"items": "[\"</parameter>"})");
  // An unfinished call in a value hides no tag.
  reads_xml(parameter("content", "<function=g>\n<parameter=a>\n1"),
            R"({"content": "<function=g>\n<parameter=a>\n1"})");
}

TEST(ParameterTags, WhereTheTurnEnds) {
  const std::string whole = kOpen + parameter("path", "a");
  for (const char* rest : {"", "\n", "</", "</func", "</tool_call"})
    reads(ToolFormat::tagged, whole + rest, {{"f", R"({"path": "a"})"}});
  reads(ToolFormat::tagged, kOpen + "<parameter=path>\na\n</parameter>", {{"f", R"({"path": "a"})"}});
  for (const char* rest : {"<parameter=content>\nhel", "<param", "so"})
    stays_text(ToolFormat::tagged, whole + rest);
  stays_text(ToolFormat::tagged, kOpen);
  // What something else cut is not executed: parameters or the rest of the value may be missing.
  for (const std::string& text :
       {whole, kOpen + "<parameter=path>\na\n</parameter>", kOpen + "<parameter=path>\na\n</function>\n"}) {
    EXPECT_TRUE(cut(text, rules_for(ToolFormat::tagged)).calls.empty()) << text;
    EXPECT_EQ(cut(text, rules_for(ToolFormat::tagged)).content, "") << text;
  }
  EXPECT_EQ(cut(whole + "</function>", rules_for(ToolFormat::tagged)).calls.size(), 1u);
}

TEST(CallMarks, TooManyOrTooLate) {
  const std::string call = kOpen + parameter("path", "a") + "</function>\n";
  const std::vector<std::pair<std::string, std::string>> one = {{"f", R"({"path": "a"})"}};
  reads(ToolFormat::tagged, call + "ok\n</tool_call>", one, "ok");
  reads(ToolFormat::tagged, call + "ok\n</tool_call>\nand", one, "ok\nand");
  reads(ToolFormat::tagged, call + "</tool_call>\n</tool_call>", one);
  reads(ToolFormat::tagged, call + "</function>\n</tool_call>", one);
  const std::string json = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>\n";
  reads(ToolFormat::tagged, json + "</tool_call>", one);
  // Text that speaks of marks, and text of a call that is none, are kept.
  for (const char* text :
       {"use </tool_call>", "</tool_call> ends it", "<tool_call>\nno\n</tool_call>", "</tool_cal"})
    reads(ToolFormat::tagged, json + text, one, text);
  stays_text(ToolFormat::tagged, "ok\n</tool_call>");
}

TEST(CallMarks, OfAnyFormatWrittenTwice) {
  const std::vector<std::pair<std::string, std::string>> one = {{"f", R"({"path": "a"})"}};
  const struct {
    ToolFormat form;
    std::string call, mark;
  } cases[] = {
      {ToolFormat::key_tags, "<tool_call>f\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>",
       "</tool_call>"},
      {ToolFormat::minimax,
       "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"path\">a</parameter>\n</invoke>\n"
       "</minimax:tool_call>",
       "</minimax:tool_call>"},
      {ToolFormat::toolcall, R"(<TOOLCALL>[{"name": "f", "arguments": {"path": "a"}}]</TOOLCALL>)",
       "</TOOLCALL>"},
  };
  for (const auto& c : cases) {
    reads(c.form, c.call + "\n" + c.mark, one);
    reads(c.form, c.call + "\n" + c.mark + "\nok", one, "ok");
    for (const std::string& text : {"use " + c.mark, c.mark + " ends it"})
      reads(c.form, c.call + "\n" + text, one, text);
  }
}

TEST(ParameterValues, BlankOnesAreLeftOut) {
  for (const char* key : {"limit", "ratio", "on", "items", "obj", "opt"})
    for (const char* blank : {"", " ", "\n"})
      reads_xml(parameter("path", "a") + parameter(key, blank), R"({"path": "a"})");
  for (const char* key : {"content", "free", "either", "unknown"})
    reads_xml(parameter(key, ""), fmt::format(R"({{"{}": ""}})", key));
  reads_xml(parameter("limit", ""), "{}");
}

TEST(ParameterValues, AsPythonSpellsThem) {
  const struct {
    const char *key, *text, *json;
  } cases[] = {
      {"items", "['a', 'b']", R"(["a", "b"])"},
      {"items", "[{'path': 'a', 'done': False}]", R"([{"path": "a", "done": false}])"},
      {"items", "[1, 2,]", "[1, 2]"},
      {"items", "[\"a\tb\"]", R"(["a\tb"])"},
      {"items", "['say \"hi\"', \"it's\", 'it\\'s', '\\\\']", R"(["say \"hi\"", "it's", "it's", "\\"])"},
      {"items", "[-1.5e3, True, [None, {}]]", "[-1500.0, true, [null, {}]]"},
      {"obj", "{'a': True, 'n': None, 'x': [1, 2.5]}", R"({"a": true, "n": null, "x": [1, 2.5]})"},
      {"obj", "{\"a\": \"line1\nline2\",}", R"({"a": "line1\nline2"})"},
      {"obj", R"({"re": "\d+ \. \n", "u": "\users \u00e9 \ud83d\ude00 \ud83d"})",
       R"({"re": "\\d+ \\. \n", "u": "\\users é 😀 \ufffd"})"},
      {"either", "['a']", R"(["a"])"},
      {"on", "TRUE", "true"},
      {"on", "False", "false"},
      {"opt", "NONE", "null"},
      {"limit", "1_000", "1000"},
      {"limit", "+5", "5"},
      {"ratio", ".5", "0.5"},
      {"ratio", "1.", "1.0"},
      // Not what the schema allows, or nothing that can be read.
      {"content", "['a', 'b']", R"("['a', 'b']")"},
      {"content", "TRUE", R"("TRUE")"},
      {"free", "['a']", R"("['a']")"},
      {"either", "{'a': 1}", R"("{'a': 1}")"},
      {"obj", "['a']", R"("['a']")"},
      {"items", "[1 2]", R"("[1 2]")"},
      {"items", "['a', b]", R"("['a', b]")"},
      {"items", "['it's']", R"("['it's']")"},
      {"items", "[,]", R"("[,]")"},
      {"items", "['a'] x", R"("['a'] x")"},
      {"items", "[nan]", R"("[nan]")"},
      {"obj", "{'a'}", R"("{'a'}")"},
      {"obj", "{a: 1}", R"("{a: 1}")"},
      {"limit", "2026-01-15", R"("2026-01-15")"},
      {"limit", "1__0", R"("1__0")"},
      {"limit", "TRUE", R"("TRUE")"},
      {"on", "yes", R"("yes")"},
      {"opt", ".", R"(".")"},
  };
  for (const auto& c : cases)
    reads_xml(parameter(c.key, c.text), fmt::format(R"({{"{}": {}}})", c.key, c.json));
}

std::string in_tags(const std::string& inside) {
  return "<tool_call>\n" + inside + "\n</tool_call>";
}

TEST(JsonCalls, ThatAreNearlyJson) {
  const struct {
    const char *written, *json;
  } cases[] = {
      {"{\"content\": \"a\nb\t\r\"}", R"({"content": "a\nb\t\r"})"},
      {R"({"content": "\d+ \s it\'s C:\Users\x"})", R"({"content": "\\d+ \\s it's C:\\Users\\x"})"},
      {R"({"path": "a",})", R"({"path": "a"})"},
      {R"({"on": True, "opt": None})", R"({"on": true, "opt": null})"},
      {R"({'path': 'a}"'})", R"({"path": "a}\""})"},
  };
  for (const auto& c : cases) {
    const std::string written = c.written, call = R"({"name": "f", "arguments": )" + written + "}";
    const std::vector<std::pair<std::string, std::string>> one = {{"f", c.json}};
    reads(ToolFormat::tagged, in_tags(call), one);
    reads(ToolFormat::tagged, "So:\n" + in_tags(call) + "\n" + in_tags(R"({"name": "g", "arguments": {}})"),
          {{"f", c.json}, {"g", "{}"}}, "So:");
    for (const ToolFormat form : {ToolFormat::tagged, ToolFormat::plain}) {
      reads(form, call, one);
      reads(form, "```json\n" + call + "\n```", one);
      reads(form, "[" + call + "]", one);
    }
    reads(ToolFormat::plain, "<|python_tag|>" + call + ";" + call, {one[0], one[0]});
    reads(ToolFormat::mistral, "[TOOL_CALLS]f[ARGS]" + written, one);
    reads(ToolFormat::mistral, "[TOOL_CALLS][" + call + "]", one);
  }
  // The escapes of the arguments in a string were written once, not twice.
  reads(ToolFormat::tagged, in_tags(R"({"name": "f", "arguments": "{\"path\": \"a\nb\"}"})"),
        {{"f", R"({"path": "a\nb"})"}});
}

TEST(JsonCalls, WithBracketsThatDoNotMatch) {
  const std::string call = R"({"name": "f", "arguments": {"path": "a"}})";
  const std::vector<std::pair<std::string, std::string>> one = {{"f", R"({"path": "a"})"}};
  for (const size_t missing : {size_t{1}, size_t{2}})
    reads(ToolFormat::tagged, in_tags(call.substr(0, call.size() - missing)), one);
  reads(ToolFormat::tagged, in_tags("[" + call), one);
  for (const char* more : {"}", "}}", "]", "}\n"}) reads(ToolFormat::tagged, in_tags(call + more), one);
  reads(ToolFormat::plain, call + "}", one);
  reads(ToolFormat::tagged, in_tags("[" + call + ", " + call + "]"), {one[0], one[0]});
  // Without the mark it may go on, and the next call is another one.
  stays_text(ToolFormat::tagged, "<tool_call>\n" + call.substr(0, call.size() - 1));
  reads(ToolFormat::tagged,
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"path\": 'a <tool_call>" + call + "</tool_call>", one,
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"path\": 'a");
  reads(
      ToolFormat::tagged,
      "<tool_call>{\"name\": \"f\", \"arguments\": {\"path\": 'a <tool_call>" + call + "</tool_call> it's <x",
      one, "<tool_call>{\"name\": \"f\", \"arguments\": {\"path\": 'ait's <x");
}

// The turn ended behind a whole call of a list.
TEST(JsonCalls, InAListWithoutItsEnd) {
  const std::string call = R"({"name": "f", "arguments": {"path": "TEXT"}})";
  for (const std::string& text : {std::string("a"), "]} " + std::string(100, 'x')}) {
    std::string one = call;
    one.replace(one.find("TEXT"), 4, text);
    const std::pair<std::string, std::string> want = {"f", R"({"path": )" + json_string(text) + "}"};
    for (const auto& [form, open] : {std::pair{ToolFormat::toolcall, "<TOOLCALL>["},
                                     {ToolFormat::listed, "<|tool_call|>["},
                                     {ToolFormat::calls_tag, "<tool_calls>[\n"}}) {
      reads(form, open + one, {want});
      reads(form, open + one + ",\n" + one + "\n", {want, want});
      EXPECT_TRUE(cut(open + call, rules_for(form)).calls.empty()) << "another one may follow";
      stays_text(form, open + call.substr(0, call.size() - 1));
    }
  }
  stays_text(ToolFormat::plain, "[" + call);
}

// As the example in Qwen2.5-Coder's template shows them.
TEST(JsonCalls, WithDoubledBraces) {
  const std::string call = R"({{"name": "f", "arguments": {"path": "a {{x}}"}}})",
                    arguments = R"({"path": "a {{x}}"})";
  for (const char* more : {"", "}", "\n", "}\n"}) {
    reads(ToolFormat::tagged, call + more, {{"f", arguments}});
    reads(ToolFormat::plain, call + more, {{"f", arguments}});
    reads(ToolFormat::tagged, "<tool_call>\n" + call + more + "</tool_call>", {{"f", arguments}});
    reads(ToolFormat::tagged, "Look:\n<tool_call>\n" + call + more + "</tool_call>", {{"f", arguments}},
          "Look:");
  }
  reads(ToolFormat::tagged, call + "\n" + call, {{"f", arguments}, {"f", arguments}});
  reads(ToolFormat::tagged, "```json\n" + call + "\n```", {{"f", arguments}});
  reads(ToolFormat::tagged, "{\n  " + call.substr(1), {{"f", arguments}});
  for (const char* text : {"{{", "{{ f }}", "{{{", R"({{"name": "unknown", "arguments": {}}})",
                           R"({{"name": "f"}})", R"({{"name": "f", "arguments": {}}} is how I would call it)",
                           R"(Write {{"name": "f", "arguments": {}}})"})
    stays_text(ToolFormat::tagged, text);
}

TEST(JsonCalls, ThatAreNoCalls) {
  for (const char* inside :
       {R"({"name": "f", "arguments": {"content": "He said "hi" to"}})", R"({'name': 'f'})",
        R"({"name": "f",})", R"({"name": "f", "arguments": {"path": }})",
        R"({"name": "f", "arguments": {"path" "a",}})", R"({"name": "f", "arguments": ["a",]})",
        R"({"name": "f", "arguments": Trues})", R"({"name": "f", "arguments": {"a": 01,}})", R"(["f", 'x'])",
        R"({"name": "f", "arguments": {"path": "a)"})
    stays_text(ToolFormat::tagged, in_tags(inside));
  stays_text(ToolFormat::plain, R"({'name': 'other', 'parameters': {}})");
  stays_text(ToolFormat::plain, "{'a': True} is Python");
}

TEST(GemmaCalls, QuotesAndBareValues) {
  const struct {
    const char *written, *json;
  } cases[] = {
      {"items:['ds_1', 'b']", R"({"items": ["ds_1", "b"]})"},
      {"path:'a.txt'", R"({"path": "a.txt"})"},
      {"items:['a, b', 'c}']", R"({"items": ["a, b", "c}"]})"},
      {"obj:{'a': 'x', b:[True, {c:'y'}]}", R"({"obj": {"a": "x", "b": [true, {"c": "y"}]}})"},
      {"'path':\"a\nb\",limit:3", R"({"path": "a\nb", "limit": 3})"},
      {"path:<|\"|>a<|\"|>,", R"({"path": "a"})"},
      {"items:[1,2,],", R"({"items": [1, 2]})"},
      {"items:[<|\"|>it's<|\"|>,'it\\'s']", R"({"items": ["it's", "it's"]})"},
      // Values at the top are of the schema's types.
      {"path:5,content:true,free:5", R"({"path": "5", "content": "true", "free": 5})"},
      {"limit:'5',ratio:<|\"|>0.5<|\"|>,on:TRUE,opt:null",
       R"({"limit": 5, "ratio": 0.5, "on": true, "opt": null})"},
      {"free:'5',either:'[1]',limit:<|\"|>five<|\"|>", R"({"free": "5", "either": "[1]", "limit": "five"})"},
      {"limit:<|\"|><|\"|>,path:<|\"|><|\"|>", R"({"path": ""})"},
      {"items:<|\"|>[\"a\"]<|\"|>", R"({"items": ["a"]})"},
      // Apostrophes are text.
      {"path:'tis", R"({"path": "'tis"})"},
      {"path:'tis,content:it's", R"({"path": "'tis", "content": "it's"})"},
      {"path:'tis,content:<|\"|>it's, so'<|\"|>", R"({"path": "'tis", "content": "it's, so'"})"},
      {"path:'tis,content:<|\"|>so', b<|\"|>", R"({"path": "'tis", "content": "so', b"})"},
      {"items:['a' 'b']", R"({"items": ["'a' 'b'"]})"},
      {"path:rock 'n' roll", R"({"path": "rock 'n' roll"})"},
      {"content:<|\"|>She said \"hi\" and {x}<|\"|>", R"({"content": "She said \"hi\" and {x}"})"},
  };
  for (const auto& c : cases) {
    const std::string call = std::string("<|tool_call>call:f{") + c.written + "}<tool_call|>";
    reads(ToolFormat::gemma4, call, {{"f", c.json}});
    reads(ToolFormat::gemma4, call + call, {{"f", c.json}, {"f", c.json}});
    reads(ToolFormat::gemma4, call.substr(0, call.find("<tool_call|>")), {{"f", c.json}});
    std::string other = std::string("<start_function_call>call:f{") + c.written + "}<end_function_call>";
    for (size_t at; (at = other.find("<|\"|>")) != std::string::npos;) other.replace(at, 5, "<escape>");
    reads(ToolFormat::function_gemma, other, {{"f", c.json}});
  }
  for (const char* written : {"path", "path:\"a", "path:,limit:1", ",", "items:['a'"})
    stays_text(ToolFormat::gemma4, std::string("<|tool_call>call:f{") + written + "}<tool_call|>");
}

TEST(LenientJson, IsBounded) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + "'a'" + std::string(depth, ']'); };
  EXPECT_TRUE(lenient_json(nested(100)).has_value());
  EXPECT_FALSE(lenient_json(nested(1000)).has_value());
  EXPECT_FALSE(lenient_json(std::string(1'000'000, '[')).has_value());
  EXPECT_TRUE(lenient_json("['" + std::string(kMaxCallBytes - 4, 'a') + "']").has_value());
  EXPECT_FALSE(lenient_json("['" + std::string(kMaxCallBytes - 3, 'a') + "']").has_value());
  std::string keys = "{";
  for (int i = 0; i < 5000; i++) keys += fmt::format("'k{}': 1,", i);
  EXPECT_FALSE(lenient_json(keys + "}").has_value());
  for (const char* text : {"", " ", "'a'", "1", "None", "['\xff']", "[", "{", "['a", "[True", "[1,"})
    EXPECT_FALSE(lenient_json(text).has_value()) << text;
}

// JSON has the same value, whatever its white space and escapes.
TEST(LenientJson, ReadsJsonAsJson) {
  std::mt19937 rng(3);
  const std::vector<std::string> parts = {"{",       "}",
                                          "[",       "]",
                                          ",",       ":",
                                          " ",       "\n",
                                          "\"a\"",   "\"\\u00e9\\\"'\"",
                                          "\"b\"",   "1",
                                          "-2.50e3", "true",
                                          "null",    "\"\\ud83d\\ude00\\/\""};
  int values = 0;
  for (int round = 0; round < 200'000; ++round) {
    std::string text = rng() % 2 == 0 ? "[" : "{";
    for (size_t n = rng() % 9; n > 0; --n) text += parts[rng() % parts.size()];
    const auto json = parse_json(text);
    if (!json.ok()) continue;
    const auto read = lenient_json(text);
    ASSERT_TRUE(read.has_value()) << text;
    ASSERT_EQ(parse_json(*read).value(), *json) << text;
    ++values;
  }
  EXPECT_GT(values, 500);
}

}  // namespace
}  // namespace anabranch
