#include <gtest/gtest.h>

#include <random>

#include "base/white_space.h"
#include "output/output_parser.h"
#include "output/streamed.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

const ReasoningTags kThink;
const ReasoningTags kMistralThink{"[THINK]", "[/THINK]", ""};
const ReasoningTags kChannel{"<|channel>thought", "<channel|>", "<|channel>"};

Json tools() {
  return Json::parse(R"([
    {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {
      "city": {"type": "string"}, "days": {"type": "integer"}, "exact": {"type": "boolean"},
      "limits": {"type": "object"}, "tags": {"type": "array"}, "note": {"type": ["string", "null"]},
      "unit": {"enum": ["C", "F"]}, "any": {}, "either": {"anyOf": [{"type": "integer"}, {"type": "string"}]},
      "level": {"enum": [1, 2]}}}}},
    {"type": "function", "function": {"name": "now"}}])");
}

OutputRules rules(ToolFormat form, bool open = false) {
  return {{form == ToolFormat::mistral  ? kMistralThink
           : form == ToolFormat::gemma4 ? kChannel
                                        : kThink,
           form},
          std::make_shared<const Json>(tools()),
          open,
          INT_MAX};
}

struct Case {
  ToolFormat form;
  std::string text;
  ParsedOutput want;
  bool open = false;
};

using Calls = std::vector<ToolCall>;
const ToolCall kNow{"now", "{}"};
const ToolCall kParis{"weather", R"({"city": "Paris"})"};
constexpr auto kTagged = ToolFormat::tagged, kPlain = ToolFormat::plain, kMistral = ToolFormat::mistral,
               kGemma = ToolFormat::gemma4, kFunctionGemma = ToolFormat::function_gemma,
               kNone = ToolFormat::none;

std::vector<Case> reasoning_cases() {
  return {
      {kNone, "<think>\nHm.\n</think>\n\nYes.", {"Hm.", "Yes.", {}}},
      {kNone, "Hm.\n</think>\n\nYes.", {"Hm.", "Yes.", {}}, true},
      {kNone, "\n\n</think>\n\nYes.", {"", "Yes.", {}}, true},
      {kTagged, "Yes. ", {"", "Yes. ", {}}},
      {kTagged, " Yes.\n\n \n", {"", " Yes.\n\n \n", {}}},
      {kTagged, "Not done ", {"Not done", "", {}}, true},
      {kTagged, "It ends in </thi", {"It ends in </thi", "", {}}, true},
      {kTagged, "<think>a</think></think>b", {"a", "b", {}}},
      {kTagged, "<think>a", {"a", "", {}}, true},
      {kTagged, "a<think>b</think>c<think>d</think>e", {"bd", "ace", {}}},
      {kTagged, "a <think> b </think> c", {"b", "a c", {}}},
      {kMistral, "[THINK]Hm.[/THINK]Yes [1].", {"Hm.", "Yes [1].", {}}},
      {kGemma, "<|channel>thought\nHm.\n<channel|>Yes.", {"Hm.", "Yes.", {}}},
      {kGemma, "<|channel>thought\n<channel|>Yes.", {"", "Yes.", {}}},
  };
}

std::vector<Case> json_cases() {
  const std::string paris = R"({"name": "weather", "arguments": {"city": "Paris"}})";
  const std::string now = R"({"name": "now", "arguments": {}})";
  return {
      {kTagged, "<tool_call>\n" + paris + "\n</tool_call>", {"", "", {kParis}}},
      {kTagged, "Let me look.\n\n<tool_call>" + paris + "</tool_call>\n", {"", "Let me look.", {kParis}}},
      {kTagged,
       "<tool_call>" + paris + "</tool_call>\n<tool_call>\n" + now + "</tool_call> Done.",
       {"", "Done.", {kParis, kNow}}},
      {kTagged, "<tool_call>" + paris + "\n" + now + "</tool_call>", {"", "", {kParis, kNow}}},
      {kTagged, "<think>Which?</think>\n\n<tool_call>" + paris + "</tool_call>", {"Which?", "", {kParis}}},
      // Marks within strings are text; numbers stay as they are; any name is passed on.
      {kTagged,
       R"(<tool_call>{"name": "x", "arguments": {"s": "</tool_call>\"}<think>", "n": 1.10, "m": 123456789012345678901}}</tool_call>)",
       {"", "", {{"x", R"({"s": "</tool_call>\"}<think>", "n": 1.10, "m": 123456789012345678901})"}}}},
      {kTagged,
       R"(<tool_call>{"arguments": "{\"city\": \"Paris\"}", "name": "weather"}</tool_call>)",
       {"", "", {kParis}}},
      {kTagged,
       R"(<tool_call>{"type":"function","function":{"name":"now","parameters":null}}</tool_call>)",
       {"", "", {kNow}}},
      {kTagged, R"(<tool_call>{"name":"now"}</tool_call>)", {"", "", {kNow}}},
      // Left open by the model; but whole.
      {kTagged, "<tool_call>" + paris, {"", "", {kParis}}},
      {kTagged, "<tool_call>" + paris + "</tool_", {"", "", {kParis}}},
      {kTagged, "<tool_call>" + paris + "\n<tool_call>" + now, {"", "", {kParis, kNow}}},
      // Broken: the text stays.
      {kTagged, "<tool_call>{}</tool_call>", {"", "<tool_call>{}</tool_call>", {}}},
      {kTagged, "a <tool_call> b", {"", "a <tool_call> b", {}}},
      {kTagged,
       "a\n<tool_call>{\"name\": \"now\", \"argu",
       {"", "a\n<tool_call>{\"name\": \"now\", \"argu", {}}},
      {kTagged, "<tool_call>{'name': 'now'}</tool_call>", {"", "<tool_call>{'name': 'now'}</tool_call>", {}}},
      {kTagged,
       "<tool_call>{\"name\": \"now\", \"arguments\": [1]}</tool_call>",
       {"", "<tool_call>{\"name\": \"now\", \"arguments\": [1]}</tool_call>", {}}},
      {kTagged,
       "<tool_call>{\"name\" <tool_call>" + now + "</tool_call>",
       {"", "<tool_call>{\"name\"", {kNow}}},
      {kTagged, "<tool_call>{\"a\": \"<tool_call>" + now, {"", "<tool_call>{\"a\": \"<tool_call>" + now, {}}},
      {kTagged, "<tool_call>", {"", "<tool_call>", {}}},
      {kTagged, "<tool_c", {"", "<tool_c", {}}},
      // No tools in this form.
      {kNone, "<tool_call>" + paris + "</tool_call>", {"", "<tool_call>" + paris + "</tool_call>", {}}},
  };
}

std::vector<Case> untagged_cases() {
  const std::string paris = R"({"name": "weather", "arguments": {"city": "Paris"}})";
  const std::string now = R"({"name": "now", "arguments": {}})";
  const auto text = [](const std::string& said) { return Case{kTagged, said, {"", said, {}}}; };
  return {
      {kTagged, paris, {"", "", {kParis}}},
      {kTagged, "\n" + paris + "\n" + now, {"", "", {kParis, kNow}}},
      {kTagged, "[" + paris + ", " + now + "]", {"", "", {kParis, kNow}}},
      {kTagged, "```json\n" + paris + "\n```", {"", "", {kParis}}},
      {kTagged, "<think>Which?</think>\n\n" + paris, {"Which?", "", {kParis}}},
      text("So: " + paris),
      text(paris + " is how."),
      text(R"({"name": "Bob", "arguments": {}})"),
      text(R"({"city": "Paris"})"),
      text(R"({"name": "now"})"),
      text("```python\nprint(1)\n```"),
      text("{\"name\": \"weather\", \"arg"),
  };
}

std::vector<Case> unclosed_cases() {
  const std::string call = R"(<tool_call>{"name": "now", "arguments": {}}</tool_call>)";
  return {
      {kTagged, "Let me see.\n" + call, {"Let me see.", "", {kNow}}, true},
      {kTagged, "<think>Let me see.\n" + call + "\n" + call + "\n", {"Let me see.", "", {kNow, kNow}}},
      {kTagged, "Hm. " + call + " And more.", {"Hm.And more.", "", {kNow}}, true},
      {kTagged, "Hm " + call + " no.\n</think>\n\nNo call.", {"Hm " + call + " no.", "No call.", {}}, true},
      {kTagged, "Hm " + call + "\n</think>\n" + call, {"Hm " + call, "", {kNow}}, true},
      {kTagged, "a" + call + "<think>b</think>c", {"ab", "c", {kNow}}, true},
      {kTagged,
       "I could write <tool_call>, then </think>Yes",
       {"I could write <tool_call>, then", "Yes", {}},
       true},
      {kTagged, "<tool_call>\n</think>\n\n" + call, {"<tool_call>", "", {kNow}}, true},
      {kTagged, "<tool_call>{\"na", {"<tool_call>{\"na", "", {}}, true},
  };
}

std::vector<Case> xml_cases() {
  const auto call = [](const std::string& parameters, const std::string& name = "weather") {
    return "<tool_call>\n<function=" + name + ">\n" + parameters + "</function>\n</tool_call>";
  };
  const auto parameter = [](const std::string& key, const std::string& value) {
    return "<parameter=" + key + ">\n" + value + "\n</parameter>\n";
  };
  const auto one = [](const std::string& json) { return ParsedOutput{"", "", {{"weather", json}}}; };
  const std::string code = "if (a < b) {\n  s = \"</parameter>\";\n}\n";
  return {
      {kTagged, call(parameter("city", "Paris")), one(R"({"city": "Paris"})")},
      {kTagged,
       "Looking.\n\n" + call(parameter("city", "Paris")) + "\n" + call("", "now"),
       {"", "Looking.", {kParis, kNow}}},
      {kTagged, call(parameter("city", "12") + parameter("days", "12") + parameter("exact", "true")),
       one(R"({"city": "12", "days": 12, "exact": true})")},
      {kTagged, call(parameter("days", "many") + parameter("exact", "True") + parameter("any", "None")),
       one(R"({"days": "many", "exact": true, "any": null})")},
      {kTagged, call(parameter("limits", "{\"a\": [1.0, 2]}") + parameter("tags", "[\"x\",\n 3]")),
       one("{\"limits\": {\"a\": [1.0, 2]}, \"tags\": [\"x\",\n 3]}")},
      {kTagged, call(parameter("note", "null") + parameter("unit", "5") + parameter("level", "2")),
       one(R"({"note": null, "unit": "5", "level": 2})")},
      {kTagged, call(parameter("note", "4") + parameter("either", "4") + parameter("other", "4")),
       one(R"({"note": "4", "either": 4, "other": 4})")},
      {kTagged, call(parameter("any", "x y") + parameter("either", "four")),
       one(R"({"any": "x y", "either": "four"})")},
      {kTagged, call(parameter("city", code)), one("{\"city\": " + json_string(code) + "}")},
      {kTagged, call(parameter("city", "")), one(R"({"city": ""})")},
      {kTagged, call("<parameter=city>Köln 你好</parameter>"), one("{\"city\": \"Köln 你好\"}")},
      {kTagged, call(parameter("days", "1") + parameter("days", "2")), one(R"({"days": 2})")},
      // Known slips: no opening tag, no </function>, no closing tag, two functions in one block.
      {kTagged, "<function=now>\n</function>\n</tool_call>", {"", "", {kNow}}},
      {kTagged, "<tool_call><function=now></tool_call>", {"", "", {kNow}}},
      {kTagged, "<tool_call>\n<function=now>\n</function>\n", {"", "", {kNow}}},
      {kTagged,
       "<tool_call><function=now></function><function=now></function></tool_call> ok",
       {"", "ok", {kNow, kNow}}},
      // Broken.
      {kTagged, "<tool_call>\n<function=now>\nok", {"", "<tool_call>\n<function=now>\nok", {}}},
      {kTagged,
       "<tool_call><function=weather><parameter=city>\nPar",
       {"", "<tool_call><function=weather><parameter=city>\nPar", {}}},
      {kTagged,
       "<tool_call><function=a\nb></function></tool_call>",
       {"", "<tool_call><function=a\nb></function></tool_call>", {}}},
      {kTagged, "Use <function=x to call.", {"", "Use <function=x to call.", {}}},
  };
}

std::vector<Case> other_cases() {
  const std::string paris = R"({"name": "weather", "parameters": {"city": "Paris"}})";
  const std::string now = R"({"name": "now", "parameters": {}})";
  return {
      {kPlain, paris, {"", "", {kParis}}},
      {kPlain, "\n " + paris + " \n", {"", "", {kParis}}},
      {kPlain, "<|python_tag|>" + paris, {"", "", {kParis}}},
      {kPlain, "<|python_tag|>" + paris + "; " + now, {"", "", {kParis, kNow}}},
      {kPlain, paris + ";" + now + "\n" + now, {"", "", {kParis, kNow, kNow}}},
      {kPlain, "[" + paris + ", " + now + "]", {"", "", {kParis, kNow}}},
      {kPlain, "```json\n" + paris + "\n```", {"", "", {kParis}}},
      {kPlain, "<think>Hm.</think>\n" + paris, {"Hm.", "", {kParis}}},
      {kPlain, paris + " is how.", {"", paris + " is how.", {}}},
      {kPlain, "So: " + paris, {"", "So: " + paris, {}}},
      {kPlain, R"({"name": "Bob", "parameters": {}})", {"", R"({"name": "Bob", "parameters": {}})", {}}},
      {kPlain, R"({"name": "now"})", {"", R"({"name": "now"})", {}}},
      {kPlain, "```python\nprint(1)\n```", {"", "```python\nprint(1)\n```", {}}},
      {kPlain, "<|python_tag|>print(1)", {"", "print(1)", {}}},
      {kPlain, "[1] is a list", {"", "[1] is a list", {}}},
      {kPlain, "{\"name\": \"weather\", \"par", {"", "{\"name\": \"weather\", \"par", {}}},
      {kMistral, R"([TOOL_CALLS][{"name": "weather", "arguments": {"city": "Paris"}}])", {"", "", {kParis}}},
      {kMistral,
       R"(Ok [TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Paris"}, "id": "a"}, {"name": "now"}])",
       {"", "Ok", {kParis, kNow}}},
      {kMistral,
       R"([TOOL_CALLS]weather[ARGS]{"city": "Paris"}[TOOL_CALLS]now[ARGS]{})",
       {"", "", {kParis, kNow}}},
      {kMistral, R"([TOOL_CALLS]weather[CALL_ID]abc123[ARGS] {"city": "Paris"})", {"", "", {kParis}}},
      {kMistral, R"([TOOL_CALLS]weather{"city": "Paris"})", {"", "", {kParis}}},
      {kMistral, R"([THINK]a[TOOL_CALLS]now[ARGS]{})", {"a", "", {kNow}}},
      {kMistral, "[TOOL_CALLS]weather[ARGS]Paris", {"", "[TOOL_CALLS]weather[ARGS]Paris", {}}},
      {kMistral, "[TOOL_CALLS][1]", {"", "[TOOL_CALLS][1]", {}}},
      {kMistral,
       "[TOOL_CALLS][{\"name\": \"now\"}, {\"na",
       {"", "[TOOL_CALLS][{\"name\": \"now\"}, {\"na", {}}},
      {kGemma,
       R"(<|tool_call>call:weather{city:<|"|>Paris<|"|>}<tool_call|>)",
       {"", "", {{"weather", R"({"city":"Paris"})"}}}},
      {kGemma,
       R"(<|tool_call>call:weather{city:<|"|>a "b" {c}<|"|>,days:3,exact:true,limits:{a:[1,<|"|>x<|"|>]},tags:[]}<tool_call|><|tool_call>call:now{}<tool_call|>)",
       {"",
        "",
        {{"weather", R"({"city":"a \"b\" {c}","days":3,"exact":true,"limits":{"a":[1,"x"]},"tags":[]})"},
         kNow}}},
      {kGemma, "<|channel>thought\nHm <|tool_call>call:now{}<tool_call|>", {"Hm", "", {kNow}}},
      {kGemma, "<|tool_call>call:now{", {"", "<|tool_call>call:now{", {}}},
      {kGemma, "<|tool_call>call:now{city}<tool_call|>", {"", "<|tool_call>call:now{city}<tool_call|>", {}}},
      {kGemma,
       R"(<|tool_call>call:weather{"city": "a}b", days: 03}<tool_call|>)",
       {"", "", {{"weather", R"({"city":"a}b","days":"03"})"}}}},
      {kFunctionGemma,
       "<start_function_call>call:weather{city:<escape>Paris<escape>,days:2}<end_function_call>",
       {"", "", {{"weather", R"({"city":"Paris","days":2})"}}}},
  };
}

void check(const std::vector<Case>& cases) {
  for (const Case& c : cases) expect_at_any_cut(c.text, rules(c.form, c.open), c.want);
}

TEST(OutputParser, Reasoning) {
  check(reasoning_cases());
}
TEST(OutputParser, JsonInTags) {
  check(json_cases());
}
TEST(OutputParser, JsonWithoutItsTags) {
  check(untagged_cases());
  // Not of models that write other calls.
  OutputRules other = rules(kTagged);
  other.format.function_tags = true;
  for (const Case& c : untagged_cases()) EXPECT_TRUE(parse_output(c.text, other).calls.empty()) << c.text;
}
TEST(OutputParser, CallsInUnclosedReasoning) {
  check(unclosed_cases());
}
TEST(OutputParser, Xml) {
  check(xml_cases());
}
TEST(OutputParser, LlamaMistralGemma) {
  check(other_cases());
}

TEST(OutputParser, WithoutToolsCallsAreContent) {
  for (const auto& cases : {json_cases(), untagged_cases(), xml_cases(), other_cases()})
    for (const Case& c : cases) {
      OutputRules without = rules(c.form, c.open);
      for (const Json& none : {Json(), Json::array()}) {
        without.tools = std::make_shared<const Json>(none);
        const ParsedOutput got = parse_output(c.text, without);
        EXPECT_TRUE(got.calls.empty()) << c.text;
        if (got.reasoning.empty() && c.text.find("think>") == std::string::npos) {
          EXPECT_EQ(got.content, c.text);
        }
      }
    }
}

TEST(OutputParser, HoldsBackOnlyWhatMayBecomeSomethingElse) {
  OutputParser parser(rules(kTagged));
  const auto push = [&](std::string_view text) {
    std::vector<OutputEvent> events;
    parser.push(text, events);
    std::string all;
    for (const auto& event : events) all += event.text;
    return all;
  };
  EXPECT_EQ(push("a"), "a");
  EXPECT_EQ(push(" <"), "");
  EXPECT_EQ(push("b"), " <b");
  EXPECT_EQ(push("</think"), "");
  EXPECT_EQ(push("er>"), "</thinker>");
  EXPECT_EQ(push("<think>\n\nwhy"), "why");
  EXPECT_EQ(push(" "), "");
  EXPECT_EQ(push("not\n"), " not");
  EXPECT_EQ(push("</think>\n\nSo"), "So");
  EXPECT_EQ(push("<tool_call>\n"), "");
  EXPECT_EQ(push("no"), "<tool_call>\nno") << "broken at once, not at the end";
  EXPECT_EQ(push("<tool_call>{\"name\": \"now\"}"), "");
  EXPECT_EQ(push("</tool_call>"), "now{}");
  OutputRules without = rules(kTagged);
  without.tools = nullptr;
  OutputParser plain(without);
  std::vector<OutputEvent> events;
  plain.push("Yes. \n", events);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].text, "Yes. \n") << "white space waits only for calls";
}

TEST(OutputParser, WhatIsCutInACallIsDropped) {
  const std::string call = R"(<tool_call>{"name": "now"}</tool_call>)";
  for (size_t size = 11; size < call.size(); size++) {
    const ParsedOutput got = cut("a " + call + call.substr(0, size), rules(kTagged));
    EXPECT_EQ(got.content, "a");
    const bool whole = size > call.find('}');  // only the closing mark is missing
    EXPECT_EQ(got.calls.size(), whole ? 2u : 1u) << size;
  }
  EXPECT_EQ(cut("a <tool_call>nonsense", rules(kTagged)).content, "a <tool_call>nonsense")
      << "it was no call";
  // Without a mark it may be an answer in JSON, unless only calls can come.
  OutputRules plain = rules(kPlain);
  EXPECT_EQ(cut(R"({"name": "no)", plain).content, R"({"name": "no)");
  plain.only_calls = true;
  EXPECT_EQ(cut(R"({"name": "no)", plain).content, "");
}

TEST(OutputParser, TextThatGoesOnIsNotTrimmed) {
  OutputRules open = rules(kTagged, true);
  open.goes_on = true;
  const ParsedOutput got = parse_output(" so\n</think>\n\nYes", open);
  EXPECT_EQ(got.reasoning, " so");
  EXPECT_EQ(got.content, "Yes");
  OutputRules plain = rules(kPlain);
  plain.goes_on = true;
  const std::string json = R"({"name": "now", "parameters": {}})";
  EXPECT_EQ(parse_output(json, plain).content, json);
}

// White space before a thought is the thought's, if nothing else came; otherwise it is content.
TEST(OutputParser, WhiteSpaceBeforeAThought) {
  const OutputRules tools = rules(kTagged);
  OutputRules plain = tools, glm = tools;
  plain.tools = nullptr;
  glm.format.reasoning->blanks_before = true;
  const std::string call = R"(<tool_call>{"name": "f", "arguments": {}}</tool_call>)";
  for (const OutputRules& one : {tools, plain, glm}) {
    expect_at_any_cut("\n<think>a</think>\nYes", one, {"a", "Yes", {}});
    expect_at_any_cut(" \n <think>a</think>Yes\n<think>b</think>c", one, {"ab", "Yes\nc", {}});
    expect_at_any_cut("\nNo\n<think>a</think>b", one,
                      {"a", one.format.reasoning->blanks_before ? "No\nb" : "\nNo\nb", {}});
  }
  expect_at_any_cut("\n", plain, {"", "\n", {}});
  expect_at_any_cut("\n a\n", plain, {"", "\n a\n", {}});
  expect_at_any_cut("\n a\n", glm, {"", "a\n", {}});
  expect_at_any_cut("\n<think>a</think>\n" + call, glm, {"a", "", {{"f", "{}"}}});
  OutputRules on = plain;
  on.goes_on = true;
  expect_at_any_cut("\n<think>a</think>b", on, {"a", "\nb", {}});
}

TEST(OutputParser, StopsAfterTheLastAllowedCall) {
  const std::string call = R"(<tool_call>{"name": "now"}</tool_call>)";
  for (const bool open : {false, true}) {
    OutputRules one = rules(kTagged, open);
    one.max_calls = 1;
    const ParsedOutput got = parse_output("a" + call + call + "b", one);
    EXPECT_EQ(got.calls, Calls{kNow});
    EXPECT_EQ(open ? got.reasoning : got.content, "a");
  }
  OutputRules one = rules(kTagged);
  one.max_calls = 1;
  OutputParser parser(one);
  std::vector<OutputEvent> events;
  parser.push(call, events);
  EXPECT_TRUE(parser.done());
}

// Neither is lost, nor taken for a call, and the time stays linear.
TEST(OutputParser, LimitsSizes) {
  const auto stays = [](const std::string& text) {
    const ParsedOutput got = streamed({text, "!"}, rules(kTagged));
    EXPECT_TRUE(got.calls.empty());
    EXPECT_EQ(got.content, text + "!");
  };
  const std::string begin = "<tool_call>{\"name\": \"now\", \"arguments\": {\"a\": \"";
  // A call that has begun ends at the limit.
  const std::string full = begin + std::string(kMaxCallBytes, 'x');
  const std::string arguments = full.substr(full.find("{\"a\""), kMaxCallBytes - full.find("{\"a\""));
  EXPECT_EQ(streamed({full + "\"}}</tool_call>", "!"}, rules(kTagged)),
            (ParsedOutput{"", "!", {{"now", arguments}}}));
  stays("<tool_call>" + std::string(kMaxCallBytes, ' ') + "{\"name\": \"now\"}</tool_call>");
  stays("<tool_call>" + std::string(200000, '['));
  stays("<tool_call>{\"name\": \"" + std::string(kMaxNameBytes + 1, 'n') + "\"}</tool_call>");
  stays("<tool_call><function=" + std::string(300000, 'n') + "></function></tool_call>");
  std::string nested;
  for (int i = 0; i < 200000; ++i) nested += "<tool_call>{\"";
  stays(nested);
  nested.clear();
  for (int i = 0; i < 100000; ++i) nested += "<function=a><parameter=b></parameter>";
  stays(nested);
  std::string many;
  for (int i = 0; i < kMaxCalls + 1; ++i) many += "<tool_call>{\"name\": \"now\"}</tool_call>";
  const ParsedOutput got = parse_output(many, rules(kTagged));
  EXPECT_EQ(got.calls.size(), static_cast<size_t>(kMaxCalls));
  EXPECT_EQ(got.content, "<tool_call>{\"name\": \"now\"}</tool_call>");
}

std::vector<std::string> fragments(ToolFormat form) {
  std::vector<std::string> all{"<", "</", ">", " ", "\n", "a", "é", "你", "😀",    "\"",   "{",    "}",
                               "[", "]",  ":", ",", "\\", ";", "x", "12", "true", "\\\"", "name", "city"};
  const OutputRules with = rules(form);
  for (int i = 0; i < 3; ++i)
    for (const std::string_view marker : marker_tokens(with)) all.emplace_back(marker);
  all.insert(all.end(), {with.format.reasoning->open, with.format.reasoning->close});
  for (const auto& cases : {json_cases(), unclosed_cases(), xml_cases(), other_cases()})
    for (const Case& c : cases)
      if (c.form == form) all.push_back(c.text);
  if (form == kTagged)
    all.insert(all.end(),
               {"<parameter=city>\n", "\n</parameter>\n", "</function>", "<function=now>", "<tool_call>\n"});
  return all;
}

// Text after each mark is taken out, as the parser does it, and all white space.
std::string without_tags(const std::string& text, const ReasoningTags& tags) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    if (text.compare(i, tags.open.size(), tags.open) == 0)
      i += tags.open.size();
    else if (text.compare(i, tags.close.size(), tags.close) == 0)
      i += tags.close.size();
    else if (std::string_view(kSpace).find(text[i]) != std::string_view::npos)
      ++i;
    else
      out += text[i++];
  }
  return out;
}

TEST(OutputParser, CutsDoNotMatter) {
  std::mt19937 rng(7);
  for (const ToolFormat form : {kNone, kTagged, kPlain, kMistral, kGemma, kFunctionGemma}) {
    const auto parts = fragments(form);
    int with_calls = 0, with_both = 0;
    for (int round = 0; round < 6000; ++round) {
      std::string text;
      std::vector<std::string> pieces(1);
      for (size_t n = rng() % 8; n > 0; --n) {
        std::string part = parts[rng() % parts.size()];
        // A piece of one, now and then, so that it is broken in every way.
        if (rng() % 4 == 0) part.resize(rng() % (part.size() + 1));
        text += replace_invalid_utf8(part);
      }
      const size_t often = 1 + rng() % 12;
      for (size_t i = 0; i < text.size(); ++i) {
        if ((text[i] & 0xC0) != 0x80 && rng() % often == 0) pieces.emplace_back();
        pieces.back() += text[i];
      }
      OutputRules with = rules(form, rng() % 2 == 0);
      if (rng() % 4 == 0) with.max_calls = 1;
      const ParsedOutput want = parse_output(text, with);
      ASSERT_EQ(streamed(pieces, with), want) << ::testing::PrintToString(pieces);
      with_calls += !want.calls.empty();
      with_both += !want.content.empty() && !want.reasoning.empty();
      if (want.calls.empty() && text.find("<|python_tag|>") == std::string::npos) {
        std::string all;
        OutputParser parser(with);
        std::vector<OutputEvent> events;
        parser.push(text, events);
        parser.finish(events);
        for (const auto& event : events) all += event.text;
        ASSERT_EQ(without_tags(all, {"\x01", "\x01", ""}), without_tags(text, *with.format.reasoning))
            << text;
      }
    }
    if (form != kNone) {
      EXPECT_GT(with_calls, 200) << static_cast<int>(form);
    }
    EXPECT_GT(with_both, 50) << static_cast<int>(form);
  }
}

}  // namespace
}  // namespace anabranch
