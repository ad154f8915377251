// Whole requests on CUDA, by kernels that the emulator runs on the CPU: what the device chooses is what the
// host would, and steps that overlap change nothing.
#include <stdlib.h>

#include "cuda/emulator.h"
#include "cuda/fake_card.h"
#include "engine/tiny_model.h"

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
  ::setenv("ANABRANCH_OVERLAP", overlap, 1);
  EngineOptions options;
  options.model_path = model.path();
  options.device = "cuda";
  options.threads = 1;
  auto engine = Engine::create(options);
  ::unsetenv("ANABRANCH_OVERLAP");
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

}  // namespace
}  // namespace anabranch::testing
