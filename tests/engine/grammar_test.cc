// Answers under a grammar: always of its language, and the same tokens however they are decoded.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.h"
#include "engine/scripted_model.h"
#include "grammar/schema_grammar.h"
#include "output/reasoning.h"

namespace anabranch::testing {
namespace {

using Tokens = std::vector<int>;

std::string schema_grammar(const char* schema) {
  GrammarRules rules;
  const auto element = add_schema(parse_json(schema).value(), rules);
  EXPECT_TRUE(element.ok()) << element.error().message;
  return rules.text(*element);
}

const char* const kSchemas[] = {
    R"({"type":"object","properties":{"name":{"type":"string","maxLength":9},"n":{"type":"integer","minimum":-5,"maximum":40},
        "kind":{"enum":["a","bc",null]}},"required":["name","kind"]})",
    R"({"type":"array","items":{"type":"object","properties":{"x":{"type":"number"}},"required":["x"]},"minItems":2,"maxItems":3})",
    R"({"$ref":"#/$defs/t","$defs":{"t":{"type":"object","properties":{"v":{"type":"boolean"},
        "t":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"null"}]}},"required":["v","t"]}}})",
    R"({"type":"string","pattern":"^[ab]{2,4}-[0-9]$"})"};

// Anything at all, but the same each time: with noise, every kind of text comes up. A thought ends after 12
// tokens.
Script noise(bool thinks) {
  return [thinks](const Tokens& tokens) {
    if (thinks && tokens.size() == 17) return kThinkEnd;
    uint32_t hash = 2166136261u;
    for (const int token : tokens) hash = (hash ^ static_cast<uint32_t>(token)) * 16777619u;
    return static_cast<int>((hash >> 8) % 256);
  };
}

Request request_for(Engine& engine, const std::string& grammar, bool thinks, uint64_t seed) {
  Request request;
  request.prompt = {thinks ? 1 : 0, 1, 2, 3, thinks ? kThink : 4};
  request.output.thinking_open = thinks;
  request.sampling.temperature = 30;  // the model's choice is one among many
  request.sampling.seed = seed;
  request.max_tokens = 300;
  const auto compiled = engine.compile_grammar(grammar);
  EXPECT_TRUE(compiled.ok()) << compiled.error().message;
  request.grammar = *compiled;
  return request;
}

std::string answer_of(const Tokens& tokens, const Tokenizer& tokenizer) {
  const auto close = std::find(tokens.rbegin(), tokens.rend(), kThinkEnd);
  const std::string text =
      tokenizer.decode(Tokens(close == tokens.rend() ? tokens.begin() : close.base(), tokens.end()), true);
  return text.substr(std::min(text.size(), text.find_first_not_of("\n ")));
}

TEST(GrammarEngine, AnswersAreOfTheLanguageHoweverTheyAreDecoded) {
  const auto engine = scripted_engine({noise(false), noise(true)});
  int whole = 0;
  for (const char* schema : kSchemas) {
    const std::string grammar = schema_grammar(schema);
    for (const bool thinks : {false, true})
      for (uint64_t seed = 0; seed < 6; seed++) {
        SCOPED_TRACE(fmt::format("{} {} {}", schema, thinks, seed));
        Request request = request_for(*engine, grammar, thinks, seed);
        request.thinking.budget = seed % 2 == 0 ? 100 : 5;
        request.thinking.answer_start = "```json";  // not of the language: left out
        request.speculation = SpecMode{.automatic = false, .source = DraftSource::none};
        const auto plain = run_to_end(*engine, request);
        ASSERT_EQ(plain.last.error, "");
        EXPECT_GT(plain.last.usage.grammar_tokens, 0);
        if (plain.last.finish == FinishReason::stop) {
          whole++;
          const std::string text = answer_of(plain.tokens, engine->tokenizer());
          EXPECT_TRUE(parse_json(text).ok()) << text;
        }
        for (const int depth : {1, 4, 15}) {
          request.speculation = SpecMode{.automatic = false, .source = DraftSource::ngram, .depth = depth};
          EXPECT_EQ(run_to_end(*engine, request).tokens, plain.tokens) << depth;
        }
      }
  }
  EXPECT_GE(whole, 24);
}

// Beside one another, with and without grammars.
TEST(GrammarEngine, NeighboursChangeNothing) {
  const auto engine = scripted_engine({noise(false), noise(true)});
  std::vector<Request> requests;
  for (uint64_t i = 0; i < 6; i++) {
    requests.push_back(request_for(*engine, schema_grammar(kSchemas[i % 4]), i % 2 == 1, i));
    if (i >= 4) requests.back().grammar = nullptr;
    requests.back().max_tokens = 80;
  }
  std::vector<Tokens> alone;
  for (const auto& request : requests) alone.push_back(run_to_end(*engine, request).tokens);
  Collector collector;
  for (size_t i = 0; i < requests.size(); i++)
    ASSERT_TRUE(engine->submit(requests[i], collector.sink(static_cast<int>(i))).ok());
  for (size_t i = 0; i < requests.size(); i++)
    EXPECT_EQ(collector.wait(static_cast<int>(i)).tokens, alone[i]) << i;
}

// gpt-oss: a grammar beside tools is one of whole messages, and their headers are part of the answer.
TEST(GrammarEngine, HeadersOfMessagesFollowTheGrammar) {
  const TinyModel model("qwen35_flat_tied");
  Json tokenizer = parse_json(byte_tokenizer()).value();
  const Json plain = tokenizer["added_tokens"].back();
  tokenizer["added_tokens"].clear();
  for (const char* mark : {"<|return|>", "<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>"}) {
    tokenizer["added_tokens"].push_back(plain);
    tokenizer["added_tokens"].back()["id"] = 255 + tokenizer["added_tokens"].size();
    tokenizer["added_tokens"].back()["content"] = mark;
  }
  model.write("tokenizer.json", tokenizer.dump());
  EngineOptions options;
  options.model_path = model.path();
  options.device.threads = 1;
  const auto engine = Engine::create(options).value();
  const auto grammar = engine->compile_grammar("root ::= Token(258) \"final\" Token(259) [a-e]{12}");
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  for (const CallPolicy calls : {CallPolicy::offered, CallPolicy::text}) {
    Request request = request_of(30, 40);
    request.ignore_eos = false;
    request.output.format.reasoning = find_reasoning_tags(engine->tokenizer());
    ASSERT_TRUE(request.output.format.reasoning->are_messages());
    request.thinking.calls = calls;
    request.grammar = *grammar;
    const auto got = run_to_end(*engine, request);
    EXPECT_EQ(got.last.finish, FinishReason::stop) << got.last.error;
    EXPECT_EQ(std::ranges::count(got.tokens, 258), 1);
    EXPECT_GE(engine->tokenizer().decode(got.tokens, false).size(), 17u);
  }
}

// Where nothing may come next the request fails, and no other one.
TEST(GrammarEngine, ADeadEndIsAnError) {
  const auto engine = scripted_engine({noise(false), noise(true)});
  const auto got = run_to_end(*engine, request_for(*engine, "root ::= \"a\" Token(256) \"b\"", false, 1));
  EXPECT_EQ(got.last.finish, FinishReason::error);
  EXPECT_NE(got.last.error.find("grammar"), std::string::npos) << got.last.error;
  EXPECT_EQ(run_to_end(*engine, request_for(*engine, "root ::= \"a\"", false, 1)).last.finish,
            FinishReason::stop);
}

// At max_tokens, and where an answer repeats itself without end, the text is cut and says so.
TEST(GrammarEngine, CutTextSaysLength) {
  const auto engine = scripted_engine({[](const Tokens&) { return 'a' - '!'; }, noise(true)});
  Request request = request_for(*engine, "root ::= \"[\" [a-z]* \"]\"", false, 1);
  request.sampling.temperature = 0;
  request.max_tokens = 7;
  auto got = run_to_end(*engine, request);
  EXPECT_EQ(got.last.finish, FinishReason::length);
  EXPECT_EQ(got.tokens.size(), 7u);
  request.max_tokens = 5000;
  got = run_to_end(*engine, request);
  EXPECT_EQ(got.last.finish, FinishReason::length);
  EXPECT_EQ(got.last.usage.cut, "answer_loop");
  EXPECT_LT(got.tokens.size(), 5000u);
}

}  // namespace
}  // namespace anabranch::testing
