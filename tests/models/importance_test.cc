// What a model's matrices are multiplied with, and perplexity.
#include "models/importance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "models/perplexity.h"
#include "ops/testing.h"

namespace anabranch {
namespace {

struct Loaded {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Model> model;
};

Loaded load(const std::string& name) {
  Loaded out;
  out.checkpoint = Checkpoint::open(ANABRANCH_SOURCE_DIR "/tests/models/data/" + name + "/model").value();
  auto model = Model::load(*out.checkpoint, ops::cpu_device(0, true));
  EXPECT_TRUE(model.ok()) << model.error().message;
  out.model = std::move(*model);
  return out;
}

std::vector<int> some_tokens(int count) {
  std::vector<int> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 3);
  return tokens;
}

std::vector<float> mean_squares(const std::vector<float>& rows, size_t width) {
  std::vector<float> out(width);
  for (size_t i = 0; i < rows.size(); i++) out[i % width] += rows[i] * rows[i];
  for (float& v : out) v /= static_cast<float>(rows.size() / width);
  return out;
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); i++) EXPECT_NEAR(a[i], b[i], 1e-5f * std::fabs(b[i]) + 1e-9f) << i;
}

TEST(Importance, EveryMatrixOfEveryFamilyIsSeen) {
  for (const char* name :
       {"llama_tied", "qwen3_qk_norm", "qwen35_nested_untied_grouped", "mixtral", "qwen3_moe",
        "qwen35_moe_fused", "qwen3_next", "phi3_window", "starcoder2", "olmo2"}) {
    SCOPED_TRACE(name);
    const Loaded loaded = load(name);
    Importance seen;
    {
      ImportanceCollector collector(loaded.model->device());
      measure_likelihood(*loaded.model, some_tokens(40), 40);
      seen = collector.importance();
    }
    const bool tied = loaded.model->spec().tied_embeddings;
    for (const TensorInfo& info : loaded.checkpoint->tensors()) {
      const bool matrix = info.name.ends_with(".weight") && info.shape.size() >= 2;
      const bool used = info.name.find("conv1d") == std::string::npos && !info.name.starts_with("mtp.") &&
                        (tied || info.name != "model.embed_tokens.weight");
      EXPECT_EQ(seen.contains(info.name), matrix && used) << info.name;
      if (!seen.contains(info.name)) continue;
      const auto& experts = seen[info.name];
      EXPECT_LE(experts.size(), info.shape.size() == 3 ? static_cast<size_t>(info.shape[0]) : 1u)
          << info.name;
      for (const auto& means : experts)
        EXPECT_TRUE(means.empty() || static_cast<int64_t>(means.size()) == info.shape.back()) << info.name;
    }
  }
}

TEST(Importance, MeanSquaresOfTheInputs) {
  const Loaded loaded = load("qwen35_moe_fused");
  const auto tokens = some_tokens(40);
  Importance seen;
  std::vector<float> hidden;
  {
    ImportanceCollector collector(loaded.model->device());
    auto state = loaded.model->make_state();
    Batch batch;
    batch.add(state, tokens, Batch::Logits::all);
    hidden = ops::to_vector(loaded.model->forward(batch).hidden);
    seen = collector.importance();
  }
  const bool tied = loaded.model->spec().tied_embeddings;
  expect_near(seen[tied ? "model.embed_tokens.weight" : "lm_head.weight"][0],
              mean_squares(hidden, static_cast<size_t>(loaded.model->spec().hidden)));
  // The router and the shared expert read all rows; each expert some of them.
  const std::string mlp = "model.layers.0.mlp.";
  expect_near(seen[mlp + "shared_expert.up_proj.weight"][0], seen[mlp + "gate.weight"][0]);
  const auto &gate = seen[mlp + "switch_mlp.gate_proj.weight"], &up = seen[mlp + "switch_mlp.up_proj.weight"];
  ASSERT_GT(gate.size(), 1u);
  EXPECT_EQ(gate, up);
  EXPECT_NE(gate[0], gate[1]);
  // Nobody looks any more.
  EXPECT_EQ(loaded.model->device().input_observer(), nullptr);
}

TEST(Perplexity, IsOfTheTokensInsideWindows) {
  const Loaded loaded = load("llama_tied");
  const auto tokens = some_tokens(25);
  double expected = 0;
  std::vector<int> best;
  for (const auto& [begin, end] : {std::pair{0, 10}, {10, 20}, {20, 25}}) {
    auto state = loaded.model->make_state();
    Batch batch;
    batch.add(state, std::span(tokens).subspan(begin, end - begin), Batch::Logits::all);
    const auto logits = ops::to_vector(loaded.model->forward(batch).logits);
    const size_t vocab = static_cast<size_t>(loaded.model->spec().vocab);
    for (int i = begin; i + 1 < end; i++) {
      const float* row = &logits[(i - begin) * vocab];
      double sum = 0;
      for (size_t v = 0; v < vocab; v++) sum += std::exp(double{row[v]});
      expected += std::log(sum) - row[tokens[i + 1]];
      best.push_back(static_cast<int>(std::max_element(row, row + vocab) - row));
    }
  }
  std::vector<Prediction> each;
  std::vector<size_t> windows;
  const Likelihood found =
      measure_likelihood(*loaded.model, tokens, 10, {}, [&](size_t done, auto predictions) {
        windows.push_back(done);
        each.insert(each.end(), predictions.begin(), predictions.end());
      });
  EXPECT_EQ(windows, (std::vector<size_t>{10, 20, 25}));
  ASSERT_EQ(each.size(), best.size());
  double sum = 0;
  for (size_t i = 0; i < each.size(); i++) {
    EXPECT_EQ(each[i].at, i + 1 + i / 9);
    EXPECT_EQ(each[i].best, best[i]);
    sum += each[i].logprob;
  }
  EXPECT_NEAR(sum, -found.negative_log, 1e-9 * found.negative_log);
  EXPECT_EQ(found.predicted, 9 + 9 + 4);
  EXPECT_NEAR(found.negative_log, expected, 1e-4 * expected);
  EXPECT_NEAR(found.perplexity(), std::exp(expected / 22), 1e-3 * found.perplexity());
}

// A window that starts with BOS already gets no second one.
TEST(Perplexity, WindowsStartWithBos) {
  const Loaded loaded = load("llama_tied");
  auto tokens = some_tokens(25);
  const int bos = 1;
  tokens[9] = bos;
  for (int window = 1; window <= 2; window++)
    EXPECT_EQ(measure_likelihood(*loaded.model, tokens, window, bos).predicted, window == 1 ? 0 : 24);
  std::vector<size_t> windows;
  std::vector<Prediction> each;
  measure_likelihood(*loaded.model, tokens, 10, bos, [&](size_t done, auto predictions) {
    windows.push_back(done);
    each.insert(each.end(), predictions.begin(), predictions.end());
  });
  EXPECT_EQ(windows, (std::vector<size_t>{9, 19, 25}));
  ASSERT_EQ(each.size(), 24u);
  size_t at = 0;
  for (std::vector<int> part :
       {std::vector(tokens.begin(), tokens.begin() + 9), std::vector(tokens.begin() + 9, tokens.begin() + 19),
        std::vector(tokens.begin() + 19, tokens.end())}) {
    const size_t first = static_cast<size_t>(part.front() == bos);
    if (first == 0) part.insert(part.begin(), bos);
    std::vector<Prediction> alone;
    measure_likelihood(*loaded.model, part, 10, {}, [&](size_t, auto predictions) {
      alone.assign(predictions.begin(), predictions.end());
    });
    for (size_t i = 0; i < alone.size(); i++, at++) {
      EXPECT_EQ(each[at].at, at + (at < 9 ? 0 : 1));
      EXPECT_EQ(each[at].best, alone[i].best);
      EXPECT_EQ(each[at].logprob, alone[i].logprob);
    }
  }
  EXPECT_EQ(at, each.size());
}

}  // namespace
}  // namespace anabranch
