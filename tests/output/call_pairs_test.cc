// Calls whose arguments stand between tags of their own.
#include <gtest/gtest.h>

#include <random>

#include "output/output_parser.h"
#include "output/streamed.h"

namespace anabranch {
namespace {

OutputRules pair_rules(ToolFormat form) {
  OutputRules rules{{ReasoningTags(), form}, std::make_shared<const Json>(Json::parse(R"([
    {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
      "path": {"type": "string"}, "limit": {"type": "integer"}, "on": {"type": "boolean"},
      "obj": {"type": "object"}, "free": {}}}}},
    {"type": "function", "function": {"name": "now"}}])"))};
  return rules;
}

using NamesAndArguments = std::vector<std::pair<std::string, std::string>>;

// The output has these calls and this content, however it is cut.
void expect_calls(ToolFormat form, const std::string& text, const NamesAndArguments& calls,
                  const std::string& content = "") {
  const OutputRules rules = pair_rules(form);
  const ParsedOutput got = parse_output(text, rules);
  expect_at_any_cut(text, rules, got);
  EXPECT_EQ(got.content, content) << text;
  ASSERT_EQ(got.calls.size(), calls.size()) << text;
  for (size_t i = 0; i < calls.size(); i++) {
    EXPECT_EQ(got.calls[i].name, calls[i].first) << text;
    const auto arguments = parse_json(got.calls[i].arguments);
    ASSERT_TRUE(arguments.ok()) << got.calls[i].arguments;
    EXPECT_EQ(*arguments, parse_json(calls[i].second).value()) << text;
  }
}
void expect_text(ToolFormat form, const std::string& text) {
  expect_calls(form, text, {}, text);
}

constexpr auto kKeyTags = ToolFormat::key_tags;

std::string glm_pair(const std::string& key, const std::string& value, const char* line = "\n") {
  return "<arg_key>" + key + "</arg_key>" + line + "<arg_value>" + value + "</arg_value>" + line;
}

TEST(KeyTags, AreRead) {
  const auto reads = [](const std::string& inside, const std::string& arguments, const char* name = "f") {
    expect_calls(kKeyTags, "<tool_call>" + inside + "</tool_call>", {{name, arguments}});
  };
  reads("f\n" + glm_pair("path", "a.txt") + glm_pair("limit", "3") + glm_pair("obj", R"({"a": [1]})"),
        R"({"path": "a.txt", "limit": 3, "obj": {"a": [1]}})");
  reads("f" + glm_pair("path", "a.txt", "") + glm_pair("on", "true", ""), R"({"path": "a.txt", "on": true})");
  reads("\nf\n" + glm_pair(" path ", " a\nb ") + "\n", R"({"path": " a\nb "})");
  reads("f\n" + glm_pair("path", "") + glm_pair("limit", " "), R"({"path": ""})");
  reads("now\n", "{}", "now");
  reads("now", "{}", "now");
  reads("other\n" + glm_pair("a", "1"), R"({"a": 1})", "other");
  reads("f\n" + glm_pair("limit", "3") + glm_pair("limit", "4"), R"({"limit": 4})");
  reads("{\"name\": \"f\", \"arguments\": {\"limit\": 3}}", R"({"limit": 3})");
}

TEST(KeyTags, StringsStayStrings) {
  for (const std::string value : {"12", "true", "null", "{\"a\": 1}", " \"q\" ", "é", "1.0"})
    expect_calls(kKeyTags, "<tool_call>f\n" + glm_pair("path", value) + "</tool_call>",
                 {{"f", dump_json(Json{{"path", value}})}});
}

TEST(KeyTags, TagsInAValue) {
  for (const std::string value :
       {"x</arg_value>y<arg_key>z</arg_key>", "</tool_call>", "<arg_value>a</arg_value>.", "a</arg_val", "<<",
        "</arg_value></arg_value", "<tool_call>now\n</tool_call>"})
    expect_calls(kKeyTags, "<tool_call>f\n" + glm_pair("path", value) + "</tool_call>",
                 {{"f", dump_json(Json{{"path", value}})}});
  const Json object = {{"a", glm_pair("path", "b") + "</tool_call>"}};
  expect_calls(kKeyTags, "<tool_call>f\n" + glm_pair("obj", dump_json(object)) + "</tool_call>",
               {{"f", dump_json(Json{{"obj", object}})}});
  const Json on_a_line = {{"a", glm_pair("path", "b", "") + "</tool_call>"}};
  expect_calls(kKeyTags, "<tool_call>f\n" + glm_pair("obj", dump_json(on_a_line)) + "</tool_call>",
               {{"f", dump_json(Json{{"obj", on_a_line}})}});
}

TEST(KeyTags, SeveralCalls) {
  const std::string first = "<tool_call>f\n" + glm_pair("path", "a") + "</tool_call>";
  expect_calls(kKeyTags, "Two: " + first + "\n<tool_call>now\n</tool_call>",
               {{"f", R"({"path": "a"})"}, {"now", "{}"}}, "Two:");
  expect_calls(kKeyTags, first + "<tool_call>f" + glm_pair("limit", "7", "") + "</tool_call>\nDone.",
               {{"f", R"({"path": "a"})"}, {"f", R"({"limit": 7})"}}, "Done.");
}

// The model ended its turn where only the closing tag is missing.
TEST(KeyTags, WithoutTheClosingTag) {
  const std::string call = "<tool_call>f\n<arg_key>limit</arg_key>\n<arg_value>3</arg_value>";
  for (const char* rest : {"", "\n", "\n</tool", "\n</tool_call"})
    expect_calls(kKeyTags, call + rest, {{"f", R"({"limit": 3})"}});
  EXPECT_EQ(cut(call, pair_rules(kKeyTags)), ParsedOutput());
}

// Another call begins where the closing tag is missing: it is no part of the value.
TEST(KeyTags, AnotherCallWithoutTheClosingTag) {
  const std::string first = "<tool_call>f\n" + glm_pair("path", "a");
  expect_calls(kKeyTags, first + "<tool_call>f\n" + glm_pair("limit", "3") + "</tool_call>\nDone.",
               {{"f", R"({"path": "a"})"}, {"f", R"({"limit": 3})"}}, "Done.");
  const std::string value = "a</arg_value>\n<tool_cal l>";
  expect_calls(kKeyTags, "<tool_call>f\n" + glm_pair("path", value) + "</tool_call>",
               {{"f", dump_json(Json{{"path", value}})}});
}

TEST(KeyTags, WhatOnlyLooksLikeACall) {
  for (const std::string& inside :
       {std::string("other\n"), std::string("no"), std::string("f is a tool\n" + glm_pair("path", "a")),
        std::string("f\n<arg_key></arg_key><arg_value>x</arg_value>"),
        std::string("f\n<arg_key>path</arg_key>a"), "f\n" + glm_pair("path", "a") + "x",
        std::string("f\ntext"), std::string(""), std::string("\n"),
        "f\n" + glm_pair(std::string(257, 'k'), "a"), std::string(257, 'f') + "\n" + glm_pair("a", "a")})
    expect_text(kKeyTags, "<tool_call>" + inside + "</tool_call>");
  expect_text(kKeyTags, "<tool_call>f\n<arg_key>" + std::string(300, 'k'));
  expect_text(kKeyTags, "Write <tool_call>f\n");
  expect_text(kKeyTags, "Write <arg_key>path</arg_key>, or <function=f>");
  expect_calls(kKeyTags, "<tool_call>no<tool_call>now</tool_call>", {{"now", "{}"}}, "<tool_call>no");
}

// A long string goes out while it is written, and no part of its closing tag does.
TEST(KeyTags, Streams) {
  const std::string text(200, 'x');
  OutputParser parser(pair_rules(kKeyTags));
  std::vector<OutputEvent> events;
  parser.push("<tool_call>f\n<arg_key>path</arg_key>\n<arg_value>" + text + "</arg_value>\n<arg", events);
  ParsedOutput so_far;
  for (const OutputEvent& event : events) so_far.add(event);
  ASSERT_EQ(so_far.calls.size(), 1u);
  EXPECT_EQ(so_far.calls[0].arguments, "{\"path\": \"" + text);
  const std::string call = "<tool_call>f\n" + glm_pair("path", text + "\"\n") + glm_pair("limit", "3");
  expect_calls(kKeyTags, call + "</tool_call>",
               {{"f", dump_json(Json{{"path", text + "\"\n"}, {"limit", 3}})}});
  // One that has begun stays a call, and ends early.
  const ParsedOutput broken = parse_output(call + "<arg_key></arg_key></tool_call>Bye", pair_rules(kKeyTags));
  EXPECT_EQ(broken.content, "Bye");
  ASSERT_EQ(broken.calls.size(), 1u);
  EXPECT_FALSE(parse_json(broken.calls[0].arguments).ok());
  expect_at_any_cut(call + "<arg_key></arg_key></tool_call>Bye", pair_rules(kKeyTags), broken);
}

std::string invoke(const std::string& name, const NamesAndArguments& parameters) {
  std::string out = "<invoke name=\"" + name + "\">\n";
  for (const auto& [key, value] : parameters)
    out += "<parameter name=\"" + key + "\">" + value + "</parameter>\n";
  return out + "</invoke>\n";
}
std::string minimax_block(const std::string& inside) {
  return "<minimax:tool_call>\n" + inside + "</minimax:tool_call>";
}

TEST(MiniMaxCalls, AreRead) {
  constexpr auto kForm = ToolFormat::minimax;
  const std::string first = invoke("f", {{"path", "12"}, {"limit", "3"}, {"obj", "{\"a\": \"</invoke>\"}"}});
  const std::string arguments = R"({"path": "12", "limit": 3, "obj": {"a": "</invoke>"}})";
  expect_calls(kForm, minimax_block(first), {{"f", arguments}});
  expect_calls(kForm, "I look.\n" + minimax_block(first + invoke("now", {})) + "\nSo.",
               {{"f", arguments}, {"now", "{}"}}, "I look.So.");
  expect_calls(kForm, minimax_block(first) + minimax_block(invoke("other", {{"a", "1"}})),
               {{"f", arguments}, {"other", R"({"a": 1})"}});
  for (const std::string value :
       {"a</parameter>b", "</parameter></par", "<invoke name=\"now\">", " a\n", "</minimax:tool_call>"})
    expect_calls(kForm, minimax_block(invoke("f", {{"path", value}})),
                 {{"f", dump_json(Json{{"path", value}})}});
  // The closing mark is missing, or comes after text.
  expect_calls(kForm, "<minimax:tool_call>\n" + first, {{"f", arguments}});
  expect_calls(kForm, "<minimax:tool_call>\n" + first + "Bye", {{"f", arguments}}, "Bye");
  expect_calls(kForm, "So:<minimax:tool_call>\n" + first + " </minimal", {{"f", arguments}}, "So:</minimal");
  const std::string text(200, 'y');
  expect_calls(kForm, minimax_block(invoke("f", {{"path", text}}) + first),
               {{"f", dump_json(Json{{"path", text}})}, {"f", arguments}});
}

// Without </invoke> the block's end, or another call, ends the call.
TEST(MiniMaxCalls, WithoutTheClosingTag) {
  constexpr auto kForm = ToolFormat::minimax;
  const std::string open = "<invoke name=\"f\">\n<parameter name=\"path\">a</parameter>\n";
  expect_calls(kForm, minimax_block(open) + "\nDone.", {{"f", R"({"path": "a"})"}}, "Done.");
  expect_calls(kForm, minimax_block(open + invoke("f", {{"limit", "3"}})),
               {{"f", R"({"path": "a"})"}, {"f", R"({"limit": 3})"}});
  expect_calls(kForm, minimax_block("<invoke name=\"now\">\n"), {{"now", "{}"}});
}

TEST(MiniMaxCalls, WhatOnlyLooksLikeACall) {
  for (const std::string& inside :
       {std::string(""), std::string("invoke"), std::string("<invoke name=\"\">\n</invoke>\n"),
        std::string("<invoke>f</invoke>"), invoke("no", {}), std::string("<invoke name=\"f\">text</invoke>"),
        std::string("<invoke name=\"f\">\n<parameter name=\"\">a</parameter></invoke>")})
    expect_text(ToolFormat::minimax, minimax_block(inside));
  expect_text(ToolFormat::minimax, "Write " + invoke("now", {}) + "alone.");
  expect_text(ToolFormat::minimax, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>");
}

constexpr auto kPython = ToolFormat::python;

std::string listed_python(const std::string& inside) {
  return "<|tool_call_start|>[" + inside + "]<|tool_call_end|>";
}

TEST(PythonCalls, AreRead) {
  const auto reads = [](const std::string& inside, const std::string& arguments) {
    expect_calls(kPython, listed_python("f(" + inside + ")"), {{"f", arguments}});
  };
  reads("", "{}");
  reads("path=\"a.txt\", limit=3", R"({"path": "a.txt", "limit": 3})");
  reads("path='it\\'s', on=True,", R"({"path": "it's", "on": true})");
  reads(" path = \"a, b)\" ,\n limit = -7 ", R"j({"path": "a, b)", "limit": -7})j");
  reads("obj={'a': [1, None, True], \"b\": ')'}", R"j({"obj": {"a": [1, null, true], "b": ")"}})j");
  reads("free=[1, 'x'], on=False", R"({"free": [1, "x"], "on": false})");
  reads("free=None, path=None", R"({"free": null})");
  reads("free=2.5", R"({"free": 2.5})");
  reads("free=False", R"({"free": false})");
  reads("limit=1, limit=2", R"({"limit": 2})");
  reads("path='''a'b\"\n''', limit=0", R"({"path": "a'b\"\n", "limit": 0})");
  reads("path='''a', limit=9''', on=True", R"({"path": "a', limit=9", "on": true})");
  reads("path='', limit=0", R"({"path": "", "limit": 0})");
  reads(R"(path="\n\t\\\"\x41\u00e9\ud83d\ude00\U0001F600\d\/")", R"({"path": "\n\t\\\"Aé😀😀\\d\\/"})");
  reads(R"(path="\x4, \u12, \U1F600")", R"({"path": "\\x4, \\u12, \\U1F600"})");
  // Half of a pair is no character; a line may go on in the next one.
  reads(R"(path="\ud83d, \ud83d\u0041, \udE00")", R"({"path": "\\ud83d, \\ud83dA, \\udE00"})");
  reads("path='a\\\nb'", R"({"path": "ab"})");
  reads("path='é]<|tool_call_end|>'", R"({"path": "é]<|tool_call_end|>"})");
  reads("path='it's the dogs' bone', limit=1", R"({"path": "it's the dogs' bone", "limit": 1})");
  reads("path=\"say \"hi\" twice\" , on=True", R"({"path": "say \"hi\" twice", "on": true})");
}

TEST(PythonCalls, StringsStayStrings) {
  for (const std::string value : {"12", "true", "None", "[1]", "{}"})
    for (const std::string quote : {"\"", "'"})
      expect_calls(kPython, listed_python("f(path=" + quote + value + quote + ", free='7')"),
                   {{"f", dump_json(Json{{"path", value}, {"free", "7"}})}});
  expect_calls(kPython, listed_python("f(path=12)"), {{"f", R"({"path": "12"})"}});
  expect_calls(kPython, listed_python("f(path=True)"), {{"f", R"({"path": "True"})"}});
  expect_calls(kPython, listed_python("f(limit='12')"), {{"f", R"({"limit": 12})"}});
}

TEST(PythonCalls, AWordOfTheSchemaAroundAllArgumentsIsLeftOut) {
  const auto reads = [](const std::string& inside, const std::string& arguments) {
    expect_calls(kPython, listed_python("f(" + inside + ")"), {{"f", arguments}});
  };
  for (const char* word : {"properties", "parameters", "arguments", "args", "kwargs"})
    reads(std::string(word) + R"(={"path": "12", "limit": 3})", R"({"path": "12", "limit": 3})");
  reads(R"(args={"limit": 12345678901234567890123, "free": 1.10})",
        R"({"limit": 12345678901234567890123, "free": 1.10})");
  reads("arguments={'unknown': 1}", R"({"arguments": {"unknown": 1}})");
  reads("arguments={}", R"({"arguments": {}})");
  reads("arguments='path'", R"({"arguments": "path"})");
  reads("obj={'path': 'a'}", R"({"obj": {"path": "a"}})");
  reads("arguments={'path': 'a'}, limit=1", R"({"arguments": {"path": "a"}, "limit": 1})");
}

TEST(PythonCalls, SeveralCalls) {
  const NamesAndArguments three = {{"f", R"({"limit": 1})"}, {"now", "{}"}, {"a.b", R"({"x": "y"})"}};
  expect_calls(kPython, "See:" + listed_python("f(limit=1), now(),\na.b(x='y')") + "Done.", three,
               "See:Done.");
  expect_calls(kPython, listed_python("f(limit=1)") + "\n" + listed_python("now(), a.b(x='y')"), three);
  expect_calls(kPython, "<|tool_call_start|>now()<|tool_call_end|>", {{"now", "{}"}});
  expect_calls(kPython, "<|tool_call_start|>[now()]", {{"now", "{}"}});
  expect_calls(kPython, "<|tool_call_start|>[now()], now()", {{"now", "{}"}}, ", now()");
  expect_calls(kPython, listed_python("{\"name\": \"f\", \"arguments\": {\"limit\": 1}}"), {three[0]});
  EXPECT_EQ(cut("<|tool_call_start|>[f(limit=1", pair_rules(kPython)), ParsedOutput());
}

TEST(PythonCalls, WhatOnlyLooksLikeACall) {
  for (const std::string& inside :
       {std::string(""), std::string("f"), std::string("f(1)"), std::string("f(path)"), std::string("f(=1)"),
        std::string("f(path='a' 'b')"), std::string("f(path='a' + 'b')"), std::string("f(,)"),
        std::string("f(limit=1,,on=True)"), std::string("f(path='a)"), std::string("f(free=(1, 2))"),
        std::string("f(free=[1)"), std::string("f(limit=1])"), std::string("f(\"path\"=1)"),
        std::string("f (limit=1)"), std::string("f(free={a b})"), std::string("f(limit=)"),
        std::string("(limit=1)"), std::string(257, 'f') + "()"})
    expect_text(kPython, listed_python(inside));
  expect_text(kPython, "Call [f(limit=1)] or f(path='a').");
  std::string keywords;
  for (int i = 0; i < 1025; i++) keywords += "a=1,";
  expect_text(kPython, listed_python("f(" + keywords + ")"));
}

// Any mixture of their parts gives the same in pieces, and calls whose arguments are objects or begin as one.
TEST(CallsInTheirOwnTags, AnyText) {
  const std::pair<ToolFormat, std::vector<std::string>> forms[] = {
      {kKeyTags,
       {"<tool_call>", "</tool_call>", "f", "now", "\n", "<arg_key>", "</arg_key>", "<arg_value>",
        "</arg_value>", "path", "limit", "obj", "3", "{\"a\": ", "}", "<", "é",
        "<tool_call>f<arg_key>path</arg_key><arg_value>01234567890123456789012345678901234567890123456789"}},
      {ToolFormat::minimax,
       {"<minimax:tool_call>", "</minimax:tool_call>", "<invoke name=\"f\">", "<invoke name=\"", "</invoke>",
        "\n", "<parameter name=\"path\">", "<parameter name=\"obj\">", "</parameter>", "\">", "now",
        "{\"a\": ", "}", "<",
        "<minimax:tool_call><invoke name=\"f\"><parameter "
        "name=\"path\">01234567890123456789012345678901234567890"}},
      {kPython,
       {"<|tool_call_start|>",
        "<|tool_call_end|>",
        "[",
        "]",
        "f(",
        "now(",
        ")",
        ", ",
        "path=",
        "limit=",
        "obj=",
        "'",
        "\"",
        "\\",
        "3",
        "{'a': ",
        "}",
        "None",
        "\n",
        "é",
        "<|tool_call_start|>[f(path='"}}};
  std::mt19937 rng(7);
  int calls = 0;
  for (const auto& [form, parts] : forms) {
    const OutputRules rules = pair_rules(form);
    for (int round = 0; round < 1500; ++round) {
      std::string text = parts[0];
      for (size_t n = 4 + rng() % 14; n > 0; --n) text += parts[rng() % parts.size()];
      const ParsedOutput whole = parse_output(text, rules);
      std::vector<std::string> characters, halves(2);
      for (const char c : text) {
        if ((c & 0xC0) != 0x80) characters.emplace_back();
        characters.back() += c;
      }
      const size_t middle = rng() % characters.size();
      for (size_t i = 0; i < characters.size(); i++) halves[i < middle ? 0 : 1] += characters[i];
      ASSERT_EQ(streamed(characters, rules), whole) << text;
      ASSERT_EQ(streamed(halves, rules), whole) << text;
      calls += static_cast<int>(whole.calls.size());
    }
  }
  EXPECT_GT(calls, 100);
}

// Seed-OSS: a block for each call, in which there may be several.
TEST(CallPairs, SeedOss) {
  const auto call = [](const std::string& inside) {
    return "<seed:tool_call>\n" + inside + "\n</seed:tool_call>";
  };
  const std::string
      one = "<function=f>\n<parameter=path>a <b>\nc</parameter>\n<parameter=limit>3</parameter>\n</function>",
      now = "<function=now>\n</function>";
  const std::string arguments = R"({"path": "a <b>\nc", "limit": 3})";
  expect_calls(ToolFormat::seed, call(one), {{"f", arguments}});
  expect_calls(ToolFormat::seed, "So.\n" + call(one) + "\n" + call(now), {{"f", arguments}, {"now", "{}"}},
               "So.");
  expect_calls(ToolFormat::seed, call(one + "\n" + now), {{"f", arguments}, {"now", "{}"}});
  // Python's spelling, and closing tags that are missing where the model ends.
  expect_calls(
      ToolFormat::seed,
      call("<function=f>\n<parameter=on>True</parameter>\n<parameter=obj>{'a': 1}</parameter>\n</function>"),
      {{"f", R"({"on": true, "obj": {"a": 1}})"}});
  expect_calls(ToolFormat::seed, "<seed:tool_call>\n" + one, {{"f", arguments}});
  expect_text(ToolFormat::seed, "Write <function=f> between <seed:tool_call> tags.");
}

}  // namespace
}  // namespace anabranch
