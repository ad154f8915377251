// What memory is planned for, and that every part of a request is in the budget.
#include "engine/memory_plan.h"

#include "base/cpu_info.h"
#include "engine/crowd.h"
#include "engine/engine_model.h"
#include "models/any_weights.h"
#include "ops/collective.h"
#include "ops/cpu/device.h"
#include "ops/open.h"

namespace anabranch::testing {
namespace {

class MemoryPlanTest : public ::testing::Test {
 protected:
  MemoryPlan plan() {
    auto planned = plan_memory(options_, info_, *device_);
    EXPECT_TRUE(planned.ok()) << planned.error().message;
    return std::move(*planned);
  }

  std::unique_ptr<Device> device_ = ops::open_device({.threads = 1}).value();
  EngineOptions options_;
  ModelInfo info_{.context_length = 8192,
                  .kv_bytes_per_token = 1000,
                  .draft_kv_bytes_per_token = 100,
                  .state_bytes = 50'000,
                  .draft_state_bytes = 7'000};
};

TEST_F(MemoryPlanTest, ASequenceIsAllThatItAndItsDraftsKeep) {
  const SequenceBytes bytes = plan().sequence;
  EXPECT_EQ(bytes.fixed, 57'000u);
  EXPECT_EQ(bytes.per_token, 1'100u);
}

TEST_F(MemoryPlanTest, ARequestThatFillsTheContextFitsTheBudget) {
  for (const uint64_t memory : {600'000ull, 1'000'000ull, 3'141'592ull, 1'000'000'000ull}) {
    options_.memory_bytes = memory;
    const MemoryPlan planned = plan();
    EXPECT_EQ(planned.budgets.states, memory);
    // One more block may be needed for drafts at the end.
    EXPECT_LE(planned.sequence.of(planned.context_length), memory);
    EXPECT_EQ(planned.context_length == info_.context_length, planned.context_note.empty());
  }
  options_.memory_bytes = 300'000;
  EXPECT_FALSE(plan_memory(options_, info_, *device_).ok());
}

// Whatever else takes all memory: one short request always has room.
TEST_F(MemoryPlanTest, ImagesAndKeptStatesTakeFromTheBudgetOfRequests) {
  const uint64_t least = plan().sequence.of(2048), usual = plan().budgets.states;
  EXPECT_LE(usual, cpu_info().memory_bytes / 2);
  if (usual == least) GTEST_SKIP() << "no memory is free";
  info_.image_bytes = 1ull << 50;
  EXPECT_EQ(plan().budgets.states, least);
  EXPECT_EQ(plan().context_length, 2048 - ops::kKvBlock);
  info_.image_bytes = 0;
  options_.cache.enabled = true;
  options_.cache.ram_bytes = 1ull << 50;
  EXPECT_EQ(plan().budgets.states, least);
  EXPECT_EQ(plan().budgets.cache, 1ull << 50);
}

TEST(MemoryOfRequests, OverlappingStepsTakeTheRecurrentStatesOnceMore) {
  const TinyModel model("qwen35_nested_untied_grouped");
  EngineOptions options;
  options.model_path = model.path();
  options.device.threads = 1;
  EngineModel loaded;
  const auto load = [&](std::shared_ptr<Device> device) {
    return load_model(model.path(), std::move(device));
  };
  ASSERT_TRUE(loaded.load(options, load).ok());
  const uint64_t recurrent = recurrent_bytes(loaded.model().state_layout());
  EXPECT_GT(recurrent, 0u);
  EXPECT_EQ(bytes_of_small_request(*engine_with(options, true)),
            bytes_of_small_request(*engine_with(options, false)) + recurrent);
}

TEST(MemoryOfRequests, ADraftModelsStatesCount) {
  const TinyModel model("qwen35_flat_tied"), draft("qwen35_nested_untied_grouped");
  EngineOptions options;
  options.model_path = model.path();
  options.device.threads = 1;
  const uint64_t before = bytes_of_small_request(*engine_with(options, false));
  options.draft_path = draft.path();
  const auto engine = engine_with(options, false);
  const ModelInfo& info = engine->info();
  EXPECT_EQ(bytes_of_small_request(*engine),
            info.state_bytes + info.draft_state_bytes +
                ops::kKvBlock * (info.kv_bytes_per_token + info.draft_kv_bytes_per_token));
  options.model_path = draft.path();
  options.draft_path = "";
  const auto other = engine_with(options, false);
  EXPECT_GE(bytes_of_small_request(*engine),
            before + other->info().state_bytes + ops::kKvBlock * other->info().kv_bytes_per_token);
}

// Five heads cannot be shared by two devices, so each has whole layers: the first one two, the last one one.
TEST(MemoryOfAModelInParts, IsThatOfTheFullestDevice) {
  Json config = Json::parse(R"({
    "model_type": "qwen2", "hidden_size": 160, "intermediate_size": 512, "vocab_size": 80, "num_hidden_layers": 3,
    "num_attention_heads": 5, "num_key_value_heads": 5, "head_dim": 32, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 10000.0, "tie_word_embeddings": false})");
  std::vector<std::unique_ptr<Device>> devices;
  for (int i = 0; i < 2; i++) devices.push_back(ops::cpu::open_cpu(1, false));
  const auto group = ops::make_group(std::move(devices));
  ASSERT_TRUE(group.ok());
  AnyWeights weights(config, 7);
  const auto model = Model::load(weights, **group);
  ASSERT_TRUE(model.ok()) << model.error().message;
  const auto layouts = (*model)->device_layouts();
  ASSERT_EQ(layouts.size(), 2u);
  ASSERT_GT(kv_bytes_per_token(layouts[0], **group), kv_bytes_per_token(layouts[1], **group));
  ModelInfo info;
  describe(**model, info);
  EXPECT_EQ(info.kv_bytes_per_token, 2u * 2 * 2 * 5 * 32);  // layers, keys and values, bytes, heads, width
}

}  // namespace
}  // namespace anabranch::testing
