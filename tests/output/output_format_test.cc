#include "output/output_format.h"

#include <gtest/gtest.h>

#include "base/mapped_file.h"
#include "output/output_parser.h"
#include "output/tool_schema.h"

namespace anabranch {
namespace {

constexpr auto kTagged = ToolFormat::tagged, kPlain = ToolFormat::plain, kMistral = ToolFormat::mistral;

std::shared_ptr<const ChatTemplate> chat_template(const std::string& name) {
  const auto source =
      read_file(ANABRANCH_SOURCE_DIR "/tests/jinja/data/templates/" + name + ".jinja", 1 << 20);
  EXPECT_TRUE(source.ok()) << name;
  auto chat = ChatTemplate::parse(*source, "<s>", "</s>");
  EXPECT_TRUE(chat.ok()) << name;
  return *chat;
}

std::shared_ptr<const Tokenizer> vocabulary(std::vector<std::string> tokens) {
  GgufVocab vocab;
  vocab.model = "llama";
  vocab.tokens = std::move(tokens);
  vocab.tokens.insert(vocab.tokens.begin(), "<unk>");
  vocab.types.assign(vocab.tokens.size(), 3);
  vocab.scores.assign(vocab.tokens.size(), 0);
  vocab.unk = 0;
  auto made = Tokenizer::from_gguf(vocab);
  EXPECT_TRUE(made.ok()) << made.error().message;
  return *made;
}

// Nothing else may write them: an answer in a form, or a user.
TEST(OutputFormat, TagsOfThoughtsAndCallsAreMarks) {
  const auto words = vocabulary({"a", "<think>", "</think>", "<tool_call>", "</tool_call>"});
  const auto marks = mark_tokens(find_output_format(chat_template("qwen3").get(), *words), *words);
  for (const char* mark : {"<think>", "</think>", "<tool_call>", "</tool_call>"})
    EXPECT_EQ(std::ranges::count(marks, *words->find(mark)), 1) << mark;
  EXPECT_EQ(std::ranges::count(marks, *words->find("a")), 0);
}

// What a template writes for calls, the parser reads.
TEST(OutputFormat, TemplatesRoundTrip) {
  const auto bare = vocabulary({"a"});
  const std::pair<const char*, ToolFormat> known[] = {{"qwen3.5", kTagged},
                                                      {"qwen3", kTagged},
                                                      {"qwen2.5", kTagged},
                                                      {"qwen3_coder", kTagged},
                                                      {"anabranch_hybrid", kTagged},
                                                      {"mistral_nemo", kMistral},
                                                      {"glm4.6", ToolFormat::key_tags},
                                                      {"glm4.7_flash", ToolFormat::key_tags},
                                                      {"deepseek_v3.1", ToolFormat::deepseek},
                                                      {"deepseek_r1_distill", ToolFormat::deepseek_json},
                                                      {"deepseek_v3.2", ToolFormat::dsml_functions},
                                                      {"minimax_m2", ToolFormat::minimax},
                                                      {"seed_oss", ToolFormat::seed},
                                                      {"apertus", ToolFormat::named_keys},
                                                      {"apriel1.6", ToolFormat::calls_tag},
                                                      {"minicpm5", ToolFormat::params},
                                                      {"step3.5_flash", kTagged},
                                                      {"granite4", kTagged},
                                                      {"mistral_small_3.2", kMistral},
                                                      {"mistral_v0.3_like", kMistral},
                                                      {"llama3.2_like", kPlain}};
  const Json arguments = {{"city", "Sankt \"P\"\n<a>"},
                          {"days", 3},
                          {"exact", true},
                          {"limits", {{"low", 1.5}}},
                          {"tags", {"a", 2}}};
  const auto tools = std::make_shared<const Json>(Json::parse(R"([
      {"type": "function", "function": {"name": "weather", "description": "Forecasts", "parameters": {"type": "object", "properties": {
        "city": {"type": "string"}, "days": {"type": "integer"}, "exact": {"type": "boolean"},
        "limits": {"type": "object"}, "tags": {"type": "array"}}}}}])"));
  for (const auto& [name, form] : known) {
    const auto chat = chat_template(name);
    const OutputFormat format = find_output_format(chat.get(), *bare);
    EXPECT_EQ(format.tools, form) << name;
    const Json call = {{"id", "abcdefgh1"},
                       {"type", "function"},
                       {"function", {{"name", "weather"}, {"arguments", arguments}}}};
    const Json messages = Json::array({{{"role", "user"}, {"content", "ASKED"}},
                                       {{"role", "assistant"}, {"content", ""}, {"tool_calls", {call}}}});
    const auto pieces = chat->render(messages, *tools, {});
    ASSERT_TRUE(pieces.ok()) << name << ": " << pieces.error().message;
    std::string text = join(*pieces);
    text.erase(0, text.find("ASKED") + 5);
    if (form == kPlain) text = text.substr(text.find('{'), text.rfind('}') + 1 - text.find('{'));
    const ParsedOutput parsed = parse_output(text, {format, tools, false});
    ASSERT_EQ(parsed.calls.size(), 1u) << name << ": " << text;
    EXPECT_EQ(parsed.calls[0].name, "weather") << name;
    EXPECT_EQ(Json::parse(parsed.calls[0].arguments), arguments) << name << ": " << parsed.calls[0].arguments;
  }
}

// The instructions may name the marks of another format.
TEST(OutputFormat, TheCallItselfCounts) {
  const auto chat = ChatTemplate::parse(R"(Write no <tool_call>.
{% for m in messages %}{{ m.role }}: {{ m.content or '' }}{% for c in m.tool_calls or [] %}<|function_call|>{{ c.function | tojson }}{% endfor %}
{% endfor %})",
                                        "<s>", "</s>");
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(find_output_format(chat->get(), *vocabulary({"<tool_call>"})).tools, ToolFormat::gigachat);
}

// Templates that write calls as MiniMax M2's, Seed-OSS' and LFM2.5's do.
TEST(OutputFormat, CallsOfMiniMaxSeedAndLfm) {
  const std::pair<ToolFormat, const char*> forms[] = {
      {ToolFormat::minimax, R"({% for m in messages %}{{ m.content or '' }}{% if m.tool_calls %}
<minimax:tool_call>
{% for c in m.tool_calls %}<invoke name="{{ c.function.name }}">
{% for k, v in c.function.arguments.items() %}<parameter name="{{ k }}">{{ v if v is string else v | tojson }}</parameter>
{% endfor %}</invoke>
{% endfor %}</minimax:tool_call>{% endif %}{% endfor %})"},
      {ToolFormat::seed, R"({% for m in messages %}{{ m.content or '' }}{% for c in m.tool_calls %}
<seed:tool_call>
<function={{ c.function.name }}>
{% for k, v in c.function.arguments.items() %}<parameter={{ k }}>{{ v if v is string else v | string }}</parameter>
{% endfor %}</function>
</seed:tool_call>{% endfor %}{% endfor %})"},
      {ToolFormat::python,
       R"({% for m in messages %}{{ m.content or '' }}{% if m.tool_calls %}<|tool_call_start|>[{% for c in m.tool_calls %}{{ c.function.name }}({% for k, v in c.function.arguments.items() %}{{ k }}={{ v | tojson }}{{ ', ' if not loop.last }}{% endfor %}){{ ', ' if not loop.last }}{% endfor %}]<|tool_call_end|>{% endif %}{% endfor %})"}};
  const auto tools = std::make_shared<const Json>(Json::parse(R"([{"type": "function", "function": {
      "name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}])"));
  Json calls = Json::array();
  for (const Json& city : {Json("Sankt \"P\"\n<a>"), Json("12")})
    calls.push_back({{"type", "function"},
                     {"function", {{"name", "weather"}, {"arguments", {{"city", city}, {"days", 3}}}}}});
  for (const auto& [form, source] : forms) {
    const auto chat = ChatTemplate::parse(source, "<s>", "</s>");
    ASSERT_TRUE(chat.ok());
    const OutputFormat format = find_output_format(chat->get(), *vocabulary({"<tool_call>", "a"}));
    EXPECT_EQ(format.tools, form);
    const auto pieces = (*chat)->render(
        Json::array({{{"role", "assistant"}, {"content", "So."}, {"tool_calls", calls}}}), *tools, {});
    ASSERT_TRUE(pieces.ok()) << pieces.error().message;
    const ParsedOutput parsed = parse_output(join(*pieces), {format, tools, false});
    EXPECT_EQ(parsed.content, "So.");
    ASSERT_EQ(parsed.calls.size(), 2u) << join(*pieces);
    for (size_t i = 0; i < 2; i++)
      EXPECT_EQ(Json::parse(parsed.calls[i].arguments), calls[i]["function"]["arguments"]) << join(*pieces);
  }
}

// Without a template that renders calls, the vocabulary says the format.
TEST(OutputFormat, TokensOfGraniteAndPhi) {
  EXPECT_EQ(find_output_format(nullptr, *vocabulary({"<|tool_call|>", "a"})).tools, ToolFormat::listed);
  EXPECT_EQ(find_output_format(nullptr, *vocabulary({"a"})).tools, ToolFormat::none);
  const auto thinks = find_output_format(nullptr, *vocabulary({"<seed:think>", "</seed:think>"})).reasoning;
  ASSERT_TRUE(thinks.has_value());
  EXPECT_EQ(thinks->close, "</seed:think>");
}

// What stands between tags is typed by what a reference says, too.
TEST(ToolSchema, ReferencesSayTypes) {
  const Json tools = parse_json(R"([{"type":"function","function":{"name":"f","parameters":{
      "$defs":{"text":{"type":"string"},"deep":{"$ref":"#/$defs/text"},"endless":{"$ref":"#/$defs/endless"}},
      "properties":{"a":{"$ref":"#/$defs/text"},"b":{"anyOf":[{"$ref":"#/$defs/deep"},{"type":"null"}]},
                    "c":{"$ref":"#/$defs/endless"},"d":{"$ref":"#/none"}}}}}])")
                         .value();
  EXPECT_EQ(typed_argument(tools, "f", "a", "12345"), "\"12345\"");
  EXPECT_EQ(typed_argument(tools, "f", "b", "12345"), "\"12345\"");
  EXPECT_EQ(typed_argument(tools, "f", "b", "null"), "null");
  EXPECT_EQ(typed_argument(tools, "f", "c", "12345"), "12345");
  EXPECT_EQ(typed_argument(tools, "f", "d", "12345"), "12345");
}

TEST(ToolSchema, NullableTextsMayBeNull) {
  const Json tools = parse_json(R"([{"type":"function","function":{"name":"f","parameters":{"properties":{
      "a":{"type":"string","nullable":true},"b":{"type":"string","nullable":false},"c":{"nullable":true}}}}}])")
                         .value();
  EXPECT_EQ(typed_argument(tools, "f", "a", "null"), "null");
  EXPECT_EQ(typed_argument(tools, "f", "a", "12"), "\"12\"");
  EXPECT_EQ(typed_argument(tools, "f", "b", "null"), "\"null\"");
  EXPECT_EQ(typed_argument(tools, "f", "c", "12"), "12") << "it allows any type";
}

// As generators of schemas write them: the object itself behind a reference, types that hold together.
TEST(ToolSchema, TypesOfWhatIsJoined) {
  const Json tools = parse_json(R"([{"type":"function","function":{"name":"f","parameters":{
      "$ref":"#/definitions/A","definitions":{"A":{"type":"object","properties":{"zip":{"type":"string"},
        "b":{"allOf":[{"type":["string","integer"]},{"type":"string"}]},
        "c":{"type":["string","number"],"enum":[1,2]}}}}}}}])")
                         .value();
  EXPECT_EQ(typed_argument(tools, "f", "zip", "12345"), "\"12345\"");
  EXPECT_EQ(typed_argument(tools, "f", "b", "12"), "\"12\"");
  EXPECT_EQ(typed_argument(tools, "f", "c", "1"), "1");
}

// A client's references may name each other as often as they like.
TEST(ToolSchema, ReferencesInCirclesCostLittle) {
  Json circle = Json::array();
  for (int i = 0; i < 300; i++) circle.push_back({{"$ref", "#/$defs/a"}});
  const Json both = {{"anyOf", circle}, {"oneOf", circle}, {"allOf", circle}};
  const Json parameters = {{"$defs", {{"a", both}}}, {"properties", {{"p", {{"$ref", "#/$defs/a"}}}}}};
  const Json tools =
      Json::array({{{"type", "function"}, {"function", {{"name", "f"}, {"parameters", parameters}}}}});
  EXPECT_EQ(typed_argument(tools, "f", "p", "1"), "1");
}

TEST(OutputFormat, FromTheVocabulary) {
  const auto form = [](std::vector<std::string> tokens) {
    return find_output_format(nullptr, *vocabulary(std::move(tokens)));
  };
  EXPECT_EQ(form({"a"}).tools, ToolFormat::none);
  EXPECT_FALSE(form({"<think>"}).reasoning);
  EXPECT_EQ(form({"<tool_call>", "<think>", "</think>"}).tools, kTagged);
  EXPECT_EQ(form({"<tool_call>", "<think>", "</think>"}).reasoning->close, "</think>");
  const OutputFormat gemma = form({"<|tool_call>", "<|channel>", "<channel|>", "<start_of_turn>"});
  EXPECT_EQ(gemma.tools, ToolFormat::gemma4);
  EXPECT_EQ(gemma.reasoning->open, "<|channel>thought");
  EXPECT_EQ(form({"[TOOL_CALLS]", "[THINK]", "[/THINK]"}).reasoning->open, "[THINK]");
  EXPECT_EQ(form({"<start_of_turn>"}).tools, kPlain);
  EXPECT_EQ(form({"<tool_call>", "<arg_key>"}).tools, ToolFormat::key_tags);
  EXPECT_EQ(form({"<minimax:tool_call>"}).tools, ToolFormat::minimax);
  EXPECT_EQ(form({"<seed:tool_call>"}).tools, ToolFormat::seed);
  EXPECT_EQ(form({"<|tool_call_start|>"}).tools, ToolFormat::python);
  EXPECT_EQ(form({"<|START_ACTION|>"}).tools, ToolFormat::actions);
  EXPECT_EQ(form({"<|tool_calls_section_begin|>"}).tools, ToolFormat::kimi);
  EXPECT_EQ(form({"<function_calls>"}).tools, ToolFormat::lines);
  EXPECT_EQ(form({"<|tools_prefix|>", "<|inner_prefix|>", "<|inner_suffix|>"}).tools, ToolFormat::named_keys);
  EXPECT_EQ(form({"<|inner_prefix|>", "<|inner_suffix|>"}).reasoning->close, "<|inner_suffix|>");
  EXPECT_EQ(form({"<think:opensource>", "</think:opensource>"}).reasoning->open, "<think:opensource>");
  // A template that knows no calls: the vocabulary decides.
  EXPECT_EQ(find_output_format(chat_template("phi3.5").get(), *vocabulary({"<tool_call>"})).tools, kTagged);
}

// GLM-4.5 and 4.6 write a line end before a thought, which is not part of the prompt.
TEST(OutputFormat, WhiteSpaceBeforeAThought) {
  const auto tokens = vocabulary({"<think>", "</think>"});
  for (const auto& [name, before] : {std::pair("glm4.6", true),
                                     {"qwen3", false},
                                     {"qwen3.5", false},
                                     {"deepseek_r1_distill", false},
                                     {"phi3.5", false}})
    EXPECT_EQ(find_output_format(chat_template(name).get(), *tokens).reasoning->blanks_before, before)
        << name;
}

TEST(Reasoning, PromptEndsInsideABlock) {
  const ReasoningTags tags;
  EXPECT_TRUE(ends_inside_reasoning("<|im_start|>assistant\n<think>\n", tags));
  EXPECT_FALSE(ends_inside_reasoning("<|im_start|>assistant\n<think>\n\n</think>\n\n", tags));
  EXPECT_FALSE(ends_inside_reasoning("<|im_start|>assistant\n", tags));
  EXPECT_TRUE(ends_inside_reasoning("<think>a</think>b<think>", tags));
  EXPECT_FALSE(ends_inside_reasoning("</think>", tags));
  EXPECT_FALSE(ends_inside_reasoning("", tags));
}

}  // namespace
}  // namespace anabranch
