// Kernels that are compiled while a model loads: passes that only note them launch nothing, and what was
// noted is all that answers need.
#include <functional>

#include "cuda/fake_card.h"
#include "models/golden.h"
#include "models/kernel_passes.h"
#include "ops/cuda/device.h"
#include "ops/elementwise.h"

namespace anabranch {
namespace {

constexpr const char* kData = ANABRANCH_SOURCE_DIR "/tests/models/data/";

void answer(const Model& model) {
  const auto pass = [&](std::vector<SequenceState>& states, int rows, Batch::Logits logits) {
    Batch batch;
    for (auto& state : states) batch.add(state, std::vector<int>(static_cast<size_t>(rows)), logits);
    ops::best_of_rows(model.forward(batch).logits);
  };
  std::vector<SequenceState> one = {model.make_state()};
  pass(one, 700, Batch::Logits::last);
  for (const int rows : {1, 3, 40, 100}) pass(one, rows, Batch::Logits::all);
  std::vector<SequenceState> many(40, one[0]);
  for (int i = 0; i < 2; i++) pass(many, 1, Batch::Logits::all);
  one[0].open();
  pass(one, 6, Batch::Logits::all);
  one[0].commit(4);
  pass(one, 1, Batch::Logits::all);
}

// Returns how often a beginning of the model was shown.
int expect_prepared(const std::string& path) {
  SCOPED_TRACE(path);
  auto device = ops::cuda::open_cuda(0, 1).value();
  FakeCard& card = fake_cards[0];
  {
    const auto checkpoint = Checkpoint::open(path).value();
    int begun = 0;
    ModelLoadOptions options;
    options.begun = [&](const Model& model) { begun++, prepare_kernels(model); };
    const auto model = Model::load(*checkpoint, *device, options).value();
    prepare_kernels(*model);
    device->finish_kernels();
    EXPECT_EQ(card.launches.size(), 0u);
    const int modules = card.modules;
    EXPECT_GT(modules, 3);
    answer(*model);
    EXPECT_EQ(card.modules, modules);
    EXPECT_GT(card.launches.size(), 100u);
    if (::testing::Test::HasFailure()) return begun;
    device->finish_kernels();  // nothing is left
    card.launches.clear();
    return begun;
  }
}

class CudaPrepare : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(fake_faults, std::vector<std::string>());
    fake_faults.clear();
    fake_cards[0] = {};
  }
};

TEST_F(CudaPrepare, SmallModels) {
  for (const FakeCard& card :
       {FakeCard{}, FakeCard{.capability = 80, .multiprocessors = 108, .shared_bytes = 166912}})
    for (const char* name :
         {"qwen35_true_heads", "qwen35_moe_nested_mtp", "qwen35_mlx_quantised", "gemma3", "qwen3_moe"}) {
      fake_cards[0] = card;
      expect_prepared(golden::read_case(std::string(kData) + name).model);
    }
}

// A hybrid of many layers: its kernels are known when the first ones are loaded.
TEST_F(CudaPrepare, BeforeAllIsLoaded) {
  EXPECT_EQ(expect_prepared(ANABRANCH_SOURCE_DIR "/models/hybrid-146m"), 1);
}

TEST_F(CudaPrepare, WhatIsNeededWhileOthersCompileIsWaitedFor) {
  const auto device = ops::cuda::open_cuda(0, 1).value();
  const Tensor x = device->zeros({2, 64}, Dtype::f32);
  device->prepare_kernels([&] { EXPECT_EQ(ops::add(x, x).size(), 128); });
  EXPECT_EQ(fake_cards[0].launches.size(), 0u);
  ops::add(x, x);
  EXPECT_EQ(fake_cards[0].launches.size(), 1u);
}

}  // namespace
}  // namespace anabranch
