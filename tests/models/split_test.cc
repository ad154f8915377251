// A model that is split among several devices says the same, to the bit, as one that lies on one: prefill,
// decoding, drafts that are partly accepted, states that are kept and restored.
#include <gtest/gtest.h>

#include "base/image_ids.h"
#include "models/any_weights.h"
#include "models/model_bytes.h"
#include "ops/collective.h"
#include "ops/cpu/device.h"
#include "ops/testing.h"

namespace anabranch {
namespace {

using ops::to_vector;

Json hybrid_config() {
  return Json::parse(R"({
    "model_type": "qwen3_5_text", "hidden_size": 128, "intermediate_size": 576, "vocab_size": 96, "num_hidden_layers": 4,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 32, "attn_output_gate": true,
    "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 32, "linear_value_head_dim": 32,
    "linear_num_key_heads": 9, "linear_num_value_heads": 18, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
    "hidden_act": "silu", "partial_rotary_factor": 0.5, "rope_theta": 10000.0, "tie_word_embeddings": true})");
}

// Biases of queries, keys and values.
Json qwen2_config() {
  return Json::parse(R"({
    "model_type": "qwen2", "hidden_size": 192, "intermediate_size": 512, "vocab_size": 80, "num_hidden_layers": 2,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 32, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 10000.0, "tie_word_embeddings": false})");
}

// Norms behind the layers, and windows.
Json gemma_config() {
  return Json::parse(R"({
    "model_type": "gemma2", "hidden_size": 128, "intermediate_size": 512, "vocab_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 8, "num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-6, "hidden_activation": "gelu_pytorch_tanh", "rope_theta": 10000.0, "query_pre_attn_scalar": 64,
    "sliding_window": 24, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0})");
}

Json mixture_config() {
  return Json::parse(R"({
    "model_type": "qwen3_moe", "hidden_size": 64, "intermediate_size": 64, "moe_intermediate_size": 64, "vocab_size": 64,
    "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 32, "num_experts": 8,
    "num_experts_per_tok": 2, "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": [],
    "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "hidden_act": "silu", "rope_theta": 10000.0,
    "tie_word_embeddings": true})");
}

std::unique_ptr<Device> group_of(int ranks) {
  std::vector<std::unique_ptr<Device>> devices;
  for (int i = 0; i < ranks; i++) devices.push_back(ops::cpu::open_cpu(1, false));
  auto group = ops::make_group(std::move(devices));
  EXPECT_TRUE(group);
  return std::move(*group);
}

std::vector<int> tokens(int count, int vocab, uint64_t seed) {
  ops::Random random(seed);
  std::vector<int> out;
  for (int i = 0; i < count; i++) out.push_back(random.below(vocab));
  return out;
}

// Hidden states after each layer of a text with an image, whose rows are added to behind two layers.
std::vector<float> life_of_image(const Model& model) {
  ops::Rng rng(5);
  PromptImages images;
  images.images.push_back({.begin = 3, .rows = 2, .columns = 2});
  images.images[0].embeddings =
      model.device().to_device(ops::random_tensor({3 * images.images[0].tokens(), model.spec().hidden}, rng));
  std::vector<int> ids = tokens(9, model.spec().vocab, 80);
  for (int i = 3; i < 7; i++) ids[static_cast<size_t>(i)] = kFirstImageId + i;
  SequenceState state = model.make_state();
  Batch batch;
  batch.add(state, ids, Batch::Logits::all, nullptr, &images);
  std::vector<Tensor> after;
  model.forward(batch, &after);
  std::vector<float> seen;
  for (const Tensor& x : after) {
    const auto values = to_vector(x);
    seen.insert(seen.end(), values.begin(), values.end());
  }
  return seen;
}

// Everything that a sequence's life shows: hidden states after each layer and logits, one after the other.
std::vector<float> life(const Model& model) {
  std::vector<float> seen;
  SequenceState state = model.make_state();
  const auto apply = [&](int count, uint64_t seed, Snapshot* keep = nullptr) {
    Batch batch;
    batch.add(state, tokens(count, model.spec().vocab, seed), Batch::Logits::all, keep);
    std::vector<Tensor> after;
    const auto out = model.forward(batch, &after);
    after.push_back(out.logits);
    for (const Tensor& x : after) {
      const auto values = to_vector(x);
      seen.insert(seen.end(), values.begin(), values.end());
    }
  };
  Snapshot kept;
  apply(70, 1, &kept);
  for (uint64_t i = 0; i < 4; i++) apply(1, 10 + i);
  state.open();
  apply(5, 20);
  state.commit(2);
  apply(1, 30);
  state.open();
  apply(3, 31);
  state.commit(0);
  const Snapshot later = state.snapshot();
  apply(33, 40);
  state.restore(kept);
  apply(2, 50);
  state.restore(later);
  apply(2, 60);
  state.remember();
  apply(1, 70);
  state.take_back();
  apply(1, 71);
  const auto of_image = life_of_image(model);
  seen.insert(seen.end(), of_image.begin(), of_image.end());
  return seen;
}

void expect_same(const Json& config, std::initializer_list<int> groups,
                 const std::vector<int>& dropped = {}) {
  AnyWeights whole_weights(config, 7);
  const auto device = ops::cpu::open_cpu(1, false);
  const auto whole = Model::load(whole_weights, *device);
  ASSERT_TRUE(whole) << whole.error().message;
  (*whole)->drop_layers(dropped);
  const auto expected = life(**whole);
  for (const int ranks : groups) {
    AnyWeights weights(config, 7);
    const auto group = group_of(ranks);
    const auto split = Model::load(weights, *group);
    ASSERT_TRUE(split) << split.error().message;
    ASSERT_EQ((*split)->ranks(), ranks);
    (*split)->drop_layers(dropped);
    EXPECT_EQ(count_parameters(**split), count_parameters(**whole));
    EXPECT_EQ(life(**split), expected) << ranks << " ranks";
  }
}

TEST(Split, AHybridSaysTheSameOnAnyNumberOfDevices) {
  expect_same(hybrid_config(), {2, 3, 4, 8});
}
TEST(Split, BiasesAreSplitWithTheirHeads) {
  expect_same(qwen2_config(), {2, 5, 8});
}
TEST(Split, NormsBehindLayersSeeWholeRows) {
  expect_same(gemma_config(), {2, 4});
}

// Layers whose heads are too few, and mixtures, lie on one device each.
TEST(Split, DevicesWorkInTurnsWhereLayersCannotBeSplit) {
  Json few_heads = gemma_config();
  few_heads["num_key_value_heads"] = 1;
  few_heads["num_hidden_layers"] = 5;
  expect_same(few_heads, {2, 4, 5});
  expect_same(mixture_config(), {2, 3});
}

TEST(Split, LayersAreDroppedOnEveryDevice) {
  expect_same(hybrid_config(), {2, 3}, {1});
  Json in_turns = gemma_config();
  in_turns["num_key_value_heads"] = 1;
  in_turns["num_hidden_layers"] = 5;
  expect_same(in_turns, {2, 4}, {0, 2});
  AnyWeights weights(in_turns, 7);
  const auto group = group_of(2);
  const auto model = Model::load(weights, *group);
  ASSERT_TRUE(model) << model.error().message;
  (*model)->drop_layers(std::vector<int>{0, 2});  // of the first device's three
  const auto layouts = (*model)->device_layouts();
  EXPECT_EQ(layouts[0].size(), 1u);
  EXPECT_EQ(layouts[1].size(), 2u);
}

TEST(Split, MoreDevicesThanLayersAreRefused) {
  Json config = gemma_config();
  config["num_key_value_heads"] = 1;
  AnyWeights weights(config, 7);
  const auto group = group_of(3);
  const auto model = Model::load(weights, *group);
  ASSERT_FALSE(model);
  EXPECT_NE(model.error().message.find("cannot be shared by 3 devices: it has 2 layers"), std::string::npos)
      << model.error().message;
}

// A draft model, say, lies on the first device as a whole.
TEST(Split, AModelIsLeftWholeWhenAsked) {
  AnyWeights weights(qwen2_config(), 7);
  const auto group = group_of(2);
  ModelLoadOptions options;
  options.split = false;
  const auto model = Model::load(weights, *group, options);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ((*model)->ranks(), 1);
}

// A rank that fails ends the pass of all: nobody waits for it.
TEST(Split, ARankThatFailsEndsThePass) {
  AnyWeights weights(qwen2_config(), 7);
  const auto group = group_of(3);
  const auto model = Model::load(weights, *group);
  ASSERT_TRUE(model) << model.error().message;
  SequenceState state = (*model)->make_state();
  Batch batch;
  batch.add(state, std::vector<int>{1, 1 << 20}, Batch::Logits::last);  // rank 0 finds no such id
  EXPECT_THROW((*model)->forward(batch), std::exception);
}

}  // namespace
}  // namespace anabranch
