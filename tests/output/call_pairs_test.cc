// Calls whose arguments stand between tags of their own.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace anabranch
