#include "output/tool_grammar.h"

#include <gtest/gtest.h>

#include <random>

#include "output/forced_calls.h"
#include "output/message_reader.h"
#include "output/output_parser.h"

namespace anabranch {
namespace {

// The generic form on a model whose vocabulary has no such tokens.
TEST(ToolGrammar, TagsThatAreSpelled) {
  Calls calls({.tools = ToolFormat::tagged}, {});
  const auto call = [](const std::string& arguments) {
    return "<tool_call>\n{\"name\": \"add\", \"arguments\": " + arguments + "}\n</tool_call>";
  };
  calls.force({.forced = true});
  EXPECT_TRUE(calls.take(call(R"({"n": 3})")));
  EXPECT_FALSE(calls.take("Well. " + call(R"({"n": 3})")));
  EXPECT_FALSE(calls.take(call(R"({"n": "3"})")));
  calls.offer();
  EXPECT_TRUE(calls.take("No <tool> is needed."));
  EXPECT_TRUE(calls.take("I add. " + call(R"({"n": 3})")));
  EXPECT_TRUE(calls.take(call(R"({"n": 3})") + "\n" + call(R"({"n": 4})") + " Done."));
  EXPECT_FALSE(calls.take("I add. " + call(R"({"n": "3"})")));
  EXPECT_FALSE(calls.take("I add. <tool_call>\n{\"name\": \"other\", \"arguments\": {}}\n</tool_call>"));
}

// gpt-oss: the header decides between an answer and a call, whose marks are tokens.
TEST(ToolGrammar, Messages) {
  const ReasoningTags tags{std::string(kThoughtOpen), std::string(kThoughtClose), "<|channel|>",
                           "<|start|>assistant", "<|channel|>final<|message|>"};
  const OutputFormat format{.reasoning = tags, .tools = ToolFormat::messages};
  Calls calls(format, {std::begin(kMessageMarks), std::end(kMessageMarks)});
  const auto call = [](const std::string& arguments) {
    return "<|channel|>commentary to=functions.add <|constrain|>json<|message|>" + arguments;
  };
  calls.force({.several = true, .forced = true});
  EXPECT_TRUE(calls.take(call(R"({"n": 3})")));
  EXPECT_FALSE(calls.take(call(R"({"n": "3"})")));
  EXPECT_FALSE(calls.take(R"({"n": 3})"));
  EXPECT_FALSE(calls.take("<|channel|>final<|message|>Three."));
  EXPECT_FALSE(calls.take("<|channel|>commentary to=functions.other <|constrain|>json<|message|>{}"));
  calls.offer();
  EXPECT_TRUE(calls.take("<|channel|>final<|message|>It is <3>.\nÄ"));
  EXPECT_TRUE(calls.take(call(R"({"n": 3})")));
  EXPECT_FALSE(calls.take(call(R"({"n": 3.5})")));
  EXPECT_FALSE(calls.take("It is 3."));
  EXPECT_FALSE(calls.take("<|channel|>analysis<|message|>Hm."));
}

// Arguments of tools that are not strict are kept to what a grammar can keep, in both ways to write them.
TEST(ToolGrammar, OneSchemaDoesNotRefuseAllTools) {
  const auto tools = [](const char* odd) {
    Json all = kTools;
    all.push_back(
        {{"type", "function"}, {"function", {{"name", "odd"}, {"parameters", parse_json(odd).value()}}}});
    return all;
  };
  const Json odd =
      tools(R"({"type":"object","properties":{"v":{"type":"string","maxLength":2,"pattern":"\\bx"},
    "w":{"type":"array","items":{"type":"integer"},"uniqueItems":true}},"required":["v"],"if":{},"minProperties":-1})");
  const Json nothing = tools(R"({"type":"object","properties":{"v":false},"required":["v"]})");
  const Json no_object =
      tools(R"({"type":"any","anyOf":5,"properties":{"v":{"type":"null"},"<":{}},"required":["v","<"]})");

  Calls json({.tools = ToolFormat::tagged}, {});
  const auto call = [](const std::string& arguments) {
    return "<tool_call>\n{\"name\": \"odd\", \"arguments\": " + arguments + "}\n</tool_call>";
  };
  json.force({.forced = true}, odd);
  EXPECT_TRUE(json.take(call(R"({"v": "ab", "w": [1, 1]})")));
  EXPECT_FALSE(json.take(call(R"({"v": "abc"})")));
  EXPECT_FALSE(json.take(call("{}")));
  EXPECT_TRUE(json.take("<tool_call>\n{\"name\": \"add\", \"arguments\": {\"n\": 3}}\n</tool_call>"));
  json.force({.only = "odd", .forced = true}, nothing);
  EXPECT_TRUE(json.take(call(R"({"v": 1})")));

  Calls tagged({.tools = ToolFormat::tagged, .function_tags = true}, {});
  const auto tagged_call = [](const std::string& parameters) {
    return "<tool_call>\n<function=odd>\n" + parameters + "</function>\n</tool_call>";
  };
  tagged.force({.forced = true}, odd);
  EXPECT_TRUE(
      tagged.take(tagged_call("<parameter=v>\nab\n</parameter>\n<parameter=w>\n[1, 1]\n</parameter>\n")));
  EXPECT_FALSE(tagged.take(tagged_call("<parameter=v>\nabc\n</parameter>\n")));
  EXPECT_FALSE(tagged.take(tagged_call("")));
  tagged.force({.forced = true}, nothing);
  EXPECT_TRUE(tagged.take(tagged_call("<parameter=v>\n1\n</parameter>\n")));
  tagged.force({.forced = true}, no_object);
  EXPECT_TRUE(tagged.take(tagged_call("<parameter=v>\nnull\n</parameter>\n")));
  EXPECT_FALSE(tagged.take(tagged_call("<parameter=v>\n1\n</parameter>\n")));

  for (const Json& given : {odd, nothing, no_object}) {
    Json strict = given;
    strict.back()["function"]["strict"] = true;
    GrammarRules rules;
    const auto calls =
        add_calls({.tools = ToolFormat::tagged}, MarkTokenizer({}), strict, {.forced = true}, rules);
    ASSERT_FALSE(calls.ok());
    EXPECT_NE(calls.error().message.find("the parameters of odd: #"), std::string::npos)
        << calls.error().message;
  }
}

TEST(ToolGrammar, Hermes) {
  Calls calls({.tools = ToolFormat::tagged}, {"<tool_call>", "</tool_call>"});
  const auto call = [](const std::string& name, const std::string& arguments) {
    return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}\n</tool_call>";
  };
  calls.force({.forced = true});
  EXPECT_TRUE(calls.take(call("add", R"({"n": 3, "unit": "km"})")));
  EXPECT_TRUE(calls.take(call("note", R"({"text": "abc"})")));
  EXPECT_FALSE(calls.take(call("add", R"({"n": "3"})")));
  EXPECT_FALSE(calls.take(call("add", R"({"unit": "km"})")));
  EXPECT_FALSE(calls.take(call("note", R"({"text": "abcd"})")));
  EXPECT_FALSE(calls.take(call("other", "{}")));
  EXPECT_FALSE(calls.take("Of course." + call("add", R"({"n": 3})")));
  EXPECT_FALSE(calls.take(""));
  const std::string two = call("add", R"({"n": 3})") + "\n" + call("add", R"({"n": 4})");
  EXPECT_FALSE(calls.take(two));
  calls.force({.several = true, .forced = true});
  EXPECT_TRUE(calls.take(two));
  calls.force({.only = "note", .forced = true});
  EXPECT_TRUE(calls.take(call("note", R"({"text": ""})")));
  EXPECT_FALSE(calls.take(call("add", R"({"n": 3})")));
  calls.force({});  // beside another form: only strict ones are held to their schemas
  EXPECT_TRUE(calls.take(call("note", R"({"text": "abcd", "more": [1]})")));
  EXPECT_FALSE(calls.take(call("add", R"({"n": "3"})")));
}

TEST(ToolGrammar, FunctionTags) {
  Calls calls({.tools = ToolFormat::tagged, .function_tags = true}, {"<tool_call>", "</tool_call>"});
  const auto call = [](const std::string& name, const std::string& parameters) {
    return "<tool_call>\n<function=" + name + ">\n" + parameters + "</function>\n</tool_call>";
  };
  const auto parameter = [](const std::string& name, const std::string& value) {
    return "<parameter=" + name + ">\n" + value + "\n</parameter>\n";
  };
  calls.force({.forced = true});
  EXPECT_TRUE(calls.take(call("add", parameter("n", "-3") + parameter("unit", "km"))));
  EXPECT_TRUE(calls.take(call("note", parameter("text", "a b"))));
  EXPECT_FALSE(calls.take(call("add", parameter("n", "three"))));
  EXPECT_FALSE(calls.take(call("add", "")));
  EXPECT_FALSE(calls.take(call("note", parameter("text", "abcd"))));
  EXPECT_FALSE(calls.take(call("note", parameter("other", "a"))));
}

// Strings between tags: a text is written exactly if the parser reads it back.
class TaggedStrings {
 public:
  explicit TaggedStrings(const std::string& parameters, bool forced = true)
      : tools_(Json::parse(R"([{"type": "function", "function": {"name": "f")" + parameters + "}}]")),
        calls_({.tools = ToolFormat::tagged, .function_tags = true}, {}, tools_) {
    calls_.force({.forced = forced});
  }
  static std::string written(const std::vector<std::pair<std::string, std::string>>& parameters) {
    std::string out = "<tool_call>\n<function=f>\n";
    for (const auto& [key, value] : parameters)
      out += "<parameter=" + key + ">\n" + value + "\n</parameter>\n";
    return out + "</function>\n</tool_call>";
  }
  bool take(const std::string& answer) const { return calls_.take(answer); }
  bool reads_back(const std::vector<std::pair<std::string, std::string>>& parameters) const {
    OutputRules rules{{ReasoningTags(), ToolFormat::tagged, true}, std::make_shared<const Json>(tools_)};
    rules.exact = true;
    const ParsedOutput got = parse_output(written(parameters), rules);
    if (got.calls.size() != 1 || !got.content.empty()) return false;
    Json want = Json::object();
    for (const auto& [key, value] : parameters) want[key] = value;
    const auto read = parse_json(got.calls[0].arguments);
    return read.ok() && *read == want;
  }

 private:
  const Json tools_;
  Calls calls_;
};

constexpr const char* kOneString =
    R"(, "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]})";

TEST(ToolGrammar, StringsWithTagsInThem) {
  const TaggedStrings held(kOneString), free("");
  for (const std::string text :
       {"plain", "", "s = \"</parameter>\";", "a </parameter> b\nc", "<a></parameter></a>", "</parameter>x",
        "</parameter", "a</parameter></function>b", "a</parameter>\n<parameter=b>\nc",
        " </parameter>\n</form>", "a\n</function>\n</tool_call>\nb", "a\n<parameter=text>\nb",
        "<parameter=other>", "<function=g>\n", "</parameter> \n</tool_call>", "a\n<parameter=b>\nc",
        "<function=g>\n<parameter=a>\n1"}) {
    EXPECT_TRUE(held.take(TaggedStrings::written({{"text", text}}))) << text;
    EXPECT_TRUE(held.reads_back({{"text", text}})) << text;
    EXPECT_TRUE(free.take(TaggedStrings::written({{"any", text}}))) << text;
  }
  for (const std::string text : {"</parameter>", "</parameter>\n<parameter=b>\nc", "a\n</parameter>\nb",
                                 "a\n</parameter>", "\n</parameter>\n\n"}) {
    EXPECT_FALSE(held.take(TaggedStrings::written({{"text", text}}))) << text;
    EXPECT_FALSE(free.take(TaggedStrings::written({{"any", text}}))) << text;
  }
}

TEST(ToolGrammar, WhatIsWrittenIsReadBack) {
  const std::vector<std::string> parts = {
      "</parameter>", "</parameter",   "</function>", "</tool_call>", "<parameter=",   "a", "b>", "\n", "\n",
      "<function=g>", "</parameters>", "<",           "<tool_call>",  "<parameter=b>", "é", " "};
  const TaggedStrings held(R"(, "parameters": {"type": "object", "required": ["b"], "properties": {
        "a": {"type": "string"}, "b": {"type": "string"}}})"),
      free(
          R"(, "parameters": {"type": "object", "properties": {"b": {"type": "string"}, "c": {"type": "string"}}})",
          false);
  std::mt19937 rng(5);
  const auto random_text = [&] {
    std::string text;
    for (size_t n = rng() % 8; n > 0; --n) text += parts[rng() % parts.size()];
    return text;
  };
  int taken = 0, with_tags = 0, refused = 0;
  for (int round = 0; round < 6000; ++round) {
    const std::string text = random_text(), other = random_text();
    const std::vector<std::pair<std::string, std::string>> both = {{"a", text}, {"b", other}};
    const bool back = held.reads_back(both);
    ASSERT_EQ(held.take(TaggedStrings::written(both)), back) << ::testing::PrintToString(both);
    ASSERT_EQ(free.take(TaggedStrings::written(both)), back) << ::testing::PrintToString(both);
    taken += back;
    with_tags += back && text.find("</parameter>") != std::string::npos;
    refused += !back;
  }
  EXPECT_GT(taken, 2000);
  EXPECT_GT(with_tags, 400);
  EXPECT_GT(refused, 200);
}

// Text is free, a call in it is not.
TEST(ToolGrammar, TextWithStrictCalls) {
  Calls calls({.tools = ToolFormat::tagged}, {"<tool_call>", "</tool_call>"});
  calls.offer();
  const std::string good = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"n\": 3}}\n</tool_call>",
                    free = "<tool_call>\n{\"name\": \"note\", \"arguments\": {\"x\": 1}}\n</tool_call>",
                    bad = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"n\": \"3\"}}\n</tool_call>";
  EXPECT_TRUE(calls.take("") && calls.take("No call {\"name\""));
  EXPECT_TRUE(calls.take(good) && calls.take("First: " + good + "\nthen\n" + free));
  EXPECT_FALSE(calls.take(bad) || calls.take("First: " + good + bad));
  EXPECT_FALSE(calls.take("First: <tool_call>") || calls.take("</tool_call>"));
}

// Llama 3's form, and Gemma 3's.
TEST(ToolGrammar, Plain) {
  Calls calls({.tools = ToolFormat::plain}, {"<|python_tag|>"});
  const std::string add = R"({"name": "add", "parameters": {"n": 3}})";
  calls.force({.forced = true});
  EXPECT_TRUE(calls.take(add));
  EXPECT_FALSE(calls.take(R"({"name": "add", "parameters": {"n": 3.5}})"));
  EXPECT_FALSE(calls.take(R"({"name": "add", "arguments": {"n": 3}})"));
  EXPECT_FALSE(calls.take(add + "; " + add));
  calls.force({.several = true, .forced = true});
  EXPECT_TRUE(calls.take(add + "; " + add));
}

TEST(ToolGrammar, ListsBehindAMark) {
  const std::pair<ToolFormat, std::string> formats[] = {{ToolFormat::mistral, "[TOOL_CALLS]"},
                                                        {ToolFormat::listed, "<|tool_call|>"}};
  for (const auto& [format, mark] : formats) {
    Calls calls({.tools = format}, {mark});
    const std::string add = R"({"name": "add", "arguments": {"n": 3}})";
    calls.force({.forced = true});
    EXPECT_TRUE(calls.take(mark + "[" + add + "]"));
    EXPECT_FALSE(calls.take(mark + "[{\"name\": \"add\", \"arguments\": {\"n\": true}}]"));
    EXPECT_FALSE(calls.take(mark + "[" + add + ", " + add + "]") || calls.take("[" + add + "]"));
    calls.force({.several = true, .forced = true});
    EXPECT_TRUE(calls.take(mark + "[" + add + ", " + add + "]"));
  }
}

TEST(ToolGrammar, MistralArguments) {
  Calls calls({.tools = ToolFormat::mistral}, {"[TOOL_CALLS]", "[ARGS]"});
  const std::string add = "[TOOL_CALLS]add[ARGS]{\"n\": 3}";
  calls.force({.forced = true});
  EXPECT_TRUE(calls.take(add));
  EXPECT_FALSE(calls.take("[TOOL_CALLS]add[ARGS]{}") || calls.take("[TOOL_CALLS]add{\"n\": 3}"));
  EXPECT_FALSE(calls.take(add + add));
  calls.force({.several = true, .forced = true});
  EXPECT_TRUE(calls.take(add + add));
}

TEST(ToolGrammar, KeyTags) {
  const auto pair = [](const std::string& key, const std::string& value, const std::string& line) {
    return "<arg_key>" + key + "</arg_key>" + line + "<arg_value>" + value + "</arg_value>" + line;
  };
  const std::vector<std::string> marks = {"<tool_call>", "</tool_call>", "<arg_key>",
                                          "</arg_key>",  "<arg_value>",  "</arg_value>"};
  for (const auto& known : {marks, std::vector<std::string>()})
    for (const std::string line : {"\n", ""}) {
      Calls calls({.tools = ToolFormat::key_tags}, known);
      const auto call = [&](const std::string& name, const std::string& pairs) {
        return "<tool_call>" + name + line + pairs + "</tool_call>";
      };
      const std::string good = call("add", pair("n", "-3", line) + pair("unit", "km", line)),
                        bad = call("add", pair("n", "three", line));
      calls.force({.forced = true});
      EXPECT_TRUE(calls.take(good));
      EXPECT_TRUE(calls.take(call("note", pair("text", "a b", line))));
      EXPECT_FALSE(calls.take(bad) || calls.take(call("add", "")) || calls.take(call("other", "")));
      EXPECT_FALSE(calls.take(call("note", pair("text", "abcd", line))));
      EXPECT_FALSE(calls.take(good + "\n" + good) || calls.take("So: " + good));
      calls.force({.several = true, .forced = true});
      EXPECT_TRUE(calls.take(good + "\n" + good));
      calls.offer();
      EXPECT_TRUE(calls.take("No call.") && calls.take("I add. " + good + "\n" + good + " Done."));
      EXPECT_TRUE(calls.take(call("note", pair("x", "any <b> text\n", line))));
      EXPECT_FALSE(calls.take("I add. " + bad) || calls.take("<tool_call>other\n</tool_call>"));
      EXPECT_FALSE(calls.take(call("note", pair("x", "a</arg_value>b", line))));
    }
}

// Calls between tags, several in a block: MiniMax M2's and Seed-OSS'.
TEST(ToolGrammar, BlocksOfTaggedCalls) {
  const struct {
    ToolFormat format;
    std::string open, close, call, name_end, key, call_close;
  } forms[] = {{ToolFormat::minimax, "<minimax:tool_call>", "</minimax:tool_call>", "<invoke name=\"", "\">",
                "<parameter name=\"", "</invoke>"},
               {ToolFormat::seed, "<seed:tool_call>", "</seed:tool_call>", "<function=", ">",
                "<parameter=", "</function>"}};
  for (const auto& form : forms)
    for (const auto& known : {std::vector<std::string>{form.open, form.close}, {}}) {
      Calls calls({.tools = form.format}, known);
      const auto call = [&](const std::string& name, const std::string& key, const std::string& value) {
        return form.call + name + form.name_end + "\n" + form.key + key + form.name_end + value +
               "</parameter>\n" + form.call_close + "\n";
      };
      const auto block = [&](const std::string& inside) { return form.open + "\n" + inside + form.close; };
      const std::string add = call("add", "n", "3");
      calls.force({.forced = true});
      EXPECT_TRUE(calls.take(block(add)) && calls.take(block(call("note", "text", "a b"))));
      EXPECT_FALSE(calls.take(block(call("add", "n", "x"))) ||
                   calls.take(block(call("note", "text", "abcd"))));
      EXPECT_FALSE(calls.take(block(add + add)) || calls.take(block("")) || calls.take(add));
      calls.force({.several = true, .forced = true});
      EXPECT_TRUE(calls.take(block(add + add)) && calls.take(block(add) + "\n" + block(add)));
      calls.offer();
      EXPECT_TRUE(calls.take("No call.") &&
                  calls.take("So: " + block(add + call("note", "x", "free")) + " Done."));
      EXPECT_FALSE(calls.take("So: " + block(call("add", "n", "x"))));
      EXPECT_FALSE(calls.take(block(call("note", "x", "a</parameter>b"))));
    }
}

// A constant must not contain the tag that ends a value in the model's own format.
TEST(ToolGrammar, ConstantsWithClosingTags) {
  const struct {
    OutputFormat format;
    const char* own;
  } cases[] = {{{.tools = ToolFormat::tagged, .function_tags = true}, "</parameter>"},
               {{.tools = ToolFormat::minimax}, "</parameter>"},
               {{.tools = ToolFormat::key_tags}, "</arg_value>"}};
  for (const auto& c : cases)
    for (const std::string tag : {"</parameter>", "</arg_value>"}) {
      const Json tools =
          Json::array({{{"type", "function"},
                        {"function",
                         {{"name", "f"},
                          {"strict", true},
                          {"parameters",
                           {{"type", "object"}, {"properties", {{"a", {{"enum", {"x" + tag + "y"}}}}}}}}}}}});
      GrammarRules rules;
      const auto calls = add_calls(c.format, MarkTokenizer({}), tools, {.forced = true}, rules);
      EXPECT_EQ(calls.ok(), tag != c.own) << tag << " beside " << c.own;
    }
}

TEST(ToolGrammar, PythonCalls) {
  for (const auto& known : {std::vector<std::string>{"<|tool_call_start|>", "<|tool_call_end|>"}, {}}) {
    Calls calls({.tools = ToolFormat::python}, known);
    const auto list = [](const std::string& inside) {
      return "<|tool_call_start|>[" + inside + "]<|tool_call_end|>";
    };
    calls.force({.forced = true});
    EXPECT_TRUE(calls.take(list("add(n=3, unit=\"km\")")) && calls.take(list("add(n=-3)")));
    EXPECT_TRUE(calls.take(list("note(text=\"a\\\"b\")")));
    EXPECT_FALSE(calls.take(list("add(n=\"3\")")) || calls.take(list("add()")) ||
                 calls.take(list("other()")));
    EXPECT_FALSE(calls.take(list("note(text=\"abcd\")")) || calls.take(list("add(unit=\"km\")")));
    EXPECT_FALSE(calls.take(list("add(n=3), add(n=4)")) || calls.take("add(n=3)"));
    calls.force({.several = true, .forced = true});
    EXPECT_TRUE(calls.take(list("add(n=3), add(n=4)")));
    calls.offer();
    EXPECT_TRUE(calls.take("No.") && calls.take("So: " + list("add(n=3), note(a=1, b=[true])") + " Done."));
    EXPECT_TRUE(calls.take(list("note()")));
    EXPECT_FALSE(calls.take(list("add(n=true)")) || calls.take(list("note(1)")));
  }
}

TEST(ToolGrammar, WhatIsNotBuiltIsRefused) {
  GrammarRules rules;
  const MarkTokenizer tokenizer({"<|tool_call>"});
  for (const ToolFormat form : {ToolFormat::gemma4, ToolFormat::function_gemma, ToolFormat::none}) {
    const auto calls = add_calls({.tools = form}, tokenizer, kTools, {.forced = true}, rules);
    ASSERT_FALSE(calls.ok());
    EXPECT_EQ(calls.error().kind, ErrorKind::unsupported);
  }
  EXPECT_FALSE(add_free_text_with_calls({.tools = ToolFormat::plain}, tokenizer, kTools, rules).ok());
}

}  // namespace
}  // namespace anabranch
