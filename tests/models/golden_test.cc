// Tiny random checkpoints against Hugging Face Transformers in fp32 (tools/make_golden_logits.py): log-probs
// of whole prompts, prefill in one go = in chunks = token by token, and a greedy continuation.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/json.h"
#include "base/mapped_file.h"
#include "models/model.h"
#include "ops/open.h"
#include "ops/testing.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;

// The oracle's own rounding (fp32 in another order) and ours; the project's bound for fp32 activations.
constexpr double kTolerance = 2e-3;

struct Run {
  std::vector<int> prompt, positions, greedy;
  std::vector<float> log_probs;  // [positions, vocab]
};

struct Case {
  std::string model;
  int vocab = 0;
  std::vector<Run> runs;
};

Case read_case(const fs::path& dir) {
  const auto index = parse_json(*read_file((dir / "index.json").string(), 1 << 24));
  const auto data = *MappedFile::open((dir / (*index)["data"].get<std::string>()).string());
  Case out;
  out.model = (dir / (*index)["model"].get<std::string>()).string();
  out.vocab = (*index)["vocab"].get<int>();
  for (const Json& r : (*index)["runs"]) {
    Run run{r["prompt"].get<std::vector<int>>(),
            r["positions"].get<std::vector<int>>(),
            r["greedy"].get<std::vector<int>>(),
            {}};
    run.log_probs.resize(run.positions.size() * out.vocab);
    std::memcpy(run.log_probs.data(), data->bytes().data() + r["offset"].get<size_t>(),
                run.log_probs.size() * 4);
    out.runs.push_back(std::move(run));
  }
  return out;
}

std::vector<std::string> case_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(ANABRANCH_SOURCE_DIR "/tests/models/data"))
    if (fs::exists(entry.path() / "index.json")) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Logits of every position, the prompt applied `chunk` tokens at a time.
std::vector<float> all_logits(const Model& model, SequenceState& state, const std::vector<int>& tokens,
                              int chunk) {
  std::vector<float> out;
  for (int at = 0; at < static_cast<int>(tokens.size()); at += chunk) {
    const int n = std::min<int>(chunk, static_cast<int>(tokens.size()) - at);
    Batch batch;
    batch.add(state, {tokens.data() + at, static_cast<size_t>(n)}, Batch::Logits::none);
    for (int i = 0; i < n; i++) batch.logit_rows.push_back(i);
    const auto logits = to_host(model.forward(batch).logits);
    out.insert(out.end(), logits.data<float>(), logits.data<float>() + logits.size());
  }
  return out;
}

double log_sum_exp(const float* row, int n) {
  double best = row[0], sum = 0;
  for (int i = 0; i < n; i++) best = std::max<double>(best, row[i]);
  for (int i = 0; i < n; i++) sum += std::exp(row[i] - best);
  return best + std::log(sum);
}

double worst_log_prob_error(const std::vector<float>& logits, const Run& run, int vocab) {
  double worst = 0;
  for (size_t p = 0; p < run.positions.size(); p++) {
    const float* row = logits.data() + static_cast<size_t>(run.positions[p]) * vocab;
    const double norm = log_sum_exp(row, vocab);
    for (int i = 0; i < vocab; i++)
      worst = std::max(worst, std::abs(row[i] - norm - run.log_probs[p * vocab + i]));
  }
  return worst;
}

class Golden : public testing::TestWithParam<std::tuple<std::string, DeviceKind>> {
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
    EXPECT_LT(worst_log_prob_error(logits, run, golden_.vocab), kTolerance) << run.prompt.size() << " tokens";
  }
}

// The reference only comes close; it takes minutes for long prompts, token by token.
class GoldenReference : public Golden {};
TEST_P(GoldenReference, ChunkedPrefillIsClose) {
  for (const auto& run : golden_.runs) {
    if (run.prompt.size() > 100) continue;
    for (const int chunk : {1, 3, 64}) {
      auto state = model_->make_state();
      const auto chunked = all_logits(*model_, state, run.prompt, chunk);
      EXPECT_LT(worst_log_prob_error(chunked, run, golden_.vocab), kTolerance) << "chunks of " << chunk;
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

TEST_P(Golden, GreedyContinuationEqualsTransformers) {
  for (const auto& run : golden_.runs) {
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
                         testing::Combine(testing::ValuesIn(case_names()), testing::Values(DeviceKind::cpu)),
                         [](const auto& info) { return std::get<0>(info.param); });
INSTANTIATE_TEST_SUITE_P(Cpu, GoldenCpu,
                         testing::Combine(testing::ValuesIn(case_names()), testing::Values(DeviceKind::cpu)),
                         [](const auto& info) { return std::get<0>(info.param); });
INSTANTIATE_TEST_SUITE_P(Reference, Golden,
                         testing::Combine(testing::ValuesIn(case_names()),
                                          testing::Values(DeviceKind::reference)),
                         [](const auto& info) { return std::get<0>(info.param); });
INSTANTIATE_TEST_SUITE_P(Reference, GoldenReference,
                         testing::Combine(testing::ValuesIn(case_names()),
                                          testing::Values(DeviceKind::reference)),
                         [](const auto& info) { return std::get<0>(info.param); });

// On the card, where there is one: activations are rounded to bf16, and attention's operands to f16. Shapes
// without kernels are skipped.
constexpr double kCudaTolerance = 0.1;
class GoldenCuda : public testing::TestWithParam<std::string> {};
TEST_P(GoldenCuda, CloseToTransformersAndTheSameBitsForAnyRows) {
  if (const auto why = ops::cuda_unsupported(); !why.empty()) GTEST_SKIP() << why;
  const auto golden = read_case(fs::path(ANABRANCH_SOURCE_DIR "/tests/models/data") / GetParam());
  const auto device = ops::open_device({.device = "cuda"}).value();
  auto checkpoint = Checkpoint::open(golden.model);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  const auto model = Model::load(**checkpoint, *device);
  if (!model && model.error().kind == ErrorKind::unsupported) GTEST_SKIP() << model.error().message;
  ASSERT_TRUE(model.ok()) << model.error().message;
  for (const auto& run : golden.runs) {
    auto whole_state = (*model)->make_state();
    const auto whole = all_logits(**model, whole_state, run.prompt, 1 << 20);
    EXPECT_LT(worst_log_prob_error(whole, run, golden.vocab), kCudaTolerance)
        << run.prompt.size() << " tokens";
    for (const int rows : {1, 3, 20, 64}) {
      auto state = (*model)->make_state();
      const auto chunked = all_logits(**model, state, run.prompt, rows);
      ASSERT_EQ(whole.size(), chunked.size());
      EXPECT_EQ(0, std::memcmp(whole.data(), chunked.data(), whole.size() * 4)) << rows << " rows at once";
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Cuda, GoldenCuda, testing::ValuesIn(case_names()),
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
