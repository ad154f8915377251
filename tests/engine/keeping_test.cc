// Which states are kept and which are not, and limits of requests that meet them exactly.
#include <filesystem>
#include <set>

#include "engine/crowd.h"
#include "engine/loader.h"
#include "engine/scripted_model.h"
#include "ops/open.h"

namespace anabranch::testing {
namespace {

EngineOptions kept_options(const TinyModel& model) {
  EngineOptions options;
  options.model_path = model.path();
  options.device.threads = 1;
  options.cache.enabled = true;
  options.cache.ram_bytes = 1ull << 28;
  return options;
}

TEST(Keeping, ARequestThatMustNotBeKeptLeavesNothing) {
  const TinyModel model("qwen35_flat_tied");
  const TempDir dir;
  EngineOptions options = kept_options(model);
  options.cache.directory = dir.file("states");
  Request request = request_of(300, 40);
  request.cache = false;
  {
    const auto engine = engine_with(options, false);
    run(*engine, request);
    EXPECT_EQ(engine->stats().cache->ram_bytes, 0u);
    request.cache = true;
    EXPECT_EQ(run_to_end(*engine, request).last.usage.cached_tokens, 0);
    EXPECT_EQ(run_to_end(*engine, request).last.usage.cached_tokens, 299);
  }
  EXPECT_EQ(run_to_end(*engine_with(options, false), request).last.usage.cached_tokens, 299);
}

TEST(Keeping, APromptIsKeptWithoutAnAnswer) {
  const TinyModel model("qwen35_flat_tied");
  const auto engine = engine_with(kept_options(model), false);
  Request request = request_of(300, 0);
  request.cache = false;
  run(*engine, request);
  EXPECT_EQ(engine->stats().cache->ram_bytes, 0u);
  request.cache = true;
  EXPECT_TRUE(run(*engine, request).empty());
  EXPECT_GT(engine->stats().cache->ram_bytes, 0u);
  request.max_tokens = 1;
  EXPECT_EQ(run_to_end(*engine, request).last.usage.cached_tokens, 299);
}

// The next calibration may leave out other layers, under the same name.
TEST(Keeping, StatesOfAModelWithoutSomeLayersAreNotWritten) {
  const TinyModel model("qwen35_nested_untied_grouped");
  model.write("speculation.json", R"({"version": 1, "skip_layers": [1]})");
  const TempDir dir;
  EngineOptions options = kept_options(model);
  options.lossy_skip = true;
  options.cache.directory = dir.file("states");
  {
    const auto engine = engine_with(options, false);
    run(*engine, request_of(300, 10));
    EXPECT_GT(engine->stats().cache->ram_bytes, 0u);
  }
  model.write("speculation.json", R"({"version": 1, "skip_layers": [2]})");
  const auto want = [&] {
    EngineOptions plain = options;
    plain.cache.enabled = false;
    return run(*engine_with(plain, false), request_of(300, 10));
  }();
  const auto engine = engine_with(options, false);
  const auto got = run_to_end(*engine, request_of(300, 10));
  EXPECT_EQ(got.last.usage.cached_tokens, 0);
  EXPECT_EQ(got.tokens, want);
}

TEST(Keeping, ARequestNamesWhatItUsedAndLeft) {
  const TinyModel model("qwen35_flat_tied");
  const auto engine = engine_with(kept_options(model), false);
  Request request = request_of(300, 10);
  EXPECT_TRUE(run_to_end(*engine, request).last.states.empty()) << "nobody asked";
  request.prompt[0]++;
  request.name_states = true;
  const auto first = run_to_end(*engine, request).last.states;
  EXPECT_FALSE(first.empty());
  const auto second = run_to_end(*engine, request).last.states;
  EXPECT_EQ(second, first) << "what was found is what was left";
  request.cache = false;
  EXPECT_TRUE(run_to_end(*engine, request).last.states.empty());
}

// Prompts that share the first words of a template only leave no state there.
TEST(Keeping, NoStateIsKeptWhereLittleIsShared) {
  const TinyModel model("qwen35_flat_tied");
  const auto engine = engine_with(kept_options(model), false);
  const auto left_by = [&](int shared) {
    Request request = request_of(300, 10);
    for (size_t i = static_cast<size_t>(shared); i < 300; i++)
      request.prompt[i] = (request.prompt[i] + shared) % 250;
    request.name_states = true;
    return run_to_end(*engine, request).last.states.size();
  };
  left_by(300);
  const size_t alone = left_by(1);
  EXPECT_EQ(left_by(63), alone);
  EXPECT_EQ(left_by(64), alone + 1);
}

// So that a prompt that differs somewhere finds half of what it shares.
TEST(Keeping, LongPromptsAreKeptAtLengthsThatDouble) {
  const TinyModel model("qwen35_flat_tied");
  const auto engine = engine_with(kept_options(model), false);
  const Request first = request_of(2500, 1);
  EXPECT_EQ(run_to_end(*engine, first).last.usage.cached_tokens, 0);
  for (const auto& [differs_at, cached] : {std::pair(1500, 1024), {2300, 2048}, {900, 0}}) {
    Request other = first;
    for (size_t i = static_cast<size_t>(differs_at); i < other.prompt.size(); i++)
      other.prompt[i] = (other.prompt[i] + differs_at % 7 + 1) % 250;
    EXPECT_EQ(run_to_end(*engine, other).last.usage.cached_tokens, cached) << differs_at;
  }
}

TEST(Keeping, WhatAPreemptedRequestHasComputedIsKept) {
  const TinyModel model("qwen35_flat_tied");
  for (const bool overlap : {false, true}) {
    EngineOptions options = kept_options(model);
    options.memory_bytes = tight_memory(options, overlap, 1);
    const auto engine = engine_with(options, overlap);
    Crowd crowd(*engine);
    Request request = request_of(60, 100);
    request.name_states = true;
    const auto alone = run_to_end(*engine, request).last.states;
    request.prompt[0]++;
    Collector collector;
    ASSERT_TRUE(engine
                    ->submit(request, when_delivered(
                                          20, [&] { crowd.come(); }, collector.sink(0)))
                    .ok());
    const auto names = collector.wait(0).last.states;
    crowd.expect_answers();
    EXPECT_EQ(engine->stats().preempted, 1u);
    const std::set<std::string> states(names.begin(), names.end());
    EXPECT_EQ(states.size(), alone.size() + 1) << "of the prompt, of the preemption, and of the end";
  }
}

TEST(RequestLimits, APromptMayFillTheContextButForOneToken) {
  const TinyModel model("qwen35_flat_tied");
  EngineOptions options = kept_options(model);
  options.context_length = 300;
  const auto engine = engine_with(options, false);
  EXPECT_EQ(run(*engine, request_of(299, 10)).size(), 1u);
  const auto full = engine->submit(request_of(300, 10), [](const Event&) {});
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().kind, ErrorKind::exhausted);
}

TEST(RequestLimits, StopTokensNeedNoOrder) {
  const auto engine =
      scripted_engine({[](const std::vector<int>& tokens) { return 100 - static_cast<int>(tokens.size()); }});
  for (const int stop : {90, 80, 60}) {
    Request request = request_of(5, 60, 0);
    request.prompt[0] = 0;
    request.output.stop_tokens = {200, stop, 3, 199, 1};
    const auto got = run_to_end(*engine, request);
    EXPECT_EQ(got.last.finish, FinishReason::stop) << stop;
    ASSERT_FALSE(got.tokens.empty());
    EXPECT_EQ(got.tokens.back(), stop);
  }
}

// The text that ends a thought has more tokens than a draft may have.
TEST(RequestLimits, AForcedTextIsReadInDrafts) {
  const TinyModel model("qwen35_flat_tied");
  for (const bool overlap : {false, true}) {
    const auto engine = engine_with(kept_options(model), overlap);
    Request request = request_of(40, 400);
    request.ignore_eos = false;
    request.output.thinking_open = true;
    request.thinking.budget = 4;
    const auto got = run_to_end(*engine, request);
    EXPECT_EQ(got.last.error, "");
    const std::string text = engine->tokenizer().decode(got.tokens, true);
    EXPECT_NE(text.find("That is enough thought. I will give the answer now."), std::string::npos) << text;
  }
}

// As if the model had no other tokens: a bias that leaves the same ones gives the same answer.
TEST(RequestLimits, FiltersOfSamplingCountOnlyWhatTheGrammarAllows) {
  const TinyModel model("qwen35_flat_tied");
  const auto engine = engine_with(kept_options(model), false);
  const auto grammar = engine->compile_grammar("root ::= [a-h]{30}");
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  for (const int top_k : {0, 3}) {
    Request request = request_of(40, 25, 1.0f, 5);
    request.ignore_eos = false;
    request.sampling.top_k = top_k;
    request.sampling.top_p = 0.8f;
    request.speculation = SpecMode{.automatic = false, .source = DraftSource::none};
    Request biased = request;
    biased.ignore_eos = true;
    for (int id = 0; id < 263; id++)
      if (id < 'a' - 33 || id > 'h' - 33) biased.sampling.logit_bias.emplace_back(id, -1e6f);
    request.grammar = *grammar;
    const auto got = run(*engine, request);
    EXPECT_EQ(got.size(), 25u);
    EXPECT_EQ(got, run(*engine, biased)) << top_k;
  }
}

// Answer tokens at the prompt's end belong to the grammar.
TEST(RequestLimits, AnAnswerThatHasBegunGoesOnInItsGrammar) {
  const TinyModel model("qwen35_flat_tied");
  const auto engine = engine_with(kept_options(model), false);
  const auto grammar = engine->compile_grammar("root ::= \"ab\" [c-e]{5}");
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  const std::vector<int> begun = {'a' - 33, 'b' - 33}, wrong = {'b' - 33};
  EXPECT_TRUE(engine->check_beginning(*grammar, begun).ok());
  EXPECT_FALSE(engine->check_beginning(*grammar, wrong).ok());
  Request request = request_of(40, 30, 1.0f, 5);
  request.ignore_eos = false;
  request.grammar = *grammar;
  request.prompt.insert(request.prompt.end(), begun.begin(), begun.end());
  request.begun = 2;
  const auto got = run_to_end(*engine, request);
  EXPECT_EQ(got.last.finish, FinishReason::stop) << got.last.error;
  ASSERT_GE(got.tokens.size(), 5u);
  for (size_t i = 0; i < 5; i++)
    EXPECT_TRUE(got.tokens[i] >= 'c' - 33 && got.tokens[i] <= 'e' - 33) << got.tokens[i];
}

// Its text may be what a marker's token stands for, but written in other tokens.
TEST(RequestLimits, NoMarkerIsPartOfAnAnswerUnderAGrammar) {
  const TinyModel model("qwen35_flat_tied");
  Json tokenizer = parse_json(byte_tokenizer()).value();
  for (const char* mark : {"<tool_call>", "</tool_call>"}) {
    Json added = tokenizer["added_tokens"].back();
    added["id"] = 256 + tokenizer["added_tokens"].size();
    added["content"] = mark;
    added["special"] = false;
    tokenizer["added_tokens"].push_back(added);
  }
  model.write("tokenizer.json", tokenizer.dump());
  const auto engine = engine_with(kept_options(model), false);
  const auto grammar = engine->compile_grammar("root ::= \"<tool_call>\" | \"zz\"");
  ASSERT_TRUE(grammar.ok()) << grammar.error().message;
  Request request = request_of(40, 30, 0);
  request.ignore_eos = false;
  request.grammar = *grammar;
  request.sampling.logit_bias = {{259, 100.0f}, {'<' - 33, 50.0f}};
  const auto got = run(*engine, request);
  EXPECT_EQ(std::ranges::count(got, 259), 0);
  EXPECT_GE(got.size(), 11u) << "byte by byte";
}

TEST(LoadedFiles, EveryFileMayNameTheEndsOfTurns) {
  const TinyModel model("llama_tied");
  model.set_config("eos_token_id", Json::array({11, 12}));
  model.write("generation_config.json", R"({"eos_token_id": [21, 5]})");
  const auto loaded = load_model(model.path(), ops::open_device({.threads = 1}).value());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  for (const int id : {5, 11, 12, 21}) EXPECT_EQ(std::ranges::count(loaded->eos, id), 1) << id;
  EXPECT_TRUE(std::ranges::is_sorted(loaded->eos));
}

TEST(LoadedFiles, OfSeveralChatTemplatesTheDefaultIsTaken) {
  const TinyModel model("llama_tied");
  std::filesystem::remove(model.path() + "/chat_template.jinja");
  model.write(
      "tokenizer_config.json",
      R"({"chat_template": [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"},
                                    {"name": "rag", "template": "documents"}]})");
  EXPECT_EQ(chat_template_source(*Checkpoint::open(model.path()).value()).value(), "plain");
}

TEST(LoadedFiles, AnEmbeddingEndsWithWhatItsTokenizerPutsBehindATextOnly) {
  const TinyModel model("llama_tied");
  std::filesystem::create_directory(model.path() + "/1_Pooling");
  model.write("1_Pooling/config.json",
              R"({"pooling_mode_lasttoken": true, "pooling_mode_mean_tokens": false})");
  Json tokenizer = parse_json(byte_tokenizer()).value();
  tokenizer["post_processor"] = *parse_json(
      R"({"type": "TemplateProcessing",
          "single": [{"SpecialToken": {"id": "<think>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                     {"SpecialToken": {"id": "<eos>", "type_id": 0}}],
          "pair": [],
          "special_tokens": {"<eos>": {"id": "<eos>", "ids": [256], "tokens": ["<eos>"]},
                             "<think>": {"id": "<think>", "ids": [257], "tokens": ["<think>"]}}})");
  model.write("tokenizer.json", tokenizer.dump());
  const auto loaded = load_model(model.path(), ops::open_device({.threads = 1}).value());
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(loaded->info.pooling, Pooling::last);
  EXPECT_EQ(loaded->info.embedding_end, std::vector<int>{256});
}

}  // namespace
}  // namespace anabranch::testing
