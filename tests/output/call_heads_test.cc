#include "output/call_heads.h"

#include <gtest/gtest.h>

#include "tools_named.h"

namespace anabranch {
namespace {

using Step = CallHeads::Step;

Step read(const CallHeads& heads, std::string_view text, std::string_view opener = "<tool_call>") {
  auto position = heads.begin(opener);
  return heads.read(position, text);
}

TEST(CallHeads, ANameEndsWhereItsFormEndsIt) {
  const CallHeads heads({.tools = ToolFormat::tagged}, tools_named({"get", "get_time"}));
  for (const char* whole : {"{\"name\": \"get\"", "\n{ \"name\" : \"get_time\"", "\n<function=get>",
                            "<function=get_time>\nanything", "{\"type\": \"function\", \"name\": \"get\""})
    EXPECT_EQ(read(heads, whole), Step::complete) << whole;
  for (const char* part : {"", "\n", "{\"na", "{\"name\": \"get", "{\"name\": \"get_time", "<function=get",
                           "<function=get_time"})
    EXPECT_EQ(read(heads, part), Step::inside) << part;
  for (const char* wrong :
       {"get", "{\"name\": \"get_date", "{\"name\": \"get \"", "{\"names", "{\"arguments", "<function=got",
        "<function = get", "<function=get_time2", "{\"type\": \"tool", "[", "\n\n\n\n\n\n\n\n\n"})
    EXPECT_EQ(read(heads, wrong), Step::broken) << wrong;
  EXPECT_EQ(read(heads, "get_time>", "<function="), Step::complete);
  EXPECT_EQ(read(heads, "\nget>", "<function="), Step::broken);
}

// Only where a number follows the name, ":" ends it.
TEST(CallHeads, NamesWithAColon) {
  const auto tools = tools_named({"files:read"});
  const auto reads = [&](ToolFormat format, const char* opener, const char* text) {
    return read(CallHeads({.tools = format}, tools), text, opener);
  };
  EXPECT_EQ(
      reads(ToolFormat::deepseek, "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>files:read<｜tool▁sep｜>"),
      Step::complete);
  EXPECT_EQ(reads(ToolFormat::kimi, "<|tool_calls_section_begin|>", "<|tool_call_begin|>functions.files:0"),
            Step::broken);
}

TEST(CallHeads, ShortNamesAreNames) {
  const CallHeads heads({.tools = ToolFormat::tagged}, tools_named({"s__get", "s__set", "t__set"}));
  EXPECT_EQ(read(heads, "<function=get>"), Step::complete);
  EXPECT_EQ(read(heads, "<function=s__get>"), Step::complete);
  EXPECT_EQ(read(heads, "<function=set>"), Step::broken) << "two tools could be meant";
}

TEST(CallHeads, NextTellsWhatMayFollow) {
  const CallHeads heads({.tools = ToolFormat::gemma4}, tools_named({"get", "gone"}));
  auto position = heads.begin("<|tool_call>");
  EXPECT_EQ(heads.next(position), "c \t\r\n");
  EXPECT_EQ(heads.read(position, "call:g"), Step::inside);
  EXPECT_EQ(heads.next(position), "eo");
  EXPECT_EQ(heads.read(position, "e"), Step::inside);
  EXPECT_EQ(heads.next(position), "t");
  EXPECT_EQ(heads.read(position, "t{a:1}"), Step::complete);
}

TEST(CallHeads, WithoutNamesNothingIsDemanded) {
  EXPECT_TRUE(CallHeads({.tools = ToolFormat::tagged}, Json()).empty());
  EXPECT_TRUE(CallHeads({.tools = ToolFormat::tagged}, Json::array()).empty());
  EXPECT_TRUE(CallHeads({.tools = ToolFormat::none}, tools_named({"get"})).empty());
  EXPECT_TRUE(CallHeads({.tools = ToolFormat::gemma4}, tools_named({"a{b", ""})).empty());
  EXPECT_TRUE(CallHeads({.tools = ToolFormat::tagged}, tools_named({std::string("a\0b", 3)})).empty());
  EXPECT_FALSE(CallHeads({.tools = ToolFormat::tagged}, tools_named({"a<b"})).empty()) << "JSON can write it";
  EXPECT_TRUE(CallHeads({.tools = ToolFormat::tagged}, Json::array({{{"type", "custom"}}})).empty());
}

}  // namespace
}  // namespace anabranch
