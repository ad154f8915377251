// Several engines in one process: other models, threads, precision and backends beside each other, at the
// same time. Each gives the tokens that it gives alone.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "engine/tiny_model.h"

namespace anabranch {
namespace {

using testing::TinyModel;

struct Setting {
  const char* model;
  int threads;
  bool precise, reference;
};
constexpr Setting kSettings[] = {{"qwen35_nested_untied_grouped", 1, false, false},
                                 {"qwen35_nested_untied_grouped", 2, true, false},
                                 {"llama_tied", 2, false, false},
                                 {"qwen35_nested_untied_grouped", 1, false, true}};

std::unique_ptr<Engine> start(const TinyModel& model, const Setting& setting) {
  EngineOptions options;
  options.model_path = model.path();
  options.device.threads = setting.threads;
  options.device.precise = setting.precise;
  options.device.reference = setting.reference;
  options.cache.enabled = false;
  auto engine = Engine::create(options);
  EXPECT_TRUE(engine.ok()) << engine.error().message;
  return std::move(*engine);
}

std::vector<int> answer(Engine& engine, int seed) {
  Request request;
  for (int i = 0; i < 40; i++) request.prompt.push_back((i * 7 + seed) % 200);
  request.sampling.temperature = seed % 2 == 0 ? 0.0f : 0.9f;
  request.sampling.seed = static_cast<uint64_t>(seed);
  request.max_tokens = 24;
  return testing::run_to_end(engine, request).tokens;
}

TEST(TwoEngines, RunAtTheSameTimeAsIfAlone) {
  std::vector<std::unique_ptr<TinyModel>> models;
  std::vector<std::vector<int>> alone;
  for (const Setting& setting : kSettings) {
    models.push_back(std::make_unique<TinyModel>(setting.model));
    const auto engine = start(*models.back(), setting);
    for (int seed = 0; seed < 4; seed++) alone.push_back(answer(*engine, seed));
  }
  // The settings matter, or the test would not see one engine's taken for another's.
  EXPECT_NE(alone[0], alone[8]);

  std::vector<std::unique_ptr<Engine>> engines;
  for (size_t i = 0; i < models.size(); i++) engines.push_back(start(*models[i], kSettings[i]));
  for (int round = 0; round < 2; round++) {
    std::vector<std::vector<int>> together(alone.size());
    std::vector<std::thread> clients;
    for (size_t i = 0; i < engines.size(); i++)
      clients.emplace_back([&, i] {
        for (int seed = 0; seed < 4; seed++)
          together[4 * i + static_cast<size_t>(seed)] = answer(*engines[i], seed);
      });
    for (auto& client : clients) client.join();
    for (size_t i = 0; i < alone.size(); i++)
      EXPECT_EQ(together[i], alone[i]) << "engine " << i / 4 << ", request " << i % 4;
    if (round == 0) engines[1] = start(*models[1], kSettings[1]);  // one goes and comes while others stay
  }
}

}  // namespace
}  // namespace anabranch
