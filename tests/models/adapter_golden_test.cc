// LoRA adapters that PEFT wrote against PEFT in Transformers in fp32 (tools/make_peft_goldens.py): log-probs
// of a whole prompt, prefill in one go = in chunks, and a greedy continuation.
#include "checkpoint/adapter_file.h"
#include "models/golden.h"
#include "models/model_adapters.h"
#include "ops/open.h"
#include "ops/testing.h"

namespace anabranch {
namespace {

using golden::all_logits, golden::errors_of;

const golden::fs::path kAdapters = ANABRANCH_SOURCE_DIR "/tests/models/data/adapters";

std::vector<std::string> adapter_names() {
  std::vector<std::string> names;
  for (const auto& entry : golden::fs::directory_iterator(kAdapters))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

class AdapterGolden : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    golden_ = golden::read_case(kAdapters / GetParam());
    const auto checkpoint = Checkpoint::open(golden_.model);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    auto model = Model::load(**checkpoint, ops::cpu_device(1, true));
    ASSERT_TRUE(model.ok()) << model.error().message;
    model_ = std::move(*model);
    const auto file = read_adapter((kAdapters / GetParam()).string(), (*checkpoint)->config());
    ASSERT_TRUE(file.ok()) << file.error().message;
    const auto fits = check_adapter(*model_, *file);
    ASSERT_TRUE(fits.ok()) << fits.error().message;
    for (const auto& layers : adapted_inputs(*model_, *file))
      add_to_adapter(adapter_, *model_, *file, layers);
  }
  std::vector<float> logits(int chunk, float scale = 1) const {
    auto state = model_->make_state();
    state.set_adapters({{&adapter_, scale}});
    return all_logits(*model_, state, golden_.runs[0].prompt, chunk);
  }
  golden::Case golden_;
  std::unique_ptr<Model> model_;
  nn::Adapter adapter_;
};

TEST_P(AdapterGolden, LogProbsEqualPeft) {
  // As for models without adapters: each adapter adds two fp32 products to a linear layer.
  constexpr double kTolerance = 2e-3;
  EXPECT_LT(errors_of(logits(1 << 20), golden_.runs[0], golden_.vocab).worst, kTolerance);
  EXPECT_GT(errors_of(logits(1 << 20, 0.98f), golden_.runs[0], golden_.vocab).worst, 2 * kTolerance)
      << "the adapter's scale hardly counts";
}

TEST_P(AdapterGolden, SameBitsForAnyRows) {
  const auto whole = logits(1 << 20);
  for (const int rows : {1, 3, 64}) EXPECT_EQ(whole, logits(rows)) << rows << " rows at once";
}

TEST_P(AdapterGolden, GreedyContinuationEqualsPeft) {
  const auto& run = golden_.runs[0];
  auto state = model_->make_state();
  state.set_adapters({{&adapter_, 1.0f}});
  auto tokens = run.prompt;
  std::vector<int> produced;
  while (produced.size() < run.greedy.size()) {
    const auto all = all_logits(*model_, state, tokens, 1 << 20);
    const auto last = all.end() - golden_.vocab;
    tokens = {static_cast<int>(std::max_element(last, all.end()) - last)};
    produced.push_back(tokens[0]);
  }
  EXPECT_EQ(produced, run.greedy);
}

INSTANTIATE_TEST_SUITE_P(Cpu, AdapterGolden, ::testing::ValuesIn(adapter_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace anabranch
