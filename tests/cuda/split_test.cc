// A model that two cards share: what each launches, with a driver that does nothing (fake_card.h).
#include <algorithm>

#include "cuda/fake_card.h"
#include "models/any_weights.h"
#include "models/model.h"
#include "ops/collective.h"
#include "ops/cuda/device.h"

namespace anabranch {
namespace {

constexpr int kLayers = 4;

Json config() {
  return Json::parse(R"({
    "model_type": "qwen3_5_text", "hidden_size": 128, "intermediate_size": 192, "vocab_size": 96, "num_hidden_layers": 4,
    "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 64, "attn_output_gate": true,
    "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
    "linear_num_key_heads": 3, "linear_num_value_heads": 3, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
    "hidden_act": "silu", "partial_rotary_factor": 0.5, "rope_theta": 10000.0, "tie_word_embeddings": true})");
}

// Products whose inputs are whole segments: 512 of each.
Json wide_config() {
  Json wide = config();
  wide["intermediate_size"] = 1024;
  wide["num_attention_heads"] = 8, wide["num_key_value_heads"] = 4;
  wide["linear_num_key_heads"] = 8, wide["linear_num_value_heads"] = 8;
  return wide;
}

size_t launches(const FakeCard& card, std::string_view kernel) {
  return static_cast<size_t>(std::ranges::count_if(
      card.launches, [&](const FakeLaunch& launch) { return launch.kernel.starts_with(kernel); }));
}

// The embeddings, and in each layer the inputs and the outputs of two products; of few rows the sums of two.
void run(const Json& config, bool by_inputs) {
  fake_cards[0] = fake_cards[1] = FakeCard{};
  {
    std::vector<std::unique_ptr<Device>> devices;
    for (int i = 0; i < 2; i++) devices.push_back(std::move(ops::cuda::open_cuda(i, 1)).value());
    auto group = ops::make_group(std::move(devices));
    ASSERT_TRUE(group) << group.error().message;
    AnyWeights weights(config, 3);
    const auto model = Model::load(weights, **group);
    ASSERT_TRUE(model) << model.error().message;
    SequenceState state = (*model)->make_state();
    for (const int rows : {70, 1, 20, 8}) {
      fake_cards[0].launches.clear(), fake_cards[1].launches.clear();
      Batch batch;
      batch.add(state, std::vector<int>(static_cast<size_t>(rows)), Batch::Logits::last);
      (*model)->forward(batch);
      const bool sums = by_inputs && rows <= ops::kMostOwnInputRows;
      for (const FakeCard& card : fake_cards) {
        EXPECT_EQ(launches(card, "exchange"), sums ? 1 : 1 + 4 * kLayers) << rows;
        EXPECT_EQ(launches(card, "add_segments"), sums ? 2 * kLayers : 0) << rows;
      }
      // The first card alone has the embeddings, the last norm and the head.
      EXPECT_GT(fake_cards[0].launches.size(), fake_cards[1].launches.size());
    }
    // Noting which kernels a pass needs runs none, and no card waits for another.
    fake_cards[0].launches.clear(), fake_cards[1].launches.clear();
    (*group)->prepare_kernels([&] {
      Batch batch;
      batch.add(state, std::vector<int>{1}, Batch::Logits::last);
      (*model)->forward(batch);
    });
    for (const FakeCard& card : fake_cards) EXPECT_EQ(launches(card, ""), 0u);
    (*group)->finish_kernels();
  }
  for (const FakeCard& card : fake_cards) EXPECT_TRUE(card.is_closed());
  EXPECT_EQ(fake_faults, std::vector<std::string>());
  fake_faults.clear();
}

TEST(SplitOnCards, EachCardTakesPartInEveryExchange) {
  run(config(), false);
}
TEST(SplitOnCards, ProductsOfFewRowsAreSplitByTheirInputs) {
  run(wide_config(), true);
}

}  // namespace
}  // namespace anabranch
