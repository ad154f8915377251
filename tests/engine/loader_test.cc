// What is loaded for drafts, what is said of it, and why something cannot be used.
#include "engine/loader.h"

#include "checkpoint/convert.h"
#include "checkpoint/gguf_writer.h"
#include "engine/loader_gguf.h"
#include "engine/loader_gguf_keys.h"
#include "engine/memory_plan.h"
#include "engine/tiny_model.h"
#include "ops/open.h"

namespace anabranch {
namespace {

using testing::SafetensorsWriter;
using testing::TinyModel;

const std::string kWithHead = "qwen35_nested_untied_grouped", kPlain = "qwen35_flat_tied";

#define EXPECT_HAS(text, part) EXPECT_NE(std::string(text).find(part), std::string::npos) << (text)

LoadedModel loaded(const TinyModel& model, LoadedFor purpose = LoadedFor::answers) {
  auto out = load_model(model.path(), ops::open_device({}).value(), {purpose});
  EXPECT_TRUE(out.ok()) << out.error().message;
  return std::move(*out);
}

// A key of text_config.
void set_text_config(const TinyModel& model, const char* key, const Json& value) {
  Json config = parse_json(read_file(model.path() + "/config.json", 1 << 20).value()).value();
  config["text_config"][key] = value;
  model.write("config.json", config.dump());
}

TEST(Loader, KnowsWhichWeightsDoNotFit) {
  EXPECT_EQ(weights_problem(3'200'000'000, 3'300'000'000), "");
  EXPECT_EQ(weights_problem(5'000'000'000, 0), "");  // not known
  EXPECT_NE(weights_problem(3'200'000'000, 3'200'000'000), "");
  EXPECT_HAS(weights_problem(5'060'000'000, 3'200'000'000), "5.1 GB of weights are more than the 3.2 GB");
  EXPECT_HAS(weights_problem(5'060'000'000, 3'200'000'000), "About 5 billion parameters in 4 bits fit");
}

TEST(Loader, AnMtpHeadThatCannotBeRunIsLeftAside) {
  const struct {
    const char* key;
    Json value;
    const char* why;
  } cases[] = {{"mtp_use_dedicated_embeddings", true, "embedding of its own (mtp_use_dedicated_embeddings)"},
               {"mtp_num_hidden_layers", 2, "2 layers (mtp_num_hidden_layers)"}};
  for (const auto& c : cases) {
    const TinyModel model(kWithHead);
    ASSERT_TRUE(loaded(model).info.has_mtp);
    set_text_config(model, c.key, c.value);
    const auto without = loaded(model);
    EXPECT_FALSE(without.info.has_mtp) << c.key;
    EngineOptions options;
    options.model_path = model.path();
    options.speculation = {.automatic = false, .source = DraftSource::mtp};
    const auto engine = Engine::create(options);
    ASSERT_FALSE(engine.ok());
    EXPECT_EQ(engine.error().kind, ErrorKind::unsupported);
    EXPECT_HAS(engine.error().message, c.why);
  }
}

// GLM's and DeepSeek's layers for prediction are not run: it is as if there were none.
TEST(Loader, LayersForPredictionThatAreNotRunAreNoHead) {
  ModelInfo info;
  info.name = "glm";
  ModelSpec spec;
  spec.mtp_layers = 1;
  const auto without = cannot_draft(DraftSource::mtp, info, {});
  EXPECT_HAS(without.message, "glm has no MTP head");
  EXPECT_EQ(cannot_draft(DraftSource::mtp, info, spec).message, without.message);
  spec.runs_mtp = true;
  EXPECT_HAS(cannot_draft(DraftSource::mtp, info, spec).message,
             "lack the MTP head that its config promises");
}

TEST(Loader, AnMtpHeadOfMoreLayersThanTheConfigSaysIsRefused) {
  const TinyModel model(kWithHead);
  SafetensorsWriter more;
  more.f32("mtp.layers.1.input_layernorm.weight", {1}, {1});
  model.write("more.safetensors", more.bytes());
  const auto refused = load_model(model.path(), ops::open_device({}).value());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::invalid);
  EXPECT_HAS(refused.error().message, "an MTP head of 2 layers, but mtp_num_hidden_layers is 1");
}

TEST(Loader, ALossyModelSaysWhyItHasNoDraftsFromLayers) {
  const TinyModel model(kPlain);
  EngineOptions options;
  options.model_path = model.path();
  options.lossy_skip = true;
  const auto uncalibrated = Engine::create(options);
  ASSERT_FALSE(uncalibrated.ok());
  EXPECT_HAS(uncalibrated.error().message, "--lossy-skip: calibration has not found layers");

  model.write("speculation.json", R"({"version": 1, "exit_layers": [0, 1], "skip_layers": [3]})");
  for (const auto source : {DraftSource::exit, DraftSource::skip}) {
    options.speculation = {.automatic = false, .source = source};
    const auto engine = Engine::create(options);
    ASSERT_FALSE(engine.ok());
    EXPECT_HAS(engine.error().message, "left out for good (--lossy-skip)");
  }
  options.speculation = {};
  const auto engine = Engine::create(options);
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  EXPECT_TRUE((*engine)->info().lossy);
  EXPECT_EQ((*engine)->info().layers, 3);
}

TEST(Loader, LayersThatNeedEachOtherAreNotLeftOut) {
  const TinyModel model("gemma4_shared_kv");
  model.write("speculation.json", R"({"version": 1, "exit_layers": [0, 1], "skip_layers": [1]})");
  EngineOptions options;
  options.model_path = model.path();
  options.lossy_skip = true;
  const auto engine = Engine::create(options);
  ASSERT_FALSE(engine.ok());
  EXPECT_EQ(engine.error().kind, ErrorKind::unsupported);
  EXPECT_HAS(engine.error().message, "need each other");
}

TEST(Loader, WhatWasNotMeasuredIsNotToldAsZero) {
  Calibration c;
  c.skip_layers = {2, 5};
  EXPECT_EQ(lossy_note(c, 28),
            "2 of 28 layers are left out, unverified: what that does to perplexity was not measured, and how "
            "often the most likely token changes was not measured");
  c.perplexity = 9.5;
  c.skip_perplexity = 10.25;
  c.lossy_agreement = 0.876;
  EXPECT_EQ(
      lossy_note(c, 28),
      "2 of 28 layers are left out, unverified: on the text of calibration perplexity is 10.25 instead of "
      "9.50, and the most likely token is the full model's in 88 % of places");
}

TEST(Loader, RowsForDraftsAreKeptOnlyWhereSomethingDraftsWithThem) {
  const TinyModel plain(kPlain), with_head(kWithHead);
  const std::vector<int> ids = {1, 5, 7};
  for (const auto* model : {&plain, &with_head})
    model->write("speculation.json", R"({"version": 1, "draft_vocab": [1, 5, 7]})");
  EXPECT_TRUE(loaded(plain).model->draft_vocab().empty());
  EXPECT_EQ(loaded(plain, LoadedFor::drafts).model->draft_vocab(), ids);
  EXPECT_EQ(loaded(with_head).model->draft_vocab(), ids);
  for (const char* layers : {"exit_layers", "skip_layers"}) {
    plain.write("speculation.json", Json{{"version", 1}, {"draft_vocab", ids}, {layers, {0, 1}}}.dump());
    EXPECT_EQ(loaded(plain).model->draft_vocab(), ids) << layers;
  }
  // Of another model: neither its layers nor its ids are used.
  plain.write("speculation.json", R"({"version": 1, "draft_vocab": [1, 5, 7], "exit_layers": [0, 9]})");
  EXPECT_TRUE(loaded(plain).model->draft_vocab().empty());
}

std::string gguf_of(const char* model, const testing::GgufWriter& keys) {
  const std::string file =
      read_file(fmt::format("{}/tests/models/data/{}/model.gguf", ANABRANCH_SOURCE_DIR, model), 64 << 20)
          .value();
  return testing::with_metadata(file, keys.keys(), keys.key_count());
}

// A tiny GGUF model with a tokenizer of letters, and what `add` adds.
std::string gguf_with_tokenizer(const char* pre, const std::function<void(testing::GgufWriter&)>& add = {}) {
  std::vector<std::string> tokens = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
  for (char c = 'a'; c <= 'z'; c++) tokens.push_back({c});
  for (const char* more : {"\u0120", "\u010A", "th", "the"}) tokens.push_back(more);
  std::vector<int32_t> types(tokens.size(), 1);
  types[0] = types[1] = types[2] = 3;
  testing::GgufWriter keys;
  keys.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", pre);
  keys.texts("tokenizer.ggml.tokens", tokens).texts("tokenizer.ggml.merges", {"t h", "th e"});
  keys.numbers("tokenizer.ggml.token_type", types);
  keys.u32("tokenizer.ggml.bos_token_id", 0).u32("tokenizer.ggml.eot_token_id", 2);
  keys.text("tokenizer.chat_template", "{{ messages[0].content }}<|im_end|>");
  if (add) add(keys);
  return gguf_of("qwen35_moe_gguf", keys);
}

TEST(Loader, TokenIdsOfGgufFilesAreWholeNumbers) {
  for (const float id : {1.0f, 1e30f}) {
    const testing::TempDir dir;
    dir.write("model.gguf", gguf_with_tokenizer("qwen35", [&](testing::GgufWriter& keys) {
                keys.f32("tokenizer.ggml.padding_token_id", id);
              }));
    const auto vocab = read_gguf_vocab(*Checkpoint::open(dir.file("model.gguf")).value());
    ASSERT_FALSE(vocab.ok()) << id;
    EXPECT_HAS(vocab.error().message, "tokenizer metadata of the wrong type");
  }
}

TEST(Loader, TokenIdsOfGgufFilesAreNotCutToTheirLowestBits) {
  const auto padding_of = [](uint64_t id) {
    const testing::TempDir dir;
    dir.write("model.gguf", gguf_with_tokenizer("qwen35", [&](testing::GgufWriter& keys) {
                keys.u64("tokenizer.ggml.padding_token_id", id);
              }));
    return read_gguf_vocab(*Checkpoint::open(dir.file("model.gguf")).value()).value().pad;
  };
  EXPECT_EQ(padding_of(7), 7);
  EXPECT_EQ(padding_of(0xFFFFFFFF), -1);                 // none
  EXPECT_GT(padding_of((uint64_t{1} << 32) + 7), 1000);  // beyond every vocabulary, and not 7
}

// Of Gemma 4 the end of a turn and the beginning of a call's result end an answer, whatever the metadata say.
TEST(Loader, Gemma4EndsItsTurns) {
  const std::vector<std::string> tokens = {
      "<pad>",      "<eos>",      "<bos>", "<unk>", "<|turn>", "<turn|>", "<|tool_response>",
      "<|channel>", "<channel|>", "▁",     "a",     "▁a"};
  std::vector<int32_t> types = {3, 3, 3, 2, 3, 3, 4, 4, 4, 1, 1, 1};
  for (const char* model : {"gemma4", "llama"}) {  // as llama.cpp and as Ollama name the tokenizer
    testing::GgufWriter keys;
    keys.text("tokenizer.ggml.model", model).text("tokenizer.ggml.pre", "gemma4");
    keys.texts("tokenizer.ggml.tokens", tokens);
    keys.texts("tokenizer.ggml.merges", {"▁ a"}).numbers("tokenizer.ggml.token_type", types);
    keys.u32("tokenizer.ggml.bos_token_id", 2).u32("tokenizer.ggml.unknown_token_id", 3);
    const testing::TempDir dir;
    dir.write("model.gguf", gguf_of("gemma4_moe_gguf", keys));
    const auto loaded = load_model(dir.file("model.gguf"), ops::open_device({}).value());
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ(loaded->eos, (std::vector<int>{2, 5, 6}));  // the tiny model's own is 2
    for (const int mark : {6, 7, 8}) EXPECT_TRUE(loaded->tokenizer->is_special(mark)) << mark;
  }
}

TEST(Loader, GgufFilesSayHowATextBeginsAndBecomesAnEmbedding) {
  const std::pair<uint32_t, Pooling> poolings[] = {
      {1, Pooling::mean}, {2, Pooling::first}, {3, Pooling::last}, {4, Pooling::rank}};
  for (const auto& pair : poolings) {
    const uint32_t type = pair.first;
    const bool begins = type % 2 == 0;
    const testing::TempDir dir;
    dir.write("model.gguf", gguf_with_tokenizer("qwen35", [&](testing::GgufWriter& keys) {
                keys.key("tokenizer.ggml.add_bos_token", 7, std::string(1, static_cast<char>(begins)));
                keys.u32("qwen35moe.pooling_type", type);
              }));
    const auto loaded = load_model(dir.file("model.gguf"), ops::open_device({}).value());
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    EXPECT_EQ(loaded->info.pooling, pair.second);
    EXPECT_EQ(loaded->tokenizer->add_bos(), begins);
  }
}

// llama.cpp wants a type and a text for each row of the embedding table, and the end of a turn beside that of
// a text.
TEST(Loader, TheKeysOfAGgufFileFitTheTable) {
  const TinyModel model("llama_tied");
  model.write("generation_config.json", R"({"eos_token_id": [256, 258]})");
  Json tokenizer = parse_json(testing::byte_tokenizer()).value();
  tokenizer["model"]["vocab"]["th"] = 259;
  tokenizer["model"]["merges"].push_back("t h");
  model.write("tokenizer.json", tokenizer.dump());
  const auto keys = gguf_keys_of(*Checkpoint::open(model.path()).value());
  ASSERT_TRUE(keys.ok()) << keys.error().message;
  const testing::TempDir dir;
  const std::string bare = testing::GgufWriter::llama().bytes();
  dir.write("model.gguf", testing::with_metadata(bare, keys->bytes(), keys->count()));
  const auto written = Checkpoint::open(dir.file("model.gguf")).value();
  const auto vocab = read_gguf_vocab(*written).value();
  EXPECT_EQ(vocab.tokens.size(), 263u);
  EXPECT_EQ(vocab.types.size(), 263u);
  EXPECT_EQ(vocab.tokens[262], "[PAD262]");
  EXPECT_EQ(vocab.eos, 256);
  EXPECT_EQ(written->gguf_metadata()["tokenizer.ggml.eot_token_id"], 258);
}

TEST(Loader, ConvertedGgufFilesLoadWithTheirTokenizer) {
  const testing::TempDir dir;
  dir.write("model.gguf", gguf_with_tokenizer("qwen35"));
  const auto files = gguf_side_files(*Checkpoint::open(dir.file("model.gguf")).value());
  ASSERT_TRUE(files.ok()) << files.error().message;
  ConvertOptions options;
  options.output = dir.file("converted");
  options.side_files = *files;
  const auto report = convert(dir.file("model.gguf"), options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  EXPECT_TRUE(std::ranges::none_of(
      report->warnings, [](const std::string& w) { return w.find("tokenizer") != std::string::npos; }));
  const auto load = [](const std::string& path) {
    auto loaded = load_model(path, ops::open_device({}).value());
    EXPECT_TRUE(loaded.ok()) << loaded.error().message;
    return std::move(*loaded);
  };
  const auto source = load(dir.file("model.gguf")), result = load(options.output);
  EXPECT_EQ(result.eos, source.eos);
  ASSERT_TRUE(result.chat_template && source.chat_template);
  EXPECT_EQ(result.tokenizer->bos(), source.tokenizer->bos());
  EXPECT_EQ(result.tokenizer->add_bos(), source.tokenizer->add_bos());
  for (const char* text : {"the other thing", "<|im_start|>at\n\nthen<|im_end|>", "th e"})
    EXPECT_EQ(result.tokenizer->encode(text, true), source.tokenizer->encode(text, true)) << text;
}

TEST(Loader, TokenizersThatCannotBeWrittenAreNamed) {
  const testing::TempDir dir;
  dir.write("model.gguf", gguf_with_tokenizer("unheard-of"));
  const auto files = gguf_side_files(*Checkpoint::open(dir.file("model.gguf")).value());
  ASSERT_FALSE(files.ok());
  EXPECT_HAS(files.error().message, "tokenizer.ggml.pre 'unheard-of' is not known");
}

// In the tiny checkpoints every matrix is bf16, and rows are padded to 16 and inputs to 32.
TEST(Loader, BytesForDraftsAreCounted) {
  const TinyModel with_head(kWithHead), plain(kPlain);
  const auto bare = loaded(with_head).info;
  EXPECT_EQ(bare.draft_head_bytes, 0u);
  // In 8 bits, with two bytes for a group of 64: fc, the output, the MLP's third; or of 32: queries and
  // gates, keys and values, the MLP's other two.
  EXPECT_EQ(bare.mtp_bytes, (32u * 64 + 32 * 128 + 32 * 64) * 66 / 64 +
                                (2u * 128 * 32 + 2 * 64 * 32 + 2 * 64 * 32) * 34 / 32);
  EXPECT_EQ(bare.kv_bytes_per_token, 2u * 2 * 2 * 32);  // one layer's; the head has one, too
  EXPECT_EQ(bare.draft_kv_bytes_per_token, bare.kv_bytes_per_token);
  EXPECT_EQ(bare.draft_state_bytes, window_bytes(loaded(with_head).model->state_layout()));
  with_head.write("speculation.json", R"({"version": 1, "draft_vocab": [[0, 31]]})");
  const auto reduced = loaded(with_head).info;
  EXPECT_EQ(reduced.draft_head_bytes, 2u * 32 * 32);
  EXPECT_EQ(reduced.weight_bytes, bare.weight_bytes + reduced.draft_head_bytes);
  EXPECT_GT(bare.weight_bytes, bare.mtp_bytes + bare.bytes_per_token);  // and the embedding

  EngineOptions options;
  options.model_path = with_head.path();
  options.draft_path = plain.path();
  const auto engine = Engine::create(options);
  ASSERT_TRUE(engine.ok()) << engine.error().message;
  const auto& both = (*engine)->info();
  const auto draft = loaded(plain, LoadedFor::drafts).info;
  EXPECT_EQ(both.weight_bytes, reduced.weight_bytes);
  EXPECT_EQ(both.draft_model_bytes, draft.weight_bytes);
  EXPECT_EQ(both.kv_bytes_per_token, reduced.kv_bytes_per_token);
  EXPECT_EQ(both.draft_kv_bytes_per_token, reduced.draft_kv_bytes_per_token + draft.kv_bytes_per_token);
  EXPECT_EQ(both.draft_state_bytes, reduced.draft_state_bytes + draft.state_bytes + draft.draft_state_bytes);
}

}  // namespace
}  // namespace anabranch
