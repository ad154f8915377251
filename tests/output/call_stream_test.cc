// Calls that are reported while the model writes them.
#include <gtest/gtest.h>

#include <random>

#include "output/output_parser.h"
#include "output/streamed.h"
#include "output/tool_call.h"

namespace anabranch {
namespace {

using Kind = OutputEvent::Kind;

Json tools() {
  return Json::parse(R"([{"type": "function", "function": {"name": "write", "parameters": {"type": "object",
    "properties": {"path": {"type": "string"}, "content": {"type": "string"}, "limit": {"type": "integer"},
      "items": {"type": "array"}, "free": {}}}}}, {"type": "function", "function": {"name": "look"}}])");
}

OutputRules rules_for(ToolFormat form) {
  return {{ReasoningTags(), form}, std::make_shared<const Json>(tools())};
}

// The same text in a thought that is never closed: such calls are reported when they are complete.
OutputRules unstreamed(ToolFormat form) {
  OutputRules rules = rules_for(form);
  rules.thinking_open = true;
  return rules;
}

std::vector<OutputEvent> by_characters(const std::string& text, const OutputRules& rules) {
  OutputParser parser(rules);
  std::vector<OutputEvent> events;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
    parser.push(text.substr(i, end - i), events);
    i = end;
  }
  parser.finish(events);
  return events;
}

size_t pieces_of(const std::vector<OutputEvent>& events) {
  return static_cast<size_t>(
      std::ranges::count_if(events, [](const auto& event) { return event.kind == Kind::call_arguments; }));
}

const std::string kLong =
    "first line of a file, which is long enough\nsecond \"quoted\" line\n\n  indented é 😀\t</div>\n<p>last";

std::string xml_parameter(const std::string& key, const std::string& value) {
  return "<parameter=" + key + ">\n" + value + "\n</parameter>\n";
}
std::string xml(const std::string& parameters, const std::string& name = "write") {
  return "<tool_call>\n<function=" + name + ">\n" + parameters + "</function>\n</tool_call>";
}
std::string in_tags(const std::string& arguments, const std::string& name = "write") {
  return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}\n</tool_call>";
}

std::string in_parameters(const std::string& arguments) {
  return R"({"name": "write", "parameters": )" + arguments + "}";
}

const std::string kObject = R"({ "path": "a.txt", "content": )" + json_string(kLong) +
                            R"(,  "limit":3.50, "items": [1, {"a": "}"}]})";

TEST(CallStream, GivesTheWholeCallAtAnyCut) {
  const std::string json = R"("content": )" + json_string(kLong);
  const struct {
    ToolFormat form;
    std::string text, arguments;
  } cases[] = {
      {ToolFormat::tagged, in_tags(kObject), kObject},
      {ToolFormat::mistral, "[TOOL_CALLS]write[ARGS]" + kObject, kObject},
      {ToolFormat::mistral, "[TOOL_CALLS]write[CALL_ID]abc[ARGS]" + kObject, kObject},
      {ToolFormat::mistral, R"([TOOL_CALLS][ {"name": "write", "arguments": )" + kObject + R"(, "id": 7}])",
       kObject},
      {ToolFormat::listed, R"(<|tool_call|>[ {"name": "write", "arguments": )" + kObject + R"(, "id": 7}])",
       kObject},
      {ToolFormat::listed, R"(<|tool_call|>[{"name": "write", "arguments": )" + kObject + "}]<|/tool_call|>",
       kObject},
      {ToolFormat::tagged, xml(xml_parameter("path", "a.txt") + xml_parameter("content", kLong)),
       R"({"path": "a.txt", )" + json + "}"},
      {ToolFormat::tagged, xml(xml_parameter("content", kLong) + xml_parameter("limit", "3")),
       "{" + json + R"(, "limit": 3})"},
      {ToolFormat::tagged, xml(xml_parameter("limit", "3") + xml_parameter("content", kLong)),
       R"({"limit": 3, )" + json + "}"},
      {ToolFormat::tagged, in_tags(R"({"content": "\u00e9\ud83d\ude00\\\"\/)" + std::string(80, 'x') + "\"}"),
       R"({"content": "\u00e9\ud83d\ude00\\\"\/)" + std::string(80, 'x') + "\"}"},
  };
  for (const auto& c : cases) {
    expect_at_any_cut(c.text, rules_for(c.form), {"", "", {{"write", c.arguments}}});
    EXPECT_GT(pieces_of(by_characters(c.text, rules_for(c.form))), 30u) << c.text;
    EXPECT_EQ(pieces_of(by_characters(c.text, unstreamed(c.form))), 1u) << c.text;
  }
}

// A text is on its way as soon as it is certain.
TEST(CallStream, HoldsBackLittle) {
  const std::string text(1000, 'x');
  const std::string begins[] = {R"(<tool_call>{"name": "write", "arguments": {"content": ")",
                                R"({"name": "write", "arguments": {"content": ")",
                                "<tool_call>\n<function=write>\n<parameter=content>\n",
                                R"([TOOL_CALLS]write[ARGS]{"content": ")"};
  for (const std::string& begin : begins) {
    OutputParser parser(rules_for(begin[0] == '[' ? ToolFormat::mistral : ToolFormat::tagged));
    std::vector<OutputEvent> events;
    parser.push(begin + text, events);
    ASSERT_EQ(events.size(), 2u) << begin;
    EXPECT_EQ(events[0], (OutputEvent{Kind::call_begin, "write", 0}));
    EXPECT_EQ(events[1], (OutputEvent{Kind::call_arguments, R"({"content": ")" + text, 0}));
    events.clear();
    parser.push("é", events);
    EXPECT_EQ(events, (std::vector<OutputEvent>{{Kind::call_arguments, "é", 0}}));
  }
}

// Short calls, calls of nothing that was offered, calls in thoughts and those whose name comes last.
TEST(CallStream, WhatIsNotCertainWaits) {
  const std::pair<ToolFormat, std::string> cases[] = {
      {ToolFormat::tagged, in_tags(R"({"path": "a.txt", "limit": 3})")},
      {ToolFormat::tagged, xml(xml_parameter("path", "a.txt"))},
      {ToolFormat::tagged, in_tags(kObject, "other")},
      {ToolFormat::tagged, xml(xml_parameter("content", kLong), "other")},
      {ToolFormat::mistral, "[TOOL_CALLS]other[ARGS]" + kObject},
      {ToolFormat::tagged, "<think>" + in_tags(kObject)},
      {ToolFormat::gemma4, "<|tool_call>call:other{content:<|\"|>" + kLong + "<|\"|>}<tool_call|>"},
      {ToolFormat::gemma4, "<|tool_call>call:write{content:" + std::string(90, 'x') + "}<tool_call|>"},
      {ToolFormat::mistral, R"([TOOL_CALLS][{"arguments": )" + kObject + R"(, "name": "write"}])"},
      {ToolFormat::mistral, R"([TOOL_CALLS][{"name": "write", "arguments": )" + json_string(kObject) + "}]"},
  };
  for (const auto& [form, text] : cases) {
    const auto events = by_characters(text, rules_for(form));
    EXPECT_EQ(pieces_of(events), 1u) << text;
    EXPECT_EQ(events.back().kind, Kind::call_end) << text;
  }
}

// A call without a mark is one as soon as it is long enough.
TEST(CallStream, WithoutAMark) {
  const std::string json = R"({"name": "write", "arguments": )" + kObject + "}",
                    other = in_parameters(kObject);
  const ToolCall call{"write", kObject};
  const std::tuple<ToolFormat, std::string, ParsedOutput> cases[] = {
      {ToolFormat::tagged, json, {"", "", {call}}},
      {ToolFormat::plain, "\n" + json, {"", "", {call}}},
      {ToolFormat::plain, "[" + json + "]", {"", "", {call}}},
      {ToolFormat::plain, "```json\n" + json + "\n```", {"", "", {call}}},
      {ToolFormat::plain,
       R"({"type": "function", "name": "write", "parameters": )" + kObject + "}",
       {"", "", {call}}},
      {ToolFormat::plain, R"({"type":"function","function":)" + json + "}", {"", "", {call}}},
      {ToolFormat::plain, "<|python_tag|>" + other, {"", "", {call}}},
      {ToolFormat::plain, other + "; " + other + "\n" + json, {"", "", {call, call, call}}},
      // What follows a whole call is text.
      {ToolFormat::plain, json + "\nThat was it.", {"", "That was it.", {call}}},
      {ToolFormat::plain, json + "; and so on", {"", "and so on", {call}}},
      {ToolFormat::plain, json + R"(;{"name": "other"})", {"", R"({"name": "other"})", {call}}},
      {ToolFormat::plain, "```\n" + json + "```\nThat was it.", {"", "That was it.", {call}}},
  };
  for (const auto& [form, text, want] : cases) {
    expect_at_any_cut(text, rules_for(form), want);
    EXPECT_GT(pieces_of(by_characters(text, rules_for(form))), 50u) << text;
  }
  // JSON that is no call of a tool, or a short one that breaks.
  for (const std::string& text :
       {R"({"name": "other", "arguments": )" + kObject + "}",
        std::string(R"({"name": "write", "arguments": {"path": "a"}} x)"),
        R"({"name": "write", "parameters": [)" + kObject + "]}",
        R"({"title": "write", "arguments": )" + kObject + "}",
        R"([{"name": "other", "arguments": {}}, )" + json + "]", "[" + kObject + ", " + json + "]"})
    expect_at_any_cut(text, rules_for(ToolFormat::plain), {"", text, {}});
  // Something else cut it: a whole call and text behind it stay, half a call is not sent.
  for (const std::string& half :
       {std::string("; "), std::string(R"(; {"name": "wri)"), "; " + json.substr(0, 40),
        "\n" + json.substr(0, 40), "; [" + json.substr(0, 40)})
    EXPECT_EQ(cut(json + half, rules_for(ToolFormat::plain)), (ParsedOutput{"", "", {call}})) << half;
  EXPECT_EQ(cut(json + "; and so", rules_for(ToolFormat::plain)), (ParsedOutput{"", "and so", {call}}));
  EXPECT_EQ(parse_output(json + R"(; {"name": "wri)", rules_for(ToolFormat::plain)),
            (ParsedOutput{"", R"({"name": "wri)", {call}}));
  // A long one that breaks has begun.
  const std::string begun = R"({"content": )" + json_string(kLong);
  expect_at_any_cut(R"({"name": "write", "arguments": )" + begun + " oops}}", rules_for(ToolFormat::plain),
                    {"", "", {{"write", begun}}});
}

const std::string kGemmaJson = R"({"path":"a.txt","content":)" + json_string(kLong) +
                               R"(,"limit":3.50,"items":[1,{"a":"}"}],"free":"it's, é"})";

std::string in_gemma(const std::string& quote, const std::string& name = "write") {
  return "call:" + name + "{path:" + quote + "a.txt" + quote + ", content :" + quote + kLong + quote +
         ",limit:3.50,items:[1,{a:" + quote + "}" + quote + "}],free:" + quote + "it's, é" + quote + "}";
}

TEST(CallStream, GemmasStringsComePieceByPiece) {
  const std::string four = "<|tool_call>" + in_gemma("<|\"|>") + "<tool_call|>";
  const std::string function = "<start_function_call>" + in_gemma("<escape>") + "<end_function_call>";
  const ToolCall call{"write", kGemmaJson};
  for (const auto& [form, text] :
       {std::pair{ToolFormat::gemma4, four}, {ToolFormat::function_gemma, function}}) {
    expect_at_any_cut(text + "\n" + text, rules_for(form), {"", "", {call, call}});
    EXPECT_GT(pieces_of(by_characters(text, rules_for(form))), 50u) << text;
    EXPECT_EQ(parse_output(text, unstreamed(form)).calls, std::vector{call});
  }
  // A mark may lie in pieces, and what only begins like one is text.
  const std::string odd = std::string(70, 'x') + "<|\" <| < |> 'a', {b:<";
  expect_at_any_cut("<|tool_call>call:write{content:<|\"|>" + odd + "<|\"|>}<tool_call|>",
                    rules_for(ToolFormat::gemma4),
                    {"", "", {{"write", "{\"content\":" + json_string(odd) + "}"}}});
}

TEST(CallStream, GemmasOtherValuesComeWhole) {
  const std::string mark = "<|\"|>", pad = "content:" + mark + std::string(70, 'x') + mark + ",";
  const std::string sent = R"({"content":")" + std::string(70, 'x') + "\"";
  const std::pair<std::string, std::string> cases[] = {
      {"limit:" + mark + "5" + mark, R"(,"limit":5})"},
      {"limit:" + mark + mark + ",path:" + mark + "b" + mark, R"(,"path":"b"})"},
      {"limit: ,path:b", ""},
      {"path:'a, b',free:True", R"(,"path":"a, b","free":true})"},
      {"path:it's, free:null,", ""},
      {"\"path\":\"a\\n,\", items:[" + mark + "a,b" + mark + ",2]", R"(,"path":"a\n,","items":["a,b",2]})"},
      {mark + "free" + mark + ":" + mark + "a" + mark + ",path:b:c", R"(,"free":"a","path":"b:c"})"},
      {"free:a:" + mark + "b" + mark, ""},
      {"", "}"},
  };
  for (const auto& [written, rest] : cases) {
    const std::string text = "<|tool_call>call:write{" + pad + written + "}<tool_call|>";
    const ParsedOutput got = parse_output(text, rules_for(ToolFormat::gemma4));
    expect_at_any_cut(text, rules_for(ToolFormat::gemma4), got);
    const ParsedOutput whole = parse_output(text, unstreamed(ToolFormat::gemma4));
    if (!whole.calls.empty()) {
      EXPECT_EQ(got.calls, whole.calls) << text;
    }
    if (!rest.empty()) {
      EXPECT_EQ(got.calls, (std::vector<ToolCall>{{"write", sent + rest}})) << text;
    }
  }
}

TEST(CallStream, GemmasCallThatBreaksStaysACall) {
  const std::string mark = "<|\"|>", begin = "<|tool_call>call:write{content:" + mark + std::string(70, 'x');
  const std::string text = R"({"content":")" + std::string(70, 'x'), sent = text + "\"";
  const OutputRules rules = rules_for(ToolFormat::gemma4);
  for (const std::string& broken : {mark + "oops,path:b}", mark + ",path]", mark + ",path:{1},limit:2}"}) {
    const ParsedOutput got = parse_output(begin + broken + "<tool_call|>after", rules);
    expect_at_any_cut(begin + broken + "<tool_call|>after", rules, got);
    ASSERT_EQ(got.calls.size(), 1u) << broken;
    EXPECT_TRUE(got.calls[0].arguments.starts_with(text)) << broken;
    EXPECT_FALSE(Json::accept(got.calls[0].arguments)) << broken;
    EXPECT_EQ(got.content, "after");
  }
  const std::string next = "<|tool_call>call:look{}<tool_call|>";
  expect_at_any_cut(begin + mark + ",path]" + next, rules, {"", "", {{"write", sent}, {"look", "{}"}}});
  EXPECT_EQ(cut(begin, rules), (ParsedOutput{"", "", {{"write", text}}}));
  EXPECT_EQ(cut(begin + mark + ",limit:5,", rules),
            (ParsedOutput{"", "", {{"write", sent + R"(,"limit":5)"}}}));
}

// At every moment each call has a beginning of what it has in the end.
TEST(CallStream, EveryPrefixOfSeveralCalls) {
  const std::string arguments = R"({"content": )" + json_string(kLong) + R"(, "limit": 3})";
  const std::string one = R"({"name": "write", "arguments": )" + arguments + "}";
  const std::string small = R"({"name": "look", "arguments": {"a": 1}})";
  const ToolCall call{"write", arguments}, look{"look", R"({"a": 1})"};
  const std::tuple<ToolFormat, std::string, std::vector<ToolCall>> cases[] = {
      {ToolFormat::mistral, "[TOOL_CALLS][" + one + ", " + small + "," + one + "]", {call, look, call}},
      {ToolFormat::listed, "<|tool_call|>[" + one + ", " + small + "," + one + "]", {call, look, call}},
      {ToolFormat::listed, "<|tool_call|>[" + small + "," + one + "]\n<|/tool_call|>", {look, call}},
      {ToolFormat::mistral,
       "[TOOL_CALLS] [ " + small + " ,\n" + one + " , " + small + " ]",
       {look, call, look}},
      {ToolFormat::tagged,
       "<tool_call>[" + one + "," + one + "]</tool_call>" + in_tags(arguments),
       {call, call, call}},
      {ToolFormat::plain, "[" + small + ", " + one + "];" + one, {look, call, call}},
      {ToolFormat::gemma4,
       "<|tool_call>" + in_gemma("<|\"|>") + "<tool_call|><|tool_call>call:look{a:1}<tool_call|>",
       {{"write", kGemmaJson}, {"look", R"({"a":1})"}}},
  };
  for (const auto& [form, text, want] : cases) {
    const OutputRules rules = rules_for(form);
    expect_at_any_cut(text, rules, {"", "", want});
    OutputParser parser(rules);
    std::vector<OutputEvent> events;
    ParsedOutput so_far;
    size_t late = 0;  // bytes that were held back while a long text arrived
    for (size_t i = 0; i < text.size();) {
      size_t end = i + 1;
      while (end < text.size() && (text[end] & 0xC0) == 0x80) ++end;
      parser.push(text.substr(i, end - i), events);
      for (const OutputEvent& event : std::exchange(events, {})) so_far.add(event);
      ASSERT_LE(so_far.calls.size(), want.size());
      for (size_t n = 0; n < so_far.calls.size(); ++n) {
        ASSERT_EQ(so_far.calls[n].name, want[n].name);
        ASSERT_TRUE(want[n].arguments.starts_with(so_far.calls[n].arguments)) << text.substr(0, end);
      }
      size_t sent = 0;
      for (const ToolCall& one_call : so_far.calls) sent += one_call.arguments.size();
      late = std::max(late, i - std::min(i, sent));
      i = end;
      const std::string part = text.substr(0, end);
      ASSERT_EQ(streamed({part.substr(0, end / 2), part.substr(end / 2)}, rules), parse_output(part, rules))
          << part;
    }
    EXPECT_LT(late, 240u) << text;
  }
}

// What is not JSON stops the stream, not the call.
TEST(CallStream, LenientReadingGoesOnWhereItStopped) {
  const std::string pad(70, 'x');
  const std::pair<std::string, std::string> cases[] = {
      {R"({"content": ")" + pad + "\n\\d\t\\ud83d\", 'limit': 3, \"on\": True,}",
       R"({"content": ")" + pad + R"(\n\\d\t\ufffd", "limit": 3, "on": true})"},
      {R"({"content": ")" + pad + R"(", "items": ['a', None], "path": "b"})",
       R"({"content": ")" + pad + R"(", "items": ["a", null], "path": "b"})"},
      {R"({"content": ")" + pad + R"(", "items": [1, 2,], "path": "b"})",
       R"({"content": ")" + pad + R"(", "items": [1, 2], "path": "b"})"},
      {R"({"content": ")" + pad + R"(", })", R"({"content": ")" + pad + "\"}"},
  };
  for (const auto& [written, meant] : cases)
    for (const auto& [form, text] :
         {std::pair<ToolFormat, std::string>{ToolFormat::tagged, in_tags(written)},
          {ToolFormat::mistral, "[TOOL_CALLS]write[ARGS]" + written},
          {ToolFormat::tagged, "<tool_call>{\"name\": \"write\", \"arguments\": " +
                                   written.substr(0, written.size() - 1) + "</tool_call>"}}) {
      const ParsedOutput got = parse_output(text, rules_for(form));
      ASSERT_EQ(got.calls.size(), 1u) << text;
      EXPECT_EQ(parse_json(got.calls[0].arguments).value(), parse_json(meant).value()) << text;
      EXPECT_EQ(got.content, "");
      expect_at_any_cut(text, rules_for(form), got);
    }
}

TEST(CallStream, TagsInValues) {
  const std::string pad = kLong + "\n";
  for (const char* tail :
       {"</param", "</parameter> x", "</parameter>\nx",
        "<function=look>\n<parameter=a>\n1\n"
        "</parameter>\n</function>\nx",
        "</function>\nx", "<parameter=other>\nx", "\n\n", "   ", "<", "x\n</tool_call>\ny"}) {
    const std::string value = pad + tail;
    for (const std::string& text : {xml(xml_parameter("content", value) + xml_parameter("limit", "3")),
                                    xml(xml_parameter("content", value)),
                                    xml("<parameter=content>\n" + value + "\n<parameter=path>\nb\n"),
                                    xml("<parameter=content>\n" + value + "\n")}) {
      for (const bool exact : {false, true}) {
        OutputRules rules = rules_for(ToolFormat::tagged), other = unstreamed(ToolFormat::tagged);
        rules.exact = other.exact = exact;
        const ParsedOutput got = parse_output(text, rules), whole = parse_output(text, other);
        expect_at_any_cut(text, rules, got);
        EXPECT_GE(got.calls.size(), exact ? 0u : 1u) << text;
        if (!whole.calls.empty()) {
          EXPECT_EQ(got.calls, whole.calls) << text;
        }
      }
    }
  }
  // A line that is nearly the closing tag is none of the text.
  const std::string slip = xml("<parameter=content>\n" + pad + "</params>\n" + xml_parameter("limit", "3"));
  expect_at_any_cut(slip, rules_for(ToolFormat::tagged),
                    {"", "", {{"write", R"({"content": )" + json_string(kLong) + R"(, "limit": 3})"}}});
}

// Its arguments end early, and nothing of its block becomes text.
TEST(CallStream, ACallThatBreaksStaysACall) {
  const std::string sent = R"({"content": )" + json_string(kLong), after = "\nand so on";
  const std::string json = R"(<tool_call>{"name": "write", "arguments": )" + sent;
  const std::string value = "<tool_call>\n<function=write>\n" + xml_parameter("content", kLong);
  const std::string other = R"(, "path": "b"}, "name": "look"})";
  const std::tuple<std::string, std::string, std::string> cases[] = {
      {json + R"( oops"}}</tool_call>)" + after, sent, after.substr(1)},
      {json + R"( oops"}})", sent, ""},
      {json + R"(, "limit": 01}}</tool_call>)", sent, ""},
      {json, sent, ""},
      {json.substr(0, json.size() - 1), sent.substr(0, sent.size() - 1), ""},
      {json + other + "</tool_call>" + after, sent + R"(, "path": "b")", after.substr(1)},
      {value + "<parameter=a\n>oops</tool_call>" + after, sent, after.substr(1)},
      {value + "<parameter=path>\nb", sent + R"(, "path": "b)", ""},
  };
  for (const auto& [text, arguments, content] : cases)
    expect_at_any_cut(text, rules_for(ToolFormat::tagged), {"", content, {{"write", arguments}}});
  // The next call is none of it.
  for (const std::string& text : {json + " oops\"}\n", value + "<parameter=a\n>oops\n"})
    expect_at_any_cut(text + in_tags("{}", "look") + after, rules_for(ToolFormat::tagged),
                      {"", after.substr(1), {{"write", sent}, {"look", "{}"}}});
  // Something else cut it.
  EXPECT_EQ(cut("Hi " + json, rules_for(ToolFormat::tagged)), (ParsedOutput{"", "Hi", {{"write", sent}}}));
  EXPECT_EQ(cut(value + "<param", rules_for(ToolFormat::tagged)),
            (ParsedOutput{"", "", {{"write", sent.substr(0, sent.size() - 1)}}}));
}

TEST(CallStream, SeveralCalls) {
  const std::string arguments = R"({"content": )" + json_string(kLong) + "}";
  const std::string one = R"({"name": "write", "arguments": )" + arguments + "}";
  const std::string function = "<function=write>\n" + xml_parameter("content", kLong) + "</function>\n";
  const ToolCall call{"write", arguments};
  for (const std::string& text :
       {"<tool_call>" + one + "\n" + one + "</tool_call>", in_tags(arguments) + "\n" + in_tags(arguments),
        "<tool_call>" + function + function + "</tool_call>",
        xml(xml_parameter("content", kLong)) + in_tags(arguments)}) {
    expect_at_any_cut(text, rules_for(ToolFormat::tagged), {"", "", {call, call}});
    OutputRules first = rules_for(ToolFormat::tagged);
    first.max_calls = 1;
    expect_at_any_cut(text, first, {"", "", {call}});
  }
  const std::string list = "[TOOL_CALLS][" + one + ", " + one + "]";
  expect_at_any_cut(list, rules_for(ToolFormat::mistral), {"", "", {call, call}});
  const std::string broken = "<tool_call>" + function + "<function=write>\noops</tool_call>";
  expect_at_any_cut(broken, rules_for(ToolFormat::tagged), {"", "", {call}});
}

TEST(CallStream, EndsAtTheLimit) {
  const std::string begin = R"(<tool_call>{"name": "write", "arguments": {"content": ")";
  const std::string text = begin + std::string(kMaxCallBytes - begin.size() - 1, 'x') + "é\"}}</tool_call>so";
  const ParsedOutput got = parse_output(text, rules_for(ToolFormat::tagged));
  ASSERT_EQ(got.calls.size(), 1u);
  EXPECT_EQ(got.calls[0].arguments, text.substr(text.find("{\"content"), got.calls[0].arguments.size()));
  EXPECT_EQ(got.calls[0].arguments.size() + text.find("{\"content"), kMaxCallBytes - 1);  // before the é
  EXPECT_EQ(got.content, "so");
  EXPECT_EQ(streamed({text.substr(0, 5000), text.substr(5000, 900'000), text.substr(905'000)},
                     rules_for(ToolFormat::tagged)),
            got);
}

// Whatever is written: the pieces do not depend on the cuts, and a whole call is the same without streaming.
// With one allowed call the parser is done behind it; where a limit cut the call, the limit ended the answer.
TEST(CallStream, ACutCallIsNotTheLastAllowedOne) {
  OutputRules rules = rules_for(ToolFormat::tagged);
  rules.max_calls = 1;
  const std::string whole = in_tags("{\"content\": " + Json(kLong).dump() + "}");
  for (const size_t size : {whole.size() - 30, whole.size()}) {
    OutputParser parser(rules);
    std::vector<OutputEvent> events;
    parser.push(whole.substr(0, size), events);
    parser.finish(events, true);
    EXPECT_EQ(events.back().kind, Kind::call_end);
    EXPECT_EQ(parser.done(), size == whole.size()) << size;
  }
}

TEST(CallStream, AnythingAtAnyCut) {
  std::mt19937 rng(7);
  const std::vector<std::string> parts = {"<parameter=content>\n",
                                          "<parameter=path>\n",
                                          "</parameter>\n",
                                          "</function>\n",
                                          "</tool_call>",
                                          "<function=write>\n",
                                          "</params>\n",
                                          "\n",
                                          "x",
                                          "<",
                                          "\"",
                                          "\\",
                                          "{",
                                          "}",
                                          ",",
                                          ":",
                                          "\"path\": \"a\"",
                                          "\\u00e9",
                                          "'a'",
                                          "1",
                                          "[1]",
                                          " ",
                                          "é",
                                          "\"limit\": 1",
                                          std::string(40, 'y'),
                                          "</parameter>",
                                          "\\ud83d",
                                          "<parameter=limit>\n",
                                          "<|\"|>",
                                          "<|\"|>,path:<|\"|>",
                                          "<|\"|>}<tool_call|>",
                                          "path:",
                                          "\"}}, {\"name\": \"write\", \"arguments\": {\"path\": \"",
                                          "\"}}, {\"name\": \"look\", \"arguments\": {}}",
                                          "]",
                                          "\"}};"};
  const std::string begins[] = {
      "<tool_call>\n<function=write>\n<parameter=content>\n" + kLong,
      R"(<tool_call>{"name": "write", "arguments": {"content": ")" + std::string(60, 'z'),
      R"(<tool_call>{"name": "write", "arguments": {"items": [")" + std::string(60, 'z'),
      R"([TOOL_CALLS]write[ARGS]{"content": ")" + std::string(60, 'z'),
      R"([TOOL_CALLS][{"name": "write", "arguments": {"content": ")" + std::string(60, 'z'),
      R"([{"name": "write", "arguments": {"content": ")" + std::string(60, 'z'),
      R"({"name": "write", "parameters": {"content": ")" + std::string(60, 'z'),
      "<|tool_call>call:write{content:<|\"|>" + std::string(60, 'z'),
      "<|tool_call>call:write{limit:5,items:[<|\"|>" + std::string(60, 'z')};
  const auto form_of = [](const std::string& text) {
    if (text.starts_with("<|tool")) return ToolFormat::gemma4;
    if (text.starts_with("[TOOL")) return ToolFormat::mistral;
    return text.starts_with("<") ? ToolFormat::tagged : ToolFormat::plain;
  };
  int calls = 0;
  for (int round = 0; round < 40'000; ++round) {
    std::string text = begins[rng() % std::size(begins)];
    const ToolFormat form = form_of(text);
    std::vector<std::string> pieces{text};
    for (size_t n = rng() % 12; n > 0; --n) {
      pieces.push_back(parts[rng() % parts.size()]);
      text += pieces.back();
    }
    const ParsedOutput got = parse_output(text, rules_for(form));
    ASSERT_EQ(streamed(pieces, rules_for(form)), got) << text;
    const ParsedOutput whole = parse_output(text, unstreamed(form));
    ASSERT_GE(got.calls.size(), whole.calls.size()) << text;
    if (whole.calls.empty() || got.calls.size() > whole.calls.size()) continue;
    ++calls;
    for (size_t i = 0; i < got.calls.size(); ++i) {
      const auto arguments = parse_json(got.calls[i].arguments);
      ASSERT_TRUE(arguments.ok()) << text;
      ASSERT_EQ(*arguments, parse_json(whole.calls[i].arguments).value()) << text;
    }
  }
  EXPECT_GT(calls, 1000);
}

}  // namespace
}  // namespace anabranch
