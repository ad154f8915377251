// Tiny random checkpoints against Hugging Face Transformers in fp32 (tools/make_golden_logits.py): log-probs
// of whole prompts, prefill in one go = in chunks = token by token, and a greedy continuation.
#include "models/golden.h"
#include "ops/open.h"
#include "ops/testing.h"

namespace anabranch {
namespace {

using namespace golden;

// The oracle's own rounding (fp32 in another order) and ours; the project's bound for fp32 activations.
constexpr double kTolerance = 2e-3;

class Golden : public ::testing::TestWithParam<std::tuple<std::string, DeviceKind>> {
 protected:
  void SetUp() override {
    golden_ = read_case(fs::path(ANABRANCH_SOURCE_DIR "/tests/models/data") / std::get<0>(GetParam()));
    const bool reference = std::get<1>(GetParam()) == DeviceKind::reference;
    model_ = load(reference ? ops::reference_device() : ops::cpu_device(0, true));
  }
  std::unique_ptr<Model> load(Device& device) const {
    auto checkpoint = Checkpoint::open(golden_.model);
    EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    auto model = Model::load(**checkpoint, device);
    EXPECT_TRUE(model.ok()) << model.error().message;
    return std::move(*model);
  }
  Case golden_;
  std::unique_ptr<Model> model_;
};

TEST_P(Golden, LogProbsEqualTransformers) {
  for (const auto& run : golden_.runs) {
    auto state = model_->make_state();
    const auto logits = all_logits(*model_, state, run.prompt, 1 << 20);
    EXPECT_LT(errors_of(logits, run, golden_.vocab).worst, kTolerance) << run.prompt.size() << " tokens";
  }
}

// The reference only comes close; it takes minutes for long prompts, token by token. A prompt in one chunk is
// that of LogProbsEqualTransformers.
class GoldenReference : public Golden {};
TEST_P(GoldenReference, ChunkedPrefillIsClose) {
  constexpr size_t kMostChunks = 30;
  for (const auto& run : golden_.runs) {
    for (const int chunk : {1, 3, 64}) {
      const size_t length = run.prompt.size(), one = static_cast<size_t>(chunk);
      if (length > 100 || length <= one || length > kMostChunks * one) continue;
      auto state = model_->make_state();
      const auto chunked = all_logits(*model_, state, run.prompt, chunk);
      EXPECT_LT(errors_of(chunked, run, golden_.vocab).worst, kTolerance) << "chunks of " << chunk;
    }
  }
}

// The exactness contract, with 8-bit activations and without: however many rows go at once, on however many
// threads.
class GoldenCpu : public Golden {};
TEST_P(GoldenCpu, SameBitsForAnyRowsAndThreads) {
  for (const bool precise : {false, true}) {
    const auto one = load(ops::cpu_device(1, precise)), two = load(ops::cpu_device(2, precise));
    for (const auto& run : golden_.runs) {
      auto whole_state = one->make_state();
      const auto whole = all_logits(*one, whole_state, run.prompt, 1 << 20);
      for (const int threads : {1, 2}) {
        const Model& model = threads == 1 ? *one : *two;
        for (const int rows : {1, 2, 3, 8, 64}) {
          auto state = model.make_state();
          const auto chunked = all_logits(model, state, run.prompt, rows);
          ASSERT_EQ(whole.size(), chunked.size());
          EXPECT_EQ(0, std::memcmp(whole.data(), chunked.data(), whole.size() * 4))
              << rows << " rows at once, " << threads << " threads, precise " << precise;
        }
      }
    }
  }
}

// By the reference from short prompts only, token by token as it goes.
TEST_P(Golden, GreedyContinuationEqualsTransformers) {
  for (const auto& run : golden_.runs) {
    if (std::get<1>(GetParam()) == DeviceKind::reference && run.prompt.size() > 20) continue;
    auto state = model_->make_state();
    auto tokens = run.prompt;
    std::vector<int> produced;
    while (produced.size() < run.greedy.size()) {
      const auto logits = all_logits(*model_, state, tokens, 1 << 20);
      const auto last = logits.end() - golden_.vocab;
      produced.push_back(static_cast<int>(std::max_element(last, logits.end()) - last));
      tokens = {produced.back()};
    }
    EXPECT_EQ(produced, run.greedy) << run.prompt.size() << " tokens";
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, Golden,
                         ::testing::Combine(::testing::ValuesIn(case_names()),
                                            ::testing::Values(DeviceKind::cpu)),
                         [](const auto& info) { return std::get<0>(info.param); });
INSTANTIATE_TEST_SUITE_P(Cpu, GoldenCpu,
                         ::testing::Combine(::testing::ValuesIn(case_names()),
                                            ::testing::Values(DeviceKind::cpu)),
                         [](const auto& info) { return std::get<0>(info.param); });
INSTANTIATE_TEST_SUITE_P(Reference, Golden,
                         ::testing::Combine(::testing::ValuesIn(directory_names()),
                                            ::testing::Values(DeviceKind::reference)),
                         [](const auto& info) { return std::get<0>(info.param); });
INSTANTIATE_TEST_SUITE_P(Reference, GoldenReference,
                         ::testing::Combine(::testing::ValuesIn(directory_names()),
                                            ::testing::Values(DeviceKind::reference)),
                         [](const auto& info) { return std::get<0>(info.param); });

class GoldenCuda : public ::testing::TestWithParam<std::string> {};
TEST_P(GoldenCuda, CloseToTransformersAndTheSameBitsForAnyRows) {
  if (const auto why = ops::cuda_unsupported(); !why.empty()) GTEST_SKIP() << why;
  const auto device = ops::open_device({.name = "cuda"}).value();
  const auto golden = read_case(fs::path(ANABRANCH_SOURCE_DIR "/tests/models/data") / GetParam());
  expect_close_on_cuda(golden, *device, {1, 3, 20, 64}, 1000);
}
INSTANTIATE_TEST_SUITE_P(Cuda, GoldenCuda, ::testing::ValuesIn(case_names()),
                         [](const auto& info) { return info.param; });

// int8 activations, the CPU's default: two sequences in one batch give each the bits it gets alone.
TEST(Model, NeighboursDoNotChangeASequence) {
  for (const auto& name : case_names()) {
    const auto golden = read_case(fs::path(ANABRANCH_SOURCE_DIR "/tests/models/data") / name);
    auto checkpoint = Checkpoint::open(golden.model);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    auto model = Model::load(**checkpoint, ops::cpu_device());
    ASSERT_TRUE(model.ok()) << model.error().message;
    const auto &a = golden.runs[1].prompt, &b = golden.runs[2].prompt;
    auto alone_a = (*model)->make_state(), alone_b = (*model)->make_state();
    auto expected = all_logits(**model, alone_a, a, 1 << 20);
    const auto logits_b = all_logits(**model, alone_b, b, 1 << 20);
    expected.insert(expected.end(), logits_b.begin(), logits_b.end());

    auto state_a = (*model)->make_state(), state_b = (*model)->make_state();
    Batch batch;
    batch.add(state_a, a, Batch::Logits::none);
    batch.add(state_b, b, Batch::Logits::none);
    for (size_t i = 0; i < batch.ids.size(); i++) batch.logit_rows.push_back(static_cast<int>(i));
    const auto logits = (*model)->forward(batch).logits;
    ASSERT_EQ(static_cast<size_t>(logits.size()), expected.size());
    EXPECT_EQ(0, std::memcmp(logits.data<float>(), expected.data(), expected.size() * 4)) << name;
  }
}

}  // namespace
}  // namespace anabranch
