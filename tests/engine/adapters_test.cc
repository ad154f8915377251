// LoRA adapters: the same log probabilities as a model into which they are merged, whatever runs beside them.
#include "engine/adapters.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "engine/crowd.h"
#include "engine/loader.h"

namespace anabranch::testing {
namespace {

EngineOptions options_of(const TinyModel& model) {
  EngineOptions options;
  options.model_path = model.path();
  options.device.threads = 1;
  return options;
}

std::unique_ptr<Engine> engine_of(EngineOptions options) {
  auto engine = Engine::create(options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(*engine);
}

// The log probabilities of a prompt's tokens.
std::vector<float> scores(Engine& engine, Request request) {
  request.prompt_logprobs = true;
  request.max_tokens = 1;
  std::vector<float> out;
  for (const auto& token : run_to_end(engine, std::move(request)).last.prompt_logprobs)
    out.push_back(token.logprob);
  return out;
}

float distance(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  float most = a.empty() ? NAN : 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); i++) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

class AdapterFamilies : public ::testing::TestWithParam<const char*> {};

TEST_P(AdapterFamilies, AnAdapterIsTheMergedModel) {
  const TinyModel model(GetParam());
  // Kimi Delta Attention's queries, keys and values are joined in memory, and its files name MLPs otherwise.
  std::vector<std::string> without;
  if (std::string(GetParam()) == "kimi_linear") without = {".q_proj", ".k_proj", ".v_proj", ".mlp."};
  const RandomAdapter one(model, 1, 4, 0.3f, without), other(model, 2, 3, 0.3f, without);
  ASSERT_GT(one.modules(), 3u);
  const auto engine = engine_of(options_of(model));
  const AppliedAdapter first = load(*engine, one), second = load(*engine, other, 0.5f);
  const Request request = request_of(60, 1);
  const auto base = scores(*engine, request);
  const auto with_one = scores(*engine, with(request, {first}));
  const auto with_both = scores(*engine, with(request, {first, second}));
  const TinyModel merged_one(GetParam()), merged_both(GetParam());
  one.merge_into(merged_one);
  one.merge_into(merged_both), other.merge_into(merged_both, 0.5f);
  const auto want_one = scores(*engine_of(options_of(merged_one)), request);
  const auto want_both = scores(*engine_of(options_of(merged_both)), request);
  // Sums of some hundred fp32 products in another order; where that moves a key or a value over the edge of a
  // bf16 rounding, it moves by 2^-8 of itself, in some of the prompt's 60 positions.
  EXPECT_LT(distance(with_one, want_one), 0.01f);
  EXPECT_LT(distance(with_both, want_both), 0.01f);
  EXPECT_GT(distance(with_one, base), 0.2f) << "the adapter changes nothing";
  EXPECT_GT(distance(with_both, with_one), 0.1f);
  EXPECT_EQ(scores(*engine, request), base) << "the base is as before, bit for bit";
}

INSTANTIATE_TEST_SUITE_P(All, AdapterFamilies,
                         ::testing::Values("llama_tied", "llama_biases", "mistral_f16", "qwen2_bias",
                                           "qwen3_qk_norm", "qwen3_moe", "qwen35_flat_tied",
                                           "qwen35_wide_values_f32", "qwen3_next", "gemma2", "gemma3",
                                           "gemma4_shared_kv", "gemma4_moe", "deepseek_v3", "falcon_h1",
                                           "kimi_linear", "lfm2"),
                         [](const auto& test) { return std::string(test.param); });

class Adapters : public ::testing::Test {
 protected:
  TinyModel model_{"qwen35_nested_untied_grouped"};
  RandomAdapter one_{model_, 1, 8}, other_{model_, 2, 16};
};

// Requests of the base and of several adapters, one behind the other, share each pass.
TEST_F(Adapters, TokensDoNotDependOnNeighbours) {
  EngineOptions options = options_of(model_);
  options.prefill_chunk = 16;
  options.max_running = 8;
  const auto engine = engine_of(options);
  const AppliedAdapter a = load(*engine, one_), b = load(*engine, other_, 0.7f), c = {a.adapter, -1};
  const std::vector<std::vector<AppliedAdapter>> kinds = {{}, {a}, {b}, {a, b}, {c}, {b, a}};
  std::vector<Request> requests;
  for (size_t i = 0; i < 2 * kinds.size(); i++) {
    Request request = request_of(20 + 7 * static_cast<int>(i), 40, 0.9f, i);
    const SpecMode drafts[] = {{.automatic = false, .source = DraftSource::none},
                               {.automatic = false, .source = DraftSource::ngram, .depth = 4},
                               {.automatic = false, .source = DraftSource::mtp, .depth = 3}};
    request.speculation = drafts[i % 3];
    requests.push_back(with(request, kinds[i % kinds.size()]));
  }
  std::vector<std::vector<int>> want;
  for (Request request : requests) {
    request.speculation = SpecMode{.automatic = false, .source = DraftSource::none};
    want.push_back(run(*engine, request));
  }
  EXPECT_NE(want[0], run(*engine, with(requests[0], {a})));
  Collector collector;
  for (size_t i = 0; i < requests.size(); i++)
    ASSERT_TRUE(engine->submit(requests[i], collector.sink(static_cast<int>(i))).ok());
  for (size_t i = 0; i < requests.size(); i++)
    EXPECT_EQ(collector.wait(static_cast<int>(i)).tokens, want[i]) << i;
}

TEST_F(Adapters, StatesAreCachedByAdapter) {
  EngineOptions options = options_of(model_);
  options.cache.enabled = true;
  options.cache.ram_bytes = 1ull << 28;
  const auto engine = engine_of(options);
  const AppliedAdapter a = load(*engine, one_), again = load(*engine, one_), half = load(*engine, one_, 0.5f),
                       b = load(*engine, other_);
  const Request request = request_of(300, 8);
  const auto cached = [&](std::vector<AppliedAdapter> adapters) {
    return run_to_end(*engine, with(request, std::move(adapters))).last.usage.cached_tokens;
  };
  const auto want = run(*engine, with(request, {a}));
  EXPECT_GT(cached({again}), 200) << "the same adapter, loaded twice";
  EXPECT_EQ(cached({}), 0);
  EXPECT_EQ(cached({b}), 0);
  EXPECT_EQ(cached({half}), 0);
  EXPECT_EQ(cached({a, b}), 0);
  EXPECT_EQ(cached({b, a}), 0);
  EXPECT_EQ(run(*engine, with(request, {a})), want);
}

TEST_F(Adapters, OneThatIsNotUsedAnyMoreEndsWithItsLastRequest) {
  const auto engine = engine_of(options_of(model_));
  AppliedAdapter a = load(*engine, one_);
  const auto want = run(*engine, with(request_of(30, 60), {a}));
  std::weak_ptr<const LoadedAdapter> watched = a.adapter;
  Collector collector;
  bool there = false;
  const auto look = [&] { there = !watched.expired(); };
  ASSERT_TRUE(
      engine->submit(with(request_of(30, 60), {std::move(a)}), when_delivered(5, look, collector.sink(0)))
          .ok());
  EXPECT_EQ(collector.wait(0).tokens, want);
  EXPECT_TRUE(there);
  run(*engine, request_of(3, 1));
  EXPECT_TRUE(watched.expired());
}

TEST_F(Adapters, WhatDoesNotFitIsRefused) {
  const auto engine = engine_of(options_of(model_));
  const RandomAdapter wide(TinyModel("qwen35_true_heads"), 1, 4), mixed(TinyModel("qwen3_next"), 1, 4);
  const auto refusal = [&](const std::string& path) {
    const auto loaded = engine->load_adapter(path);
    return loaded.ok() ? "" : loaded.error().message;
  };
  for (const auto& [path, why] : {std::pair{wide.path(), "is it another model's adapter?"},
                                  std::pair{mixed.path(), "adapters cannot change"}})
    EXPECT_NE(refusal(path).find(why), std::string::npos) << refusal(path);
  EXPECT_NE(refusal("/nothing/here"), "");
  EXPECT_EQ(refusal(one_.path()), "") << "the engine goes on";

  const AppliedAdapter a = load(*engine, one_);
  Collector collector;
  const auto submitted = [&](Request request) {
    const auto id = engine->submit(std::move(request), collector.sink(0));
    return id.ok() ? "" : id.error().message;
  };
  Request unsalted = with(request_of(5, 1), {a});
  Request unadapted = unsalted;
  unsalted.cache_salt.clear();
  EXPECT_NE(submitted(unsalted), "");
  unadapted.adapters.clear();
  EXPECT_NE(submitted(unadapted), "") << "states of the base under an adapter's salt";
  EXPECT_NE(submitted(with(request_of(5, 1), std::vector(kMaxAdapters + 1, a))), "");
  EXPECT_EQ(submitted(with(request_of(5, 1), std::vector(kMaxAdapters, a))), "");
  collector.wait(0);
  EXPECT_NE(submitted(with(request_of(5, 1), {{a.adapter, INFINITY}})), "");
  const auto another = engine_of(options_of(model_));
  const auto id = another->submit(with(request_of(5, 1), {a}), collector.sink(1));
  EXPECT_FALSE(id.ok()) << "another engine's adapter";
}

// Of an adapter that fits on one side only, the other would be read beyond its end.
TEST_F(Adapters, BothSidesMustFit) {
  const auto engine = engine_of(options_of(model_));
  const auto checkpoint = Checkpoint::open(model_.path());
  const auto& tensors = (*checkpoint)->tensors();
  const auto tensor = std::ranges::find_if(tensors, [](const TensorInfo& one) { return adapts(one.name); });
  ASSERT_NE(tensor, tensors.end());
  const std::string module =
      "base_model.model." + tensor->name.substr(0, tensor->name.size() - std::strlen(".weight"));
  const int64_t out = tensor->shape[0], in = tensor->shape[1];
  const auto refusal = [&](int64_t outputs, int64_t inputs) {
    SafetensorsWriter file;
    file.f32(module + ".lora_A.weight", {1, inputs}, std::vector<float>(static_cast<size_t>(inputs), 0.5f));
    file.f32(module + ".lora_B.weight", {outputs, 1}, std::vector<float>(static_cast<size_t>(outputs), 0.5f));
    const TempDir dir;
    dir.write("adapter_model.safetensors", file.bytes());
    dir.write("adapter_config.json", R"({"peft_type": "LORA", "r": 1, "lora_alpha": 1, "bias": "none"})");
    const auto loaded = engine->load_adapter(dir.path());
    return loaded.ok() ? "" : loaded.error().message;
  };
  EXPECT_EQ(refusal(out, in), "");
  for (const int64_t off : {-1, 1}) {
    const std::string outputs = refusal(out + off, in), inputs = refusal(out, in + off);
    EXPECT_NE(outputs.find("is it another model's adapter?"), outputs.npos) << off << " outputs: " << outputs;
    EXPECT_NE(inputs.find("is it another model's adapter?"), inputs.npos) << off << " inputs: " << inputs;
  }
}

// An engine with little memory for requests: for one of 2,048 tokens, and a few bytes more.
std::unique_ptr<Engine> small_engine(EngineOptions options) {
  const LoadFunction load = [path =
                                 options.model_path](std::shared_ptr<Device> device) -> Result<LoadedModel> {
    auto loaded = load_model(path, std::move(device));
    if (loaded) loaded->info.image_bytes = 1ull << 50;  // pictures take the rest
    return loaded;
  };
  auto engine = create_engine(options, load);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(*engine);
}

TEST_F(Adapters, TogetherTakeHalfOfTheMemoryOfRequests) {
  const auto engine = small_engine(options_of(model_));
  const uint64_t half = engine->stats().state_budget_bytes / 2;
  const RandomAdapter small(model_, 3, 1), large(model_, 4, 64);
  const uint64_t bytes = load(*engine, small).adapter->bytes;
  ASSERT_LT(3 * bytes, half);
  ASSERT_LT(half, 64 * bytes);
  for (const char* round : {"at first", "after all were unloaded"}) {
    SCOPED_TRACE(round);
    std::vector<std::shared_ptr<const LoadedAdapter>> all;
    auto more = engine->load_adapter(small.path());
    while (more.ok() && all.size() < 1000) {
      all.push_back(*more);
      more = engine->load_adapter(small.path());
    }
    EXPECT_EQ(all.size(), half / bytes);
    ASSERT_FALSE(more.ok());
    EXPECT_EQ(more.error().kind, ErrorKind::exhausted);
    EXPECT_NE(more.error().message.find("unload some"), std::string::npos) << more.error().message;
    EXPECT_FALSE(engine->load_adapter(large.path()).ok());
  }
  EXPECT_FALSE(engine->load_adapter(large.path()).ok()) << "larger than half by itself";
  for (const bool overcommit : {false, true}) {
    EngineOptions options = options_of(model_);
    options.overcommit = overcommit;
    if (!overcommit) options.memory_bytes = 2 * half;
    EXPECT_TRUE(small_engine(options)->load_adapter(large.path()).ok()) << "the user chose the memory";
  }
}

// What adapters have taken is not there for requests; half of it always is.
TEST_F(Adapters, LeaveHalfOfTheMemoryToRequests) {
  const RandomAdapter small(model_, 3, 1), large(model_, 4, 512);
  for (const bool overcommit : {false, true}) {
    EngineOptions options = options_of(model_);
    options.overcommit = overcommit;
    const auto engine = small_engine(options);
    const auto run_together = [&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(600));  // budgets are adapted twice a second
      Collector collector;
      std::atomic<bool> ended = false, together = false;
      const Sink first = [&, to = collector.sink(0)](const Event& event) {
        if (event.finish != FinishReason::none) ended = true;
        to(event);
      };
      const Sink second = [&, to = collector.sink(1)](const Event& event) {
        if (event.started) together = !ended;
        to(event);
      };
      const auto come = [&] { EXPECT_TRUE(engine->submit(request_of(500, 3), second).ok()); };
      EXPECT_TRUE(engine->submit(request_of(500, 40), when_delivered(2, come, first)).ok());
      collector.wait(0);
      collector.wait(1);
      return together.load();
    };
    EXPECT_TRUE(run_together());
    std::vector<AppliedAdapter> adapters;
    if (overcommit) {
      adapters.push_back(load(*engine, large));
      EXPECT_GT(adapters[0].adapter->bytes, 2 * engine->stats().state_budget_bytes);
    } else {
      while (const auto more = engine->load_adapter(small.path())) adapters.push_back({*more, 1});
    }
    EXPECT_FALSE(run_together());
    adapters.clear();
    EXPECT_TRUE(run_together());
  }
}

// Its modules in layers that are left out change nothing.
TEST_F(Adapters, FitAModelWithoutSomeLayers) {
  model_.write("speculation.json", R"({"version": 1, "exit_layers": [0, 1], "skip_layers": [1]})");
  EngineOptions options = options_of(model_);
  options.lossy_skip = true;
  const auto engine = engine_of(options);
  EXPECT_TRUE(engine->info().lossy);
  const AppliedAdapter a = load(*engine, one_);
  EXPECT_NE(run(*engine, with(request_of(30, 60), {a})), run(*engine, request_of(30, 60)));
}

TEST_F(Adapters, AreLoadedWhileOthersAnswer) {
  const auto engine = engine_of(options_of(model_));
  const auto want = run(*engine, request_of(30, 200));
  Collector collector;
  ASSERT_TRUE(engine->submit(request_of(30, 200), collector.sink(0)).ok());
  for (int i = 0; i < 5; i++) load(*engine, i % 2 ? one_ : other_);
  EXPECT_EQ(collector.wait(0).tokens, want);
}

}  // namespace
}  // namespace anabranch::testing
