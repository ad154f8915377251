// Whole requests on CUDA, by kernels that the emulator runs on the CPU: what the device chooses is what the
// host would, and steps that overlap change nothing.
#include "cuda/emulator.h"
#include "cuda/fake_card.h"
#include "engine/tiny_model.h"
#include "variable.h"

namespace anabranch::testing {
namespace {

std::vector<Request> some_requests() {
  std::vector<Request> out;
  for (int i = 0; i < 4; i++) {
    Request r = request_of(5 + 3 * i, 8 + 2 * i, 0.7f * static_cast<float>(i % 3), 3 + i);
    if (i == 2) r.sampling.top_k = 20, r.sampling.top_p = 0.9f;
    if (i == 3) r.stop = {"e", "\xc3"}, r.ignore_eos = false;
    r.speculation = SpecMode{.automatic = false, .source = DraftSource::none};
    out.push_back(std::move(r));
  }
  return out;
}

// overlap: null: as without the variable.
std::vector<std::vector<int>> answers(const TinyModel& model, const char* overlap, bool logits,
                                      bool together) {
  const Variable variable("ANABRANCH_OVERLAP", overlap);
  EngineOptions options;
  options.model_path = model.path();
  options.device.name = "cuda";
  options.device.threads = 1;
  auto engine = Engine::create(options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  Collector collector;
  std::vector<std::vector<int>> out;
  int key = 0;
  for (Request& request : some_requests()) {
    if (logits) request.logprobs = 0;
    EXPECT_TRUE((*engine)->submit(request, collector.sink(key)).ok());
    if (!together) collector.wait(key);
    key++;
  }
  for (int i = 0; i < key; i++) out.push_back(collector.wait(i).tokens);
  EXPECT_EQ((*engine)->stats().logit_passes > 0, logits);
  return out;
}

TEST(EngineOnCuda, ChoosesAndOverlapsWithTheSameTokens) {
  if (!emulator::unsupported().empty()) GTEST_SKIP() << emulator::unsupported();
  fake_cards[0] = {.capability = 80, .multiprocessors = 512, .shared_bytes = 166912, .emulated = true};
  const TinyModel model("qwen35_flat_tied");
  const auto want = answers(model, "0", true, false);
  EXPECT_EQ(answers(model, "0", false, true), want);
  EXPECT_EQ(answers(model, "1", false, true), want);
  EXPECT_EQ(answers(model, "1", false, false), want);
  EXPECT_EQ(fake_faults, std::vector<std::string>());
  fake_faults.clear();
  fake_cards[0] = {};
}

std::vector<Request> sampled_requests() {
  std::vector<Request> out;
  for (int i = 0; i < 3; i++) {
    Request r = request_of(9 + i, 10, 0.6f + 0.2f * static_cast<float>(i), 30 + i);
    if (i == 1) r.sampling.top_k = 20, r.sampling.top_p = 0.9f;
    if (i == 2) r.sampling.top_p = 0.9f;
    out.push_back(std::move(r));
  }
  return out;
}

struct Drafted {
  std::vector<std::vector<int>> tokens;
  long drafted = 0, accepted = 0;
};
Drafted with_drafts(Engine& engine, const SpecMode& mode) {
  Drafted out;
  Collector collector;
  int key = 0;
  for (Request& request : sampled_requests()) {
    request.speculation = mode;
    EXPECT_TRUE(engine.submit(request, collector.sink(key++)).ok());
  }
  for (int i = 0; i < key; i++) {
    const auto record = collector.wait(i);
    EXPECT_EQ(record.last.error, "");
    out.tokens.push_back(record.tokens);
    for (const auto& source : record.last.usage.speculation.sources)
      out.drafted += source.drafted, out.accepted += source.accepted;
  }
  return out;
}

// The device draws the tokens of a draft's rows, too, each by its own position. A draft model that is the
// model itself draws the same ones.
TEST(EngineOnCuda, DraftsChangeNoSampledToken) {
  if (!emulator::unsupported().empty()) GTEST_SKIP() << emulator::unsupported();
  fake_cards[0] = {.capability = 80, .multiprocessors = 512, .shared_bytes = 166912, .emulated = true};
  const TinyModel model("qwen35_nested_untied_grouped");
  const auto open = [&](const char* device) {
    EngineOptions options;
    options.model_path = options.draft_path = model.path();
    options.device.name = device;
    options.device.threads = 1;
    options.cache.enabled = true;  // others' answers are copied from then
    options.cache.ram_bytes = 64 << 20;
    auto engine = Engine::create(options);
    EXPECT_TRUE(engine.ok()) << engine.error().message;
    return std::move(*engine);
  };
  const SpecMode none{.automatic = false, .source = DraftSource::none};
  const auto on_cpu = with_drafts(*open("cpu"), none);
  {
    const auto engine = open("cuda");
    const auto want = with_drafts(*engine, none);
    EXPECT_EQ(want.drafted, 0);
    // Numbers are rounded in other ways: after a while a token that is nearly as likely may be drawn.
    for (size_t i = 0; i < want.tokens.size(); i++)
      EXPECT_TRUE(std::equal(want.tokens[i].begin(), want.tokens[i].begin() + 6, on_cpu.tokens[i].begin()))
          << i;
    with_drafts(*engine, {.automatic = false, .source = DraftSource::ngram});  // others copy these answers
    for (const auto source : {DraftSource::draft, DraftSource::mtp, DraftSource::ngram}) {
      const auto got = with_drafts(*engine, {.automatic = false, .source = source, .depth = 3});
      EXPECT_EQ(got.tokens, want.tokens) << name_of(source);
      EXPECT_GT(got.drafted, 0) << name_of(source);
      if (source == DraftSource::draft) {
        EXPECT_EQ(got.accepted, got.drafted);
      }
    }
  }
  EXPECT_EQ(fake_faults, std::vector<std::string>());
  fake_faults.clear();
  fake_cards[0] = {};
}

}  // namespace
}  // namespace anabranch::testing
