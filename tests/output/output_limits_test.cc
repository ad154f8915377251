// The negative twin of each check of a call, and limits that many small parts reach together.
#include <gtest/gtest.h>

#include "base/clock.h"
#include "output/call_heads.h"
#include "output/output_parser.h"
#include "output/tool_schema.h"
#include "slow.h"

namespace anabranch {
namespace {

Json any_tools() {
  return Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
    "properties": {"text": {"type": "string"}, "n": {"type": "number"}, "i": {"type": "integer"},
      "text_or_number": {"type": ["string", "number"]}, "text_or_integer": {"type": ["integer", "string"]},
      "text_or_flag": {"type": ["string", "boolean"]}, "text_or_list": {"type": ["array", "string"]},
      "text_or_object": {"type": ["string", "object"]}, "text_or_null": {"type": ["null", "string"]},
      "any_of": {"anyOf": [{"type": "string"}, {"type": "number"}]},
      "one_of": {"oneOf": [{"type": "number"}, {"type": "string"}]},
      "number_or_null": {"type": ["number", "null"]}}}}}])");
}

OutputRules rules_for(ToolFormat form, bool open = false) {
  return {{ReasoningTags(), form}, std::make_shared<const Json>(any_tools()), open};
}

std::string in_tags(const std::string& inside) {
  return "<tool_call>\n" + inside + "\n</tool_call>";
}

// What a client reads as the arguments is the text of an object, or it is no call.
TEST(CallArguments, OnlyObjectsAreArguments) {
  for (const char* arguments :
       {R"("[1,2]")", R"("3")", R"("\"x\"")", R"("null")", R"("true")", R"("")", R"("{")", R"("{} x")",
        R"("{\"a\":}")", R"("[{}]")", "[1]", "[]", "3", "true", R"("x")", "1.5", R"("\ud800")"})
    for (const char* key : {"arguments", "parameters"}) {
      const std::string json = fmt::format(R"({{"name": "f", "{}": {}}})", key, arguments);
      const std::string nested = R"({"type": "function", "function": )" + json + "}";
      for (const std::string& call : {json, nested}) {
        const std::string tagged = in_tags(call);
        EXPECT_EQ(parse_output(tagged, rules_for(ToolFormat::tagged)), (ParsedOutput{"", tagged, {}}))
            << call;
        EXPECT_EQ(parse_output(call, rules_for(ToolFormat::plain)), (ParsedOutput{"", call, {}})) << call;
        const std::string list = "[TOOL_CALLS][" + call + "]";
        EXPECT_EQ(parse_output(list, rules_for(ToolFormat::mistral)), (ParsedOutput{"", list, {}})) << call;
      }
    }
  for (const auto& [arguments, text] : {std::pair<std::string, std::string>{R"({"a": [1]})", R"({"a": [1]})"},
                                        {R"("{\"a\": [1]}")", R"({"a": [1]})"},
                                        {R"("{}")", "{}"},
                                        {"null", "{}"}}) {
    const std::string call = R"({"name": "f", "arguments": )" + arguments + "}";
    EXPECT_EQ(parse_output(in_tags(call), rules_for(ToolFormat::tagged)),
              (ParsedOutput{"", "", {{"f", text}}}));
  }
}

TEST(CallArguments, TypesOfUnions) {
  const Json tools = any_tools();
  const struct {
    const char *parameter, *text, *json;
  } cases[] = {
      {"text", "5", R"("5")"},
      {"n", "5", "5"},
      {"n", "5.5", "5.5"},
      {"n", "five", R"("five")"},
      {"i", "5", "5"},
      {"text_or_number", "5", "5"},
      {"text_or_number", "5.5", "5.5"},
      {"text_or_number", "-1e3", "-1e3"},
      {"text_or_number", "five", R"("five")"},
      {"text_or_number", "true", R"("true")"},
      {"text_or_number", "null", R"("null")"},
      {"text_or_number", "[5]", R"("[5]")"},
      {"text_or_integer", "5", "5"},
      {"text_or_integer", "5.5", R"("5.5")"},
      {"text_or_flag", "true", "true"},
      {"text_or_flag", "1", R"("1")"},
      {"text_or_list", "[1]", "[1]"},
      {"text_or_list", "{}", R"("{}")"},
      {"text_or_object", "{}", "{}"},
      {"text_or_object", "[1]", R"("[1]")"},
      {"text_or_null", "null", "null"},
      {"text_or_null", "0", R"("0")"},
      {"any_of", "5", "5"},
      {"any_of", "5x", R"("5x")"},
      {"one_of", "5", "5"},
      {"one_of", "false", R"("false")"},
      {"number_or_null", "5", "5"},
      {"number_or_null", "null", "null"},
  };
  for (const auto& c : cases)
    EXPECT_EQ(typed_argument(tools, "f", c.parameter, c.text), c.json) << c.parameter;
}

TEST(CallArguments, OfAParameterGivenTwiceTheLastCounts) {
  const std::string call =
      "<tool_call>\n<function=f>\n<parameter=text>\nA\n</parameter>\n<parameter=n>\n1\n</parameter>\n"
      "<parameter=text>\nB\n</parameter>\n</function>\n</tool_call>";
  EXPECT_EQ(parse_output(call, rules_for(ToolFormat::tagged)),
            (ParsedOutput{"", "", {{"f", R"({"text": "B", "n": 1})"}}}));
  const std::string twice = R"(<|tool_call>call:f{n:1,n:2}<tool_call|>)";
  const ParsedOutput got = parse_output(twice, rules_for(ToolFormat::gemma4));
  for (const ToolCall& one : got.calls) EXPECT_TRUE(parse_json(one.arguments).ok()) << one.arguments;
  EXPECT_TRUE(got.calls.empty() || got.content.empty());
}

std::string with_parameters(int count) {
  std::string call = "<tool_call>\n<function=f>\n";
  for (int i = 0; i < count; i++) call += fmt::format("<parameter=p{}>\n1\n</parameter>\n", i);
  return call + "</function>\n</tool_call>";
}

// The call has begun by then, so that it ends there.
TEST(CallLimits, ManyParametersEndTheCall) {
  const ParsedOutput most = parse_output(with_parameters(1024), rules_for(ToolFormat::tagged));
  ASSERT_EQ(most.calls.size(), 1u);
  EXPECT_EQ(parse_json(most.calls[0].arguments)->size(), 1024u);
  const ParsedOutput more = parse_output(with_parameters(1025), rules_for(ToolFormat::tagged));
  const std::string& whole = most.calls[0].arguments;
  EXPECT_EQ(more, (ParsedOutput{"", "", {{"f", whole.substr(0, whole.size() - 1)}}}));
  OutputRules thinks = rules_for(ToolFormat::tagged, true);
  EXPECT_EQ(parse_output(with_parameters(1025), thinks).calls, std::vector<ToolCall>{});
}

// Calls that have begun end there, others are text.
TEST(CallLimits, ObjectsOfTooManyKeysAreNoArguments) {
  for (const size_t keys : {size_t{4096}, size_t{4097}}) {
    std::string members;
    for (size_t i = 0; i < keys; i++) members += fmt::format("{}\"k{}\":1", i == 0 ? "" : ",", i);
    const std::string json = R"({"name": "f", "arguments": {)" + members + "}}";
    for (const auto& [form, text] :
         {std::pair<ToolFormat, std::string>{ToolFormat::tagged, in_tags(json)},
          {ToolFormat::plain, json},
          {ToolFormat::mistral, "[TOOL_CALLS]f[ARGS]{" + members + "}"},
          {ToolFormat::gemma4, "<|tool_call>call:f{" + members + "}<tool_call|>"}}) {
      const ParsedOutput got = parse_output(text, rules_for(form));
      ASSERT_EQ(got.calls.size(), 1u) << text.substr(0, 40);
      EXPECT_EQ(got.content, "") << text.substr(0, 40);
      const auto arguments = parse_json(got.calls[0].arguments);
      EXPECT_EQ(arguments.ok(), keys == 4096) << text.substr(0, 40);
      if (arguments.ok()) {
        EXPECT_EQ(arguments->size(), keys);
      }
    }
  }
}

// However the calls are spread over blocks, lists and thoughts, and however the output comes.
TEST(CallLimits, ManyCallsInAllAreBounded) {
  const std::string one = R"({"name": "f", "arguments": {}})";
  const auto repeated = [](const std::string& part, const std::string& between, int count) {
    std::string out;
    for (int i = 0; i < count; i++) out += (i == 0 ? "" : between) + part;
    return out;
  };
  const auto block = [&](int count) { return in_tags(repeated(one, "\n", count)); };
  const struct {
    ToolFormat form;
    std::string text;
    bool open = false;
  } cases[] = {
      {ToolFormat::tagged, repeated(block(1), "\n", 300)},
      {ToolFormat::tagged, block(kMaxCalls) + block(kMaxCalls)},
      {ToolFormat::tagged, block(200) + block(200)},
      {ToolFormat::tagged, block(kMaxCalls + 1)},
      {ToolFormat::tagged, "<tool_call>" + repeated("<function=f>\n</function>", "\n", 600) + "</tool_call>"},
      {ToolFormat::tagged,
       repeated("<tool_call>" + repeated("<function=f>\n</function>", "\n", 200) + "</tool_call>", "\n", 3)},
      {ToolFormat::tagged, repeated(block(200), " and ", 4), true},  // a thought that is never closed
      {ToolFormat::tagged, repeated(block(1), " and ", 600), true},
      {ToolFormat::plain, repeated(one, "; ", 400)},
      {ToolFormat::plain, "[" + repeated(one, ", ", 400) + "]"},
      {ToolFormat::mistral, "[TOOL_CALLS][" + repeated(one, ", ", 400) + "]"},
      {ToolFormat::mistral, repeated("[TOOL_CALLS][" + repeated(one, ", ", 200) + "]", "", 3)},
      {ToolFormat::gemma4, repeated("<|tool_call>call:f{}<tool_call|>", "", 600)},
  };
  for (const auto& c : cases)
    for (const size_t piece : {c.text.size(), size_t{7}}) {
      OutputParser parser(rules_for(c.form, c.open));
      std::vector<OutputEvent> events;
      for (size_t at = 0; at < c.text.size(); at += piece) parser.push(c.text.substr(at, piece), events);
      parser.finish(events);
      ParsedOutput got;
      for (const auto& event : events) got.add(event);
      EXPECT_LE(got.calls.size(), static_cast<size_t>(kMaxCalls)) << c.text.substr(0, 60);
      // What is no call any more is not lost.
      EXPECT_FALSE(got.content.empty() && got.reasoning.empty()) << c.text.substr(0, 60);
    }
}

// A thought that is never closed: its calls are made at the end of the answer, and were counted before.
TEST(CallLimits, CallsOfAThoughtBeyondTheMostAreText) {
  const std::string one = R"({"name": "f", "arguments": {}})";
  const auto count = [&](const std::string& text) {
    size_t found = 0;
    for (size_t at = 0; (at = text.find(one, at)) != text.npos; at += one.size()) found++;
    return found;
  };
  std::string block, text;
  for (int i = 0; i < kMaxCalls - 56; i++) block += (i == 0 ? "" : "\n") + one;
  for (int i = 0; i < 4; i++) text += in_tags(block) + " and ";
  for (int i = 0; i < 57; i++) text += in_tags(one) + " and ";
  const ParsedOutput got = parse_output(text, rules_for(ToolFormat::tagged, true));
  EXPECT_EQ(got.calls.size(), static_cast<size_t>(kMaxCalls));
  EXPECT_EQ(got.calls.size() + count(got.content + got.reasoning), count(text));
}

// The first call is sent before it is complete, so the others cannot become text with it.
TEST(CallLimits, WhatFollowsTheLastPossibleCallIsText) {
  const std::string one = R"({"name": "f", "arguments": {}})";
  std::string text = R"({"name": "f", "arguments": {"text": ")" + std::string(200, 'x') + "\"}}";
  for (int i = 1; i < kMaxCalls; i++) text += "; " + one;
  for (const size_t piece : {size_t{1} << 20, size_t{7}}) {
    OutputParser parser(rules_for(ToolFormat::plain));
    std::vector<OutputEvent> events;
    const std::string longer = text + "; " + one + "; " + one;
    for (size_t at = 0; at < longer.size(); at += piece) parser.push(longer.substr(at, piece), events);
    parser.finish(events);
    ParsedOutput got;
    for (const auto& event : events) got.add(event);
    EXPECT_EQ(got.calls.size(), static_cast<size_t>(kMaxCalls));
    EXPECT_EQ(got.content, one + "; " + one);
  }
}

TEST(CallLimits, AnObjectOfSeveralNamesIsNoCallUnderItsName) {
  const auto calls = [](const std::string& object) {
    return parse_output("<|tools_prefix|>[" + object + "]<|tools_suffix|>", rules_for(ToolFormat::named_keys))
        .calls;
  };
  EXPECT_EQ(calls(R"({"f": {"text": "x"}})").size(), 1u);
  EXPECT_EQ(calls(R"({"f": {"text": "x"}, "more": {}})").size(), 0u);
}

TEST(CallLimits, AnIdBeforeANameEnds) {
  OutputFormat format;
  format.tools = ToolFormat::actions;
  const CallHeads heads(format, any_tools());
  auto position = heads.begin("<|START_ACTION|>");
  EXPECT_EQ(heads.read(position, R"({"tool_call_id":")" + std::string(64, '7')), CallHeads::Step::inside);
  EXPECT_EQ(heads.next(position), "\"");
  EXPECT_EQ(heads.read(position, "7"), CallHeads::Step::broken);
}

TEST(CallLimits, AFenceWithoutACallIsText) {
  for (const char* text : {"```", "```\n", "```json\n"}) {
    const ParsedOutput got = parse_output(text, rules_for(ToolFormat::plain));
    EXPECT_EQ(got.content.substr(0, 3), "```") << text;
    EXPECT_TRUE(got.calls.empty()) << text;
  }
}

// A name may come in pieces, too.
TEST(CallLimits, LongNamesAreText) {
  const std::string longest(kMaxNameBytes, 'n'), too_long(kMaxNameBytes + 1, 'n');
  const auto calls_with = [](ToolFormat form, const std::string& text) {
    size_t most = 0;
    for (const size_t piece : {text.size(), size_t{5}}) {
      OutputParser parser(rules_for(form));
      std::vector<OutputEvent> events;
      for (size_t at = 0; at < text.size(); at += piece) parser.push(text.substr(at, piece), events);
      parser.finish(events);
      ParsedOutput got;
      for (const auto& event : events) got.add(event);
      EXPECT_TRUE(got.calls.empty() == (got.content == text)) << text.substr(0, 40);
      most = std::max(most, got.calls.size());
    }
    return most;
  };
  const struct {
    ToolFormat form;
    std::string before, behind;
  } forms[] = {
      {ToolFormat::tagged, "<tool_call>{\"name\": \"", "\", \"arguments\": {}}</tool_call>"},
      {ToolFormat::tagged, "<tool_call><function=", ">\n</function></tool_call>"},
      {ToolFormat::mistral, "[TOOL_CALLS]", "[ARGS]{}"},
      {ToolFormat::gemma4, "<|tool_call>call:", "{}<tool_call|>"},
  };
  for (const auto& c : forms) {
    EXPECT_EQ(calls_with(c.form, c.before + longest + c.behind), 1u) << c.before;
    EXPECT_EQ(calls_with(c.form, c.before + too_long + c.behind), 0u) << c.before;
  }
}

TEST(ReasoningTagsOfPrompts, OnlyTheTemplatesOwnOpenAThought) {
  const ReasoningTags tags;
  EXPECT_TRUE(opens_reasoning({{"hello ", false}, {"<think>\n", true}}, tags));
  EXPECT_FALSE(opens_reasoning({{"<|user|>", true}, {"say <think>", false}, {"<|assistant|>", true}}, tags));
  EXPECT_FALSE(
      opens_reasoning({{"<think>", true}, {"x", false}, {"</think>", true}, {"<think>", false}}, tags));
  EXPECT_TRUE(opens_reasoning({{"<think>", true}, {"</think>", false}}, tags)) << "a message closes none";
}

}  // namespace
}  // namespace anabranch
