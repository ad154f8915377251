// Whole models with pictures in their prompts against Hugging Face Transformers in fp32: the positions of
// every row, log-probs, a greedy continuation, and the same bits however the prompt is cut.
#include <algorithm>

#include "base/image_ids.h"
#include "models/golden.h"
#include "models/vision_golden.h"
#include "models/vision_tower.h"
#include "ops/open.h"
#include "ops/testing.h"

namespace anabranch {
namespace {

using namespace golden;

// As of golden_test.cc, and the tower's own.
constexpr double kTolerance = 2e-3, kMeanOnCuda = 0.2;

struct Seeing {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Model> model;
  std::unique_ptr<VisionTower> tower;
  ImageProcessor processor;
};
Seeing load(const std::filesystem::path& path, Device& device) {
  Seeing out;
  out.checkpoint = Checkpoint::open(path.string()).value();
  auto model = Model::load(*out.checkpoint, device);
  EXPECT_TRUE(model.ok()) << model.error().message;
  out.model = std::move(*model);
  out.tower = VisionTower::load(*out.checkpoint, device).value();
  out.processor = image_processor_of(*out.checkpoint).value();
  return out;
}
Seeing load(const VisionCase& golden, Device& device) {
  return load(golden.directory / "model", device);
}

// A run's prompt with image ids in place of the pad tokens, and its images, encoded.
struct Prompt {
  std::vector<int> tokens;
  PromptImages images;
};
Prompt prompt_of(const Seeing& seeing, const VisionCase& golden, const VisionRun& run) {
  Prompt out;
  const VisionSpec& spec = seeing.tower->spec();
  out.images.grid_positions = spec.family == VisionSpec::Family::qwen;
  out.images.see_each_other = spec.family == VisionSpec::Family::gemma3;
  out.tokens = run.prompt;
  auto next = run.images.begin();
  for (size_t i = 0; i < out.tokens.size(); i++) {
    if (out.tokens[i] != golden.image_token) continue;
    const ProcessedImage& image = golden.images[static_cast<size_t>(*next)].image;
    const auto encoding = seeing.tower->begin(image, seeing.processor);
    while (!encoding->step(1)) {
    }
    out.images.images.push_back(
        {static_cast<int>(i), image.rows / spec.merge, image.columns / spec.merge, encoding->result()});
    for (int k = 0; k < image.tokens; k++)
      out.tokens[i + static_cast<size_t>(k)] = image_id({static_cast<uint64_t>(*next), 7}, k);
    i += static_cast<size_t>(image.tokens) - 1;
    ++next;
  }
  EXPECT_EQ(next, run.images.end());
  return out;
}

// The logits of all tokens; cut into about `chunk` tokens, but never within an image that is seen as a whole.
std::vector<float> logits_of(const Model& model, SequenceState& state, const Prompt& prompt, int chunk) {
  std::vector<float> out;
  const int size = static_cast<int>(prompt.tokens.size());
  for (int at = state.length(); at < size;) {
    int end = std::min(at + chunk, size);
    for (const PromptImage& image : prompt.images.images)
      if (prompt.images.see_each_other && image.begin < end && end < image.end()) end = image.end();
    Batch batch;
    batch.add(state, std::span(prompt.tokens).subspan(static_cast<size_t>(at), static_cast<size_t>(end - at)),
              Batch::Logits::all, nullptr, &prompt.images);
    const auto logits = to_host(model.forward(batch).logits);
    out.insert(out.end(), logits.data<float>(), logits.data<float>() + logits.size());
    at = end;
  }
  return out;
}

Run expected(const VisionRun& run) {
  return {run.prompt, run.positions, run.greedy, run.log_probs};
}

class VisionPrompts : public ::testing::TestWithParam<std::string> {
 protected:
  VisionCase golden_ = read_vision_case(GetParam());
};

TEST_P(VisionPrompts, EveryRowStandsWhereTransformersPutsIt) {
  const Seeing seeing = load(golden_, ops::cpu_device());
  for (const VisionRun& run : golden_.runs) {
    const Prompt prompt = prompt_of(seeing, golden_, run);
    for (size_t i = 0; i < run.prompt.size() && !run.rope_positions.empty(); i++) {
      const auto axes = prompt.images.axes_of(static_cast<int>(i));
      for (size_t axis = 0; axis < 3; axis++) ASSERT_EQ(axes[axis], run.rope_positions[axis][i]) << i;
    }
  }
}

TEST_P(VisionPrompts, LogProbsEqualTransformers) {
  for (Device* device : {&ops::cpu_device(0, true), &ops::reference_device()}) {
    const Seeing seeing = load(golden_, *device);
    for (const VisionRun& run : golden_.runs) {
      auto state = seeing.model->make_state();
      const auto logits = logits_of(*seeing.model, state, prompt_of(seeing, golden_, run), 1 << 20);
      EXPECT_LT(errors_of(logits, expected(run), golden_.vocab).worst, kTolerance) << device->name();
    }
  }
}

TEST_P(VisionPrompts, GreedyContinuationEqualsTransformers) {
  const Seeing seeing = load(golden_, ops::cpu_device(0, true));
  for (const VisionRun& run : golden_.runs) {
    Prompt prompt = prompt_of(seeing, golden_, run);
    auto state = seeing.model->make_state();
    std::vector<int> produced;
    while (produced.size() < run.greedy.size()) {
      const auto logits = logits_of(*seeing.model, state, prompt, 1 << 20);
      const auto last = logits.end() - golden_.vocab;
      produced.push_back(static_cast<int>(std::max_element(last, logits.end()) - last));
      prompt.tokens.push_back(produced.back());
    }
    EXPECT_EQ(produced, run.greedy);
  }
}

TEST_P(VisionPrompts, SameBitsHoweverThePromptIsCutAndWhoeverIsBeside) {
  for (const bool precise : {false, true}) {
    const Seeing seeing = load(golden_, ops::cpu_device(0, precise));
    std::vector<Prompt> prompts;
    std::vector<std::vector<float>> whole;
    for (const VisionRun& run : golden_.runs) {
      prompts.push_back(prompt_of(seeing, golden_, run));
      auto state = seeing.model->make_state();
      whole.push_back(logits_of(*seeing.model, state, prompts.back(), 1 << 20));
      for (const int chunk : {1, 3, 16}) {
        auto cut = seeing.model->make_state();
        EXPECT_EQ(whole.back(), logits_of(*seeing.model, cut, prompts.back(), chunk)) << chunk;
      }
    }
    // All of them, and a text, in one pass; a snapshot behind the first image is resumed by another state.
    std::vector<SequenceState> states;
    for (size_t i = 0; i <= prompts.size(); i++) states.push_back(seeing.model->make_state());
    Batch batch;
    Snapshot kept;
    const int first_end = prompts[0].images.images[0].end();
    const std::span<const int> first = prompts[0].tokens;
    batch.add(states[0], first.first(static_cast<size_t>(first_end)), Batch::Logits::all, &kept,
              &prompts[0].images);
    batch.add(states[0], first.subspan(static_cast<size_t>(first_end)), Batch::Logits::all, nullptr,
              &prompts[0].images);
    batch.add(states.back(), std::vector<int>{1, 2, 3, 4, 5}, Batch::Logits::none);
    for (size_t i = 1; i < prompts.size(); i++)
      batch.add(states[i], prompts[i].tokens, Batch::Logits::all, nullptr, &prompts[i].images);
    const auto logits = to_host(seeing.model->forward(batch).logits);
    std::vector<float> all;
    for (const auto& one : whole) all.insert(all.end(), one.begin(), one.end());
    EXPECT_EQ(all, std::vector<float>(logits.data<float>(), logits.data<float>() + logits.size()));
    auto resumed = seeing.model->make_state();
    resumed.restore(kept);
    EXPECT_EQ(resumed.length(), first_end);
    const auto rest = logits_of(*seeing.model, resumed, prompts[0], 1 << 20);
    EXPECT_TRUE(std::equal(rest.rbegin(), rest.rend(), whole[0].rbegin()));
  }
}

// The other direction matters: with causal attention within images the values are others.
TEST(VisionPromptsGemma, ItsImagesAreSeenAsAWhole) {
  const VisionCase golden = read_vision_case("gemma3_vision");
  const Seeing seeing = load(golden, ops::cpu_device(0, true));
  Prompt prompt = prompt_of(seeing, golden, golden.runs[0]);
  prompt.images.see_each_other = false;
  auto state = seeing.model->make_state();
  const auto logits = logits_of(*seeing.model, state, prompt, 1 << 20);
  EXPECT_GT(errors_of(logits, expected(golden.runs[0]), golden.vocab).worst, 10 * kTolerance);
}

// What deeper layers of the tower have seen matters.
TEST(VisionPromptsDeepstack, ItsFeaturesAreAddedBehindTheFirstLayers) {
  const VisionCase golden = read_vision_case("qwen3_vl");
  const Seeing seeing = load(golden, ops::cpu_device(0, true));
  Prompt prompt = prompt_of(seeing, golden, golden.runs[1]);
  for (PromptImage& image : prompt.images.images) {
    ASSERT_EQ(image.embeddings.shape(0), 3 * image.tokens());
    image.embeddings = image.embeddings.slice_rows(0, 2 * image.tokens());
  }
  auto state = seeing.model->make_state();
  const auto logits = logits_of(*seeing.model, state, prompt, 1 << 20);
  EXPECT_GT(errors_of(logits, expected(golden.runs[1]), golden.vocab).worst, 10 * kTolerance);
}

TEST(VisionPromptsDeepstack, GgufFilesGiveTheSameLogProbs) {
  for (const char* name : {"qwen3_vl", "qwen3_vl_moe"}) {
    const VisionCase golden = read_vision_case(name);
    const Seeing seeing = load(golden.directory / "model.gguf", ops::cpu_device(0, true));
    for (const VisionRun& run : golden.runs) {
      auto state = seeing.model->make_state();
      const auto logits = logits_of(*seeing.model, state, prompt_of(seeing, golden, run), 1 << 20);
      EXPECT_LT(errors_of(logits, expected(run), golden.vocab).worst, kTolerance) << name;
    }
  }
}

const std::string kCases[] = {"qwen3_5_vision", "qwen3_vl", "qwen3_vl_moe", "gemma3_vision"};
INSTANTIATE_TEST_SUITE_P(Cpu, VisionPrompts, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param; });

class VisionPromptsCuda : public ::testing::TestWithParam<std::string> {};
TEST_P(VisionPromptsCuda, CloseToTransformersAndTheSameBitsHoweverCut) {
  if (const auto why = ops::cuda_unsupported(); !why.empty()) GTEST_SKIP() << why;
  const auto device = ops::open_device({.name = "cuda"}).value();
  const VisionCase golden = read_vision_case(GetParam());
  const Seeing seeing = load(golden, *device);
  for (const VisionRun& run : golden.runs) {
    const Prompt prompt = prompt_of(seeing, golden, run);
    auto state = seeing.model->make_state();
    const auto whole = logits_of(*seeing.model, state, prompt, 1 << 20);
    EXPECT_LT(errors_of(whole, expected(run), golden.vocab).mean, kMeanOnCuda);
    for (const int chunk : {1, 3, 16}) {
      auto cut = seeing.model->make_state();
      EXPECT_EQ(whole, logits_of(*seeing.model, cut, prompt, chunk)) << chunk;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Cuda, VisionPromptsCuda, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace anabranch
