// A model that several cards share: what each launches, with a driver that does nothing (fake_card.h).
#include <algorithm>
#include <span>

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
    "model_type": "qwen3_5_text", "hidden_size": 128, "intermediate_size": 192, "vocab_size": 128, "num_hidden_layers": 4,
    "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 64, "attn_output_gate": true,
    "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 64, "linear_value_head_dim": 64,
    "linear_num_key_heads": 3, "linear_num_value_heads": 3, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
    "hidden_act": "silu", "partial_rotary_factor": 0.5, "rope_theta": 10000.0, "tie_word_embeddings": true})");
}

// Products whose inputs are whole segments: 512 of each. Up to eight cards.
Json wide_config() {
  Json wide = config();
  wide["intermediate_size"] = 1024;
  wide["num_attention_heads"] = 8, wide["num_key_value_heads"] = 8;
  wide["linear_num_key_heads"] = 8, wide["linear_num_value_heads"] = 8;
  return wide;
}

size_t launches(const FakeCard& card, std::string_view kernel) {
  return static_cast<size_t>(std::ranges::count_if(
      card.launches, [&](const FakeLaunch& launch) { return launch.kernel.starts_with(kernel); }));
}

// Layers that cannot be split.
Json mixture_config() {
  Json mixture = config();
  mixture["model_type"] = "qwen3_5_moe_text";
  mixture["num_experts"] = 4, mixture["num_experts_per_tok"] = 2;
  mixture["moe_intermediate_size"] = mixture["shared_expert_intermediate_size"] = 64;
  return mixture;
}

std::unique_ptr<Device> open_cards(int count) {
  for (FakeCard& card : fake_cards) card = FakeCard{};
  std::vector<std::unique_ptr<Device>> devices;
  for (int i = 0; i < count; i++) devices.push_back(std::move(ops::cuda::open_cuda(i, 1)).value());
  return ops::make_group(std::move(devices)).value();
}

void expect_closed() {
  for (const FakeCard& card : fake_cards) EXPECT_TRUE(card.is_closed());
  EXPECT_EQ(fake_faults, std::vector<std::string>());
  fake_faults.clear();
}

// The embeddings, in each layer the inputs and the outputs of two products (of few rows the sums of two,
// within the products), and the head's inputs and outputs.
void run(const Json& config, int cards, bool by_inputs) {
  const std::span<FakeCard> used(fake_cards, static_cast<size_t>(cards));
  {
    const auto group = open_cards(cards);
    AnyWeights weights(config, 3);
    const auto model = Model::load(weights, *group);
    ASSERT_TRUE(model) << model.error().message;
    SequenceState state = (*model)->make_state();
    std::vector<Model::Output> kept;  // as long as a caller likes
    for (const int rows : {70, 1, 20, 8}) {
      for (FakeCard& card : used) card.launches.clear();
      Batch batch;
      batch.add(state, std::vector<int>(static_cast<size_t>(rows)), Batch::Logits::last);
      kept.push_back((*model)->forward(batch));
      const bool sums = by_inputs && rows <= ops::kFewRows;
      for (const FakeCard& card : used) {
        EXPECT_EQ(launches(card, "exchange"), sums ? 3 : 3 + 4 * kLayers) << rows;
        EXPECT_EQ(std::ranges::count_if(card.launches,
                                        [cards](const FakeLaunch& launch) {
                                          return launch.kernel == "gemv" &&
                                                 launch.variant<ops::cuda::GemvVariant>().ranks == cards;
                                        }),
                  sums ? 2 * kLayers : 0)
            << rows;
      }
      // The first card alone has the embeddings and the last norm.
      EXPECT_GT(fake_cards[0].launches.size(), fake_cards[1].launches.size());
    }
    // Noting which kernels a pass needs runs none, and no card waits for another.
    for (FakeCard& card : used) card.launches.clear();
    group->prepare_kernels([&] {
      Batch batch;
      batch.add(state, std::vector<int>{1}, Batch::Logits::last);
      (*model)->forward(batch);
    });
    for (const FakeCard& card : used) EXPECT_EQ(launches(card, ""), 0u);
    group->finish_kernels();
  }
  expect_closed();
}

TEST(SplitOnCards, EachCardTakesPartInEveryExchange) {
  run(config(), 2, false);
}
TEST(SplitOnCards, ProductsOfFewRowsAreSplitByTheirInputs) {
  for (const int cards : {2, 4, 8}) run(wide_config(), cards, true);
}

TEST(SplitOnCards, EachCardOfAMixtureHasSomeLayers) {
  {
    const auto group = open_cards(2);
    AnyWeights weights(mixture_config(), 3);
    const auto model = Model::load(weights, *group);
    ASSERT_TRUE(model) << model.error().message;
    SequenceState state = (*model)->make_state();
    for (const int rows : {20, 1}) {
      fake_cards[0].launches.clear(), fake_cards[1].launches.clear();
      Batch batch;
      batch.add(state, std::vector<int>(static_cast<size_t>(rows)), Batch::Logits::last);
      (*model)->forward(batch);
      // Three layers of the delta rule and one of attention; from the second layer to the third, and to the
      // head.
      EXPECT_EQ(launches(fake_cards[0], "delta"), 2u);
      EXPECT_EQ(launches(fake_cards[1], "delta"), 1u);
      EXPECT_EQ(launches(fake_cards[0], "attend"), 0u);
      EXPECT_EQ(launches(fake_cards[1], "attend"), 1u);
      for (const int i : {0, 1}) EXPECT_EQ(launches(fake_cards[i], "exchange"), 2u);
    }
  }
  expect_closed();
}

TEST(SplitOnCards, NothingRunsAfterARankHasFailed) {
  {
    const auto group = open_cards(2);
    AnyWeights weights(wide_config(), 3);
    const auto model = Model::load(weights, *group);
    ASSERT_TRUE(model) << model.error().message;
    SequenceState state = (*model)->make_state();
    Batch batch;
    batch.add(state, std::vector<int>{1}, Batch::Logits::last);
    (*model)->forward(batch);
    group->other_ranks()[0]->collective()->abort();
    for (FakeCard& card : fake_cards) card.launches.clear();
    Batch next;
    next.add(state, std::vector<int>{1}, Batch::Logits::last);
    EXPECT_THROW((*model)->forward(next), std::runtime_error);
    for (const FakeCard& card : fake_cards) EXPECT_EQ(launches(card, "exchange"), 0u);
  }
  expect_closed();
}

TEST(SplitOnCards, APassKnowsOfOtherModelsOnItsCards) {
  {
    const auto group = open_cards(2);
    AnyWeights weights(wide_config(), 3);
    const auto model = Model::load(weights, *group);
    ASSERT_TRUE(model) << model.error().message;
    const auto alone = [&] {
      return group->collective()->alone() && group->other_ranks()[0]->collective()->alone();
    };
    EXPECT_TRUE(alone());
    const auto other = std::move(ops::cuda::open_cuda(1, 1)).value();
    EXPECT_FALSE(alone());
    SequenceState state = (*model)->make_state();
    Batch batch;
    batch.add(state, std::vector<int>{1}, Batch::Logits::last);
    EXPECT_EQ((*model)->forward(batch).logits.shape(1), 128);
  }
  expect_closed();
}

}  // namespace
}  // namespace anabranch
