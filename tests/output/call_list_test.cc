// Lists of calls, and several calls in one block, while the model writes them.
#include <gtest/gtest.h>

#include "output/output_parser.h"
#include "output/streamed.h"
#include "output/tool_call.h"

namespace anabranch {
namespace {

using Kind = OutputEvent::Kind;

OutputRules rules_for(ToolFormat form) {
  const Json tools = Json::parse(R"([
    {"type": "function", "function": {"name": "write", "parameters": {"type": "object",
      "properties": {"path": {"type": "string"}, "content": {"type": "string"}}}}},
    {"type": "function", "function": {"name": "look"}}])");
  return {{ReasoningTags(), form}, std::make_shared<const Json>(tools)};
}

const std::string kLong =
    "first line of a file, which is long enough\nsecond \"quoted\" line\n\n  é 😀\t</div>";
const std::string kArguments = R"({"content": )" + json_string(kLong) + "}";
const std::string kCall = R"({"name": "write", "arguments": )" + kArguments + "}";
const std::string kLook = "<tool_call>\n{\"name\": \"look\", \"arguments\": {}}\n</tool_call>";

// A list whose later calls are not quite JSON, or no calls.
TEST(CallList, OddLists) {
  const std::string one = kCall, tail = "]</tool_call>";
  const ToolCall call{"write", kArguments};
  const std::tuple<std::string, std::vector<ToolCall>> cases[] = {
      {one + ", {'name': 'look', 'arguments': {}}", {call, {"look", "{}"}}},
      {one + ", " + one + ", {'name': 'look', 'arguments': {}},", {call, call, {"look", "{}"}}},
      {R"({"name": "other", "arguments": {}}, )" + one, {{"other", "{}"}, call}},
      {R"({"name": "look"}, )" + one, {{"look", "{}"}, call}},
      {R"({"arguments": {"a": 1}, "name": "look"}, )" + one, {{"look", R"({"a": 1})"}, call}},
      {R"({'name': 'look', 'arguments': {}}, )" + one,
       {{"look", "{}"}, {"write", R"({"content":)" + json_string(kLong) + "}"}}},
      {one + ", " + one.substr(0, one.size() - 2) + " oops}}",
       {call, {"write", kArguments.substr(0, kArguments.size() - 1)}}},
      {one + ", " + one + ", 5", {call, call}},
  };
  for (const auto& [list, want] : cases)
    expect_at_any_cut("<tool_call>[" + list + tail, rules_for(ToolFormat::tagged), {"", "", want});
  // What stands before the name is longer than beginnings are read.
  const std::string late = R"({"id": ")" + std::string(1100, 'x') + R"(", "name": "look", "arguments": {}})";
  OutputParser parser(rules_for(ToolFormat::tagged));
  std::vector<OutputEvent> events;
  parser.push("<tool_call>[" + late + ", " + one, events);
  ParsedOutput so_far;
  for (const OutputEvent& event : events) so_far.add(event);
  ASSERT_GE(so_far.calls.size(), 1u);
  EXPECT_EQ(so_far.calls[0], (ToolCall{"look", "{}"}));
  OutputRules limited = rules_for(ToolFormat::tagged);
  limited.max_calls = 1;
  expect_at_any_cut("<tool_call>[" + one + ", " + one + tail, limited, {"", "", {call}});
}

// The rest of a list may be no calls: the first one has begun, and stays.
TEST(CallList, AListWhoseRestIsNoCall) {
  const std::string& first = kCall;
  std::string many;
  for (size_t i = 0; i < kMaxCalls; i++) many += R"(, {"name": "look", "arguments": {}})";
  for (const ToolFormat form : {ToolFormat::tagged, ToolFormat::mistral})
    for (const std::string& rest :
         {std::string(", 5]"), std::string(R"(, {"name": "look", "arguments": "x"}])"), many + "]"})
      for (const std::string& after : {std::string(), std::string("</tool_call>\n") + kLook}) {
        const bool tagged = form == ToolFormat::tagged;
        if (!tagged && !after.empty()) continue;
        const std::string text = (tagged ? "<tool_call>\n[" : "[TOOL_CALLS][") + first + rest + after;
        for (const bool limited : {false, true}) {
          OutputRules rules = rules_for(form);
          if (limited) rules.max_calls = 1;
          OutputParser parser(rules);
          std::vector<OutputEvent> events;
          for (size_t i = 0; i < text.size(); i += 50) parser.push(text.substr(i, 50), events);
          parser.finish(events, true);
          ParsedOutput out;
          for (const auto& event : events) out.add(event);
          ASSERT_FALSE(out.calls.empty()) << text.substr(0, 300);
          EXPECT_EQ(out.calls[0].name, "write");
          EXPECT_EQ(out.calls[0].arguments, kArguments);
          EXPECT_EQ(out.content, "");
          const auto end = std::ranges::find(events, Kind::call_end, &OutputEvent::kind);
          EXPECT_TRUE(end->whole);
          EXPECT_EQ(out.calls.size(), after.empty() || limited ? 1u : 2u) << text.substr(text.size() - 100);
        }
      }
}

// A whole call of a list is one, wherever the rest of the list ends.
TEST(CallList, AWholeCallOfAListThatIsCut) {
  const std::string& one = kCall;
  const ToolCall call{"write", kArguments};
  for (const auto& [form, begin] : {std::pair<ToolFormat, std::string>{ToolFormat::mistral, "[TOOL_CALLS]["},
                                    {ToolFormat::tagged, "<tool_call>["},
                                    {ToolFormat::plain, "["}}) {
    for (const std::string& rest :
         {std::string(), std::string(", "), std::string(R"(, {"name": "look", "arg)"), std::string(", 5]"),
          std::string(", oops")})
      for (const bool by_characters : {false, true}) {
        const std::string text = begin + one + rest;
        OutputParser parser(rules_for(form));
        std::vector<OutputEvent> events;
        const size_t step = by_characters ? 1 : text.size();
        for (size_t i = 0; i < text.size(); i += step) parser.push(text.substr(i, step), events);
        EXPECT_EQ(events.back().kind, Kind::call_end) << text;  // without waiting for the rest
        parser.finish(events, true);
        EXPECT_TRUE(events.back().whole) << text;
        EXPECT_EQ(cut(text, rules_for(form)), (ParsedOutput{"", "", {call}})) << text;
        EXPECT_EQ(parse_output(text, rules_for(form)), (ParsedOutput{"", "", {call}})) << text;
      }
    // The call after it has begun, and is cut.
    const std::string two = begin + one + ", " + one.substr(0, one.size() - 10);
    OutputParser parser(rules_for(form));
    std::vector<OutputEvent> events;
    parser.push(two, events);
    parser.finish(events, true);
    std::vector<bool> whole;
    for (const OutputEvent& event : events)
      if (event.kind == Kind::call_end) whole.push_back(event.whole);
    EXPECT_EQ(whole, (std::vector{true, false})) << two;
  }
}

// The one allowed call ends the output: in a list as soon as it is whole, else with the mark that closes it.
TEST(CallList, TheLastAllowedCallEndsTheOutput) {
  const std::string& one = kCall;
  const std::string function =
      "<function=write>\n<parameter=content>\n" + kLong + "\n</parameter>\n</function>";
  const struct {
    ToolFormat form;
    std::string until, rest;
    bool inside_block;
  } cases[] = {
      {ToolFormat::mistral, "[TOOL_CALLS][" + one, ", " + one + "]", true},
      {ToolFormat::tagged, "<tool_call>[" + one, ", " + one + "]</tool_call>", true},
      {ToolFormat::plain, "[" + one, "]", true},
      {ToolFormat::plain, one + ";", one, true},
      {ToolFormat::tagged, "<tool_call>" + one + "\n{", "\"name\"", true},
      {ToolFormat::tagged, "<tool_call>" + function + "\n<function=", "look>", true},
      {ToolFormat::tagged, "<tool_call>" + one + "\n</tool_call>", "\n" + kLook, false},
      {ToolFormat::tagged, "<tool_call>" + function + "\n</tool_call>", "\n", false},
      {ToolFormat::gemma4, "<|tool_call>call:write{content:<|\"|>" + kLong + "<|\"|>}<tool_call|>", "\n",
       false},
  };
  for (const auto& c : cases) {
    OutputRules rules = rules_for(c.form);
    rules.max_calls = 1;
    OutputParser parser(rules);
    std::vector<OutputEvent> events;
    for (size_t i = 0; i < c.until.size(); ++i) {
      ASSERT_FALSE(parser.done()) << c.until.substr(0, i);
      parser.push(c.until.substr(i, 1), events);
    }
    EXPECT_TRUE(parser.done()) << c.until;
    EXPECT_EQ(parser.done_inside_block(), c.inside_block) << c.until;
    EXPECT_EQ(events.back(), (OutputEvent{Kind::call_end, "", 0})) << c.until;
    events.clear();
    parser.push(c.rest, events);
    parser.finish(events, true);
    EXPECT_TRUE(events.empty()) << c.until;
    rules.max_calls = 2;
    OutputParser more(rules);
    more.push(c.until, events);
    EXPECT_FALSE(more.done() || more.done_inside_block()) << c.until;
  }
}

}  // namespace
}  // namespace anabranch
