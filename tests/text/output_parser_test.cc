#include "text/output_parser.h"

#include <gtest/gtest.h>

#include <random>

#include "base/mapped_file.h"
#include "text/utf8.h"

namespace anabranch::text {

std::ostream& operator<<(std::ostream& out, const ToolCall& call) {
  return out << call.name << testing::PrintToString(call.arguments);
}
std::ostream& operator<<(std::ostream& out, const ParsedOutput& p) {
  return out << "{reasoning " << testing::PrintToString(p.reasoning) << ", content "
             << testing::PrintToString(p.content) << ", calls " << testing::PrintToString(p.calls) << '}';
}

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

OutputRules rules(ToolForm form, bool open = false) {
  return {{form == ToolForm::mistral ? kMistralThink : form == ToolForm::gemma4 ? kChannel : kThink, form},
          tools(), open, INT_MAX};
}

// Cut at the given places; joins what comes out and checks the order of each call's events.
ParsedOutput stream(const std::vector<std::string>& pieces, const OutputRules& rules) {
  OutputParser parser(rules);
  std::vector<OutputEvent> events;
  for (const auto& piece : pieces) parser.push(piece, events);
  parser.finish(events);
  ParsedOutput out;
  int calls = 0;
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_TRUE(is_valid_utf8(events[i].text));
    out.add(events[i]);
    if (events[i].kind == OutputEvent::Kind::call_begin) {
      EXPECT_EQ(events[i].call, calls++);
      EXPECT_EQ(events.at(i + 1).kind, OutputEvent::Kind::call_arguments);
      EXPECT_EQ(events.at(i + 2).kind, OutputEvent::Kind::call_end);
      EXPECT_TRUE(Json::accept(events.at(i + 1).text)) << events.at(i + 1).text;
    }
  }
  EXPECT_EQ(calls, static_cast<int>(out.calls.size()));
  return out;
}

struct Case {
  ToolForm form;
  std::string text;
  ParsedOutput want;
  bool open = false;
};

using Calls = std::vector<ToolCall>;
const ToolCall kNow{"now", "{}"};
const ToolCall kParis{"weather", R"({"city": "Paris"})"};
constexpr auto kTagged = ToolForm::tagged, kPlain = ToolForm::plain, kMistral = ToolForm::mistral,
               kGemma = ToolForm::gemma4, kFunctionGemma = ToolForm::function_gemma, kNone = ToolForm::none;

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
      {kTagged, "<tool_call>" + paris + "</tool_call>\n<tool_call>\n" + now + "</tool_call> Done.",
       {"", "Done.", {kParis, kNow}}},
      {kTagged, "<tool_call>" + paris + "\n" + now + "</tool_call>", {"", "", {kParis, kNow}}},
      {kTagged, "<think>Which?</think>\n\n<tool_call>" + paris + "</tool_call>", {"Which?", "", {kParis}}},
      // Marks within strings are text; numbers stay as they are; any name is passed on.
      {kTagged,
       R"(<tool_call>{"name": "x", "arguments": {"s": "</tool_call>\"}<think>", "n": 1.10, "m": 123456789012345678901}}</tool_call>)",
       {"", "", {{"x", R"({"s": "</tool_call>\"}<think>", "n": 1.10, "m": 123456789012345678901})"}}}},
      {kTagged, R"(<tool_call>{"arguments": "{\"city\": \"Paris\"}", "name": "weather"}</tool_call>)",
       {"", "", {kParis}}},
      {kTagged, R"(<tool_call>{"type":"function","function":{"name":"now","parameters":null}}</tool_call>)",
       {"", "", {kNow}}},
      {kTagged, R"(<tool_call>{"name":"now"}</tool_call>)", {"", "", {kNow}}},
      // Left open by the model; but whole.
      {kTagged, "<tool_call>" + paris, {"", "", {kParis}}},
      {kTagged, "<tool_call>" + paris + "</tool_", {"", "", {kParis}}},
      {kTagged, "<tool_call>" + paris + "\n<tool_call>" + now, {"", "", {kParis, kNow}}},
      // Broken: the text stays.
      {kTagged, "<tool_call>{}</tool_call>", {"", "<tool_call>{}</tool_call>", {}}},
      {kTagged, "a <tool_call> b", {"", "a <tool_call> b", {}}},
      {kTagged, "a\n<tool_call>{\"name\": \"now\", \"argu", {"", "a\n<tool_call>{\"name\": \"now\", \"argu", {}}},
      {kTagged, "<tool_call>{'name': 'now'}</tool_call>", {"", "<tool_call>{'name': 'now'}</tool_call>", {}}},
      {kTagged, "<tool_call>{\"name\": \"now\", \"arguments\": [1]}</tool_call>",
       {"", "<tool_call>{\"name\": \"now\", \"arguments\": [1]}</tool_call>", {}}},
      {kTagged, "<tool_call>{\"name\" <tool_call>" + now + "</tool_call>",
       {"", "<tool_call>{\"name\"", {kNow}}},
      {kTagged, "<tool_call>{\"a\": \"<tool_call>" + now, {"", "<tool_call>{\"a\": \"<tool_call>" + now, {}}},
      {kTagged, "<tool_call>", {"", "<tool_call>", {}}},
      {kTagged, "<tool_c", {"", "<tool_c", {}}},
      // No tools in this form.
      {kNone, "<tool_call>" + paris + "</tool_call>", {"", "<tool_call>" + paris + "</tool_call>", {}}},
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
      {kTagged, "I could write <tool_call>, then </think>Yes", {"I could write <tool_call>, then", "Yes", {}}, true},
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
      {kTagged, "Looking.\n\n" + call(parameter("city", "Paris")) + "\n" + call("", "now"),
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
      {kTagged, "<tool_call><function=now></function><function=now></function></tool_call> ok",
       {"", "ok", {kNow, kNow}}},
      // Broken.
      {kTagged, "<tool_call>\n<function=now>\nok", {"", "<tool_call>\n<function=now>\nok", {}}},
      {kTagged, "<tool_call><function=weather><parameter=city>\nPar",
       {"", "<tool_call><function=weather><parameter=city>\nPar", {}}},
      {kTagged, "<tool_call><function=a\nb></function></tool_call>",
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
      {kMistral, R"([TOOL_CALLS]weather[ARGS]{"city": "Paris"}[TOOL_CALLS]now[ARGS]{})",
       {"", "", {kParis, kNow}}},
      {kMistral, R"([TOOL_CALLS]weather[CALL_ID]abc123[ARGS] {"city": "Paris"})", {"", "", {kParis}}},
      {kMistral, R"([TOOL_CALLS]weather{"city": "Paris"})", {"", "", {kParis}}},
      {kMistral, R"([THINK]a[TOOL_CALLS]now[ARGS]{})", {"a", "", {kNow}}},
      {kMistral, "[TOOL_CALLS]weather[ARGS]Paris", {"", "[TOOL_CALLS]weather[ARGS]Paris", {}}},
      {kMistral, "[TOOL_CALLS][1]", {"", "[TOOL_CALLS][1]", {}}},
      {kMistral, "[TOOL_CALLS][{\"name\": \"now\"}, {\"na", {"", "[TOOL_CALLS][{\"name\": \"now\"}, {\"na", {}}},
      {kGemma, R"(<|tool_call>call:weather{city:<|"|>Paris<|"|>}<tool_call|>)",
       {"", "", {{"weather", R"({"city":"Paris"})"}}}},
      {kGemma,
       R"(<|tool_call>call:weather{city:<|"|>a "b" {c}<|"|>,days:3,exact:true,limits:{a:[1,<|"|>x<|"|>]},tags:[]}<tool_call|><|tool_call>call:now{}<tool_call|>)",
       {"", "", {{"weather", R"({"city":"a \"b\" {c}","days":3,"exact":true,"limits":{"a":[1,"x"]},"tags":[]})"}, kNow}}},
      {kGemma, "<|channel>thought\nHm <|tool_call>call:now{}<tool_call|>", {"Hm", "", {kNow}}},
      {kGemma, "<|tool_call>call:now{", {"", "<|tool_call>call:now{", {}}},
      {kGemma, "<|tool_call>call:now{city}<tool_call|>", {"", "<|tool_call>call:now{city}<tool_call|>", {}}},
      {kGemma, R"(<|tool_call>call:weather{"city": "a}b", days: 03}<tool_call|>)",
       {"", "", {{"weather", R"({"city":"a}b","days":"03"})"}}}},
      {kFunctionGemma,
       "<start_function_call>call:weather{city:<escape>Paris<escape>,days:2}<end_function_call>",
       {"", "", {{"weather", R"({"city":"Paris","days":2})"}}}},
  };
}

void check(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const OutputRules with = rules(c.form, c.open);
    ASSERT_EQ(parse_output(c.text, with), c.want) << c.text;
    for (size_t i = 0; i <= c.text.size(); ++i) {
      if (i < c.text.size() && (c.text[i] & 0xC0) == 0x80) continue;  // pieces are UTF-8
      ASSERT_EQ(stream({c.text.substr(0, i), c.text.substr(i)}, with), c.want) << c.text << " cut at " << i;
    }
    std::vector<std::string> characters;
    for (const char byte : c.text) {
      if ((byte & 0xC0) != 0x80) characters.emplace_back();
      characters.back() += byte;
    }
    ASSERT_EQ(stream(characters, with), c.want) << c.text << " by characters";
  }
}

TEST(OutputParser, Reasoning) { check(reasoning_cases()); }
TEST(OutputParser, JsonInTags) { check(json_cases()); }
TEST(OutputParser, CallsInUnclosedReasoning) { check(unclosed_cases()); }
TEST(OutputParser, Xml) { check(xml_cases()); }
TEST(OutputParser, LlamaMistralGemma) { check(other_cases()); }

}  // namespace
}  // namespace anabranch::text
