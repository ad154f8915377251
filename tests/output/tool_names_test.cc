#include "output/tool_names.h"

#include <gtest/gtest.h>

#include "output/output_parser.h"
#include "tools_named.h"

namespace anabranch {
namespace {

TEST(ToolNames, WhatStandsBehindABorderIsAShortName) {
  const Json tools =
      tools_named({"weather__get", "mcp__github__create_issue", "plain_name", "__init", "a__", "b___c"});
  const std::map<std::string, std::string, std::less<>> expected = {
      {"get", "weather__get"},
      {"github__create_issue", "mcp__github__create_issue"},
      {"create_issue", "mcp__github__create_issue"},
      {"c", "b___c"}};
  EXPECT_EQ(short_names(tools), expected);
  EXPECT_EQ(offered_name(tools, "get"), "weather__get");
  EXPECT_EQ(offered_name(tools, "plain_name"), "plain_name");
  EXPECT_EQ(offered_name(tools, "nothing"), "nothing");
  EXPECT_EQ(offered_name(Json(), "get"), "get");
}

TEST(ToolNames, WhatSeveralToolsCouldMeanIsNone) {
  const Json tools = tools_named({"a__get", "b__get", "c__set", "set"});
  EXPECT_TRUE(short_names(tools).empty());
  EXPECT_EQ(offered_name(tools, "get"), "get");
  EXPECT_EQ(offered_name(tools, "set"), "set") << "a tool's own name means that tool";
}

TEST(ToolNames, TheNamespaceOfFunctionsIsLeftOut) {
  const Json tools = tools_named({"get", "functions.set", "set"});
  EXPECT_EQ(offered_name(tools, "functions.get"), "get");
  EXPECT_EQ(offered_name(tools, "functions.set"), "functions.set") << "a tool's own name means that tool";
  EXPECT_EQ(offered_name(tools, "functions.nothing"), "functions.nothing");
  EXPECT_EQ(offered_name(tools, "functions."), "functions.");
}

TEST(ToolNames, NamesThatNoCallCanHaveAreLeftOut) {
  std::string name = "a";
  while (name.size() < 40'000) name += "__a";
  EXPECT_TRUE(short_names(tools_named({name})).empty());
}

TEST(ToolNames, ACallByAShortNameComesOutWithTheWholeOne) {
  const auto tools = std::make_shared<const Json>(
      Json::parse(R"([{"type": "function", "function": {"name": "s__add", "parameters":
      {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}}}])"));
  const auto call = [&](ToolFormat form, std::string_view text) {
    const auto out = parse_output(text, {.format = {.tools = form}, .tools = tools});
    return out.calls.size() == 1 ? out.calls[0].name + out.calls[0].arguments : out.content;
  };
  EXPECT_EQ(
      call(ToolFormat::tagged, "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n</tool_call>"),
      "s__add{\"a\": 1}");
  EXPECT_EQ(call(ToolFormat::tagged,
                 "<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\n1\n</"
                 "parameter>\n</function>\n</tool_call>"),
            "s__add{\"a\": 1, \"b\": \"1\"}");
  EXPECT_EQ(call(ToolFormat::plain, "{\"name\": \"add\", \"parameters\": {\"a\": 1}}"), "s__add{\"a\": 1}");
  EXPECT_EQ(call(ToolFormat::mistral, "[TOOL_CALLS]add[ARGS]{\"a\": 1}"), "s__add{\"a\": 1}");
  EXPECT_EQ(call(ToolFormat::key_tags,
                 "<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"),
            "s__add{\"a\": 1}");
  EXPECT_EQ(call(ToolFormat::gemma4, "<|tool_call>call:add{a:1}<tool_call|>"), "s__add{\"a\":1}");
  EXPECT_EQ(call(ToolFormat::tagged, "<tool_call>\n{\"name\": \"sub\", \"arguments\": {}}\n</tool_call>"),
            "sub{}");
}

}  // namespace
}  // namespace anabranch
