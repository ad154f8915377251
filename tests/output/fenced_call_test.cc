#include "output/fenced_call.h"

#include <gtest/gtest.h>

#include "output/output_parser.h"
#include "output/streamed.h"

namespace anabranch {
namespace {

const std::string kCall = R"({"name": "f", "arguments": {"path": "a```b"}})";
const std::string kFenced = "```json\n" + kCall + "\n```";

OutputRules rules_for(ToolFormat format) {
  const Json tools =
      Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
    "properties": {"path": {"type": "string"}}}}}, {"type": "function", "function": {"name": "shop__g"}}])");
  return {{ReasoningTags(), format}, std::make_shared<const Json>(tools)};
}

void gives(const std::string& text, const ParsedOutput& want) {
  for (const ToolFormat format : {ToolFormat::tagged, ToolFormat::plain})
    expect_at_any_cut(text, rules_for(format), want);
}
void stays_text(const std::string& text) {
  gives(text, {"", text, {}});
}

TEST(FencedCalls, AtTheEndOfAnAnswer) {
  const ToolCall call{"f", R"({"path": "a```b"})"};
  for (const char* before : {"To find it, I use `f`.\n\n", "So:\n  ", "# Plan\r\n"})
    for (const std::string& fenced :
         {kFenced, kFenced + "\n", "```\n" + kCall + "\n```", "```json" + kCall + "```",
          "```tool_call\n" + kCall,
          std::string(
              "```json\n{\n  \"name\" : \"f\",\n  \"parameters\": {\"path\": \"a```b\"}\n}\n```\n\n")}) {
      std::string content = before;
      content.resize(content.find_last_not_of(" \r\n") + 1);
      gives(before + fenced, {"", content, {call}});
    }
  gives("<think>Hm.</think>\n\nSo:\n" + kFenced, {"Hm.", "So:", {call}});
  gives("Twice:\n```json\n" + kCall + "\n" + kCall + "\n```", {"", "Twice:", {call, call}});
  gives("So:\n```json\n{\"name\": \"g\", \"arguments\": {}}\n```", {"", "So:", {{"shop__g", "{}"}}});
  gives("So:\n```json\n{{\"name\": \"f\", \"arguments\": {}}}\n```", {"", "So:", {{"f", "{}"}}});
  gives("Code:\n```python\nprint(1)\n```\nAnd:\n" + kFenced,
        {"", "Code:\n```python\nprint(1)\n```\nAnd:", {call}});
}

TEST(FencedCalls, BehindAThoughtInAnAnswer) {
  const ToolCall call{"f", R"({"path": "a```b"})"};
  for (const char* between : {"", "\n"})
    gives(std::string("So:\n<think>Hm.</think>") + between + kFenced, {"Hm.", "So:\n", {call}});
}

// To run the last one alone would leave out what it may depend on.
TEST(FencedCalls, SeveralAreOnlyShown) {
  stays_text("So:\n" + kFenced + "\n\nAnd:\n" + kFenced);
  stays_text("So:\n" + kFenced + "\n" + kFenced);
}

TEST(FencedCalls, ThatAreOnlyShown) {
  stays_text("So:\n" + kFenced + "\nThis is how it is called.");
  stays_text("So: " + kFenced);
  stays_text("So:\n" + kCall);
  for (const char* inside :
       {R"({"name": "h", "arguments": {}})", R"({"name": "f"})", R"({"name": "f", "version": 1})",
        R"({"title": "f", "arguments": {}})", R"(["f"])", R"({"name": "f", "arguments": 1})",
        R"({"name": "f", "arguments": {)", "", "`", R"({"name")"})
    for (const char* close : {"\n```", ""}) stays_text(std::string("So:\n```json\n") + inside + close);
}

TEST(FencedCalls, CutOffOrWithoutToolsAreText) {
  const std::string text = "So:\n" + kFenced;
  OutputRules none = rules_for(ToolFormat::tagged);
  none.tools = nullptr;
  expect_at_any_cut(text, none, {"", text, {}});
  const std::string half = text.substr(0, text.size() - 8);
  EXPECT_EQ(cut(half, rules_for(ToolFormat::tagged)), (ParsedOutput{"", half, {}}));
}

// Other code streams while it is written.
TEST(FencedCalls, OtherCodeIsNotHeldBack) {
  OutputParser parser(rules_for(ToolFormat::tagged));
  std::vector<OutputEvent> events;
  parser.push("So:\n```json\n{\"name\": \"f\", \"version\": [1, ", events);
  ParsedOutput got;
  for (const OutputEvent& event : events) got.add(event);
  EXPECT_EQ(got.content, "So:\n```json\n{\"name\": \"f\", \"version\": [1,");
}

TEST(FencedCalls, HeadsAreCertainAsSoonAsTheyAreWhole) {
  const Json tools = *rules_for(ToolFormat::tagged).tools;
  const std::string whole = "```json\n{\"name\": \"f\", \"arguments\"";
  for (size_t size = 0; size < whole.size(); size++)
    EXPECT_EQ(fenced_call_head(whole.substr(0, size), tools), Scan::more) << size;
  EXPECT_EQ(fenced_call_head(whole, tools), Scan::complete);
  EXPECT_EQ(fenced_call_head("```" + std::string(33, 'x'), tools), Scan::broken);
  EXPECT_EQ(fenced_call_head("```" + std::string(65, ' '), tools), Scan::broken);
  EXPECT_EQ(fenced_call_head("```{\"name\": \"" + std::string(257, 'f'), tools), Scan::broken);
}

}  // namespace
}  // namespace anabranch
