// How far a model's predictions are from its original's.
#include "models/divergence.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "checkpoint/convert.h"
#include "ops/testing.h"
#include "temp_dir.h"

namespace anabranch {
namespace {

constexpr const char* kOriginal = ANABRANCH_SOURCE_DIR "/tests/models/data/llama_tied/model";

std::unique_ptr<Model> load(const std::string& path) {
  const auto checkpoint = Checkpoint::open(path).value();
  auto model = Model::load(*checkpoint, ops::cpu_device(0, true));
  EXPECT_TRUE(model.ok()) << model.error().message;
  return std::move(*model);
}

std::unique_ptr<Model> quantised(int bits) {
  const std::string path = anabranch::testing::temp_path("divergence_" + std::to_string(bits));
  ConvertOptions options;
  options.output = path;
  options.force = true;
  options.fallback = Target{TargetKind::affine, {bits, 32}};
  EXPECT_TRUE(convert(kOriginal, options).ok());
  auto model = load(path);
  std::filesystem::remove_all(path);
  return model;
}

std::vector<int> some_tokens(int count) {
  std::vector<int> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 3);
  return tokens;
}

// The probabilities after each of the tokens, by definition. [tokens, vocab]
std::vector<std::vector<long double>> probabilities(const Model& model, std::span<const int> tokens) {
  auto state = model.make_state();
  Batch batch;
  batch.add(state, tokens, Batch::Logits::all);
  const auto logits = ops::to_vector(model.forward(batch).logits);
  const auto vocab = static_cast<size_t>(model.spec().vocab);
  std::vector<std::vector<long double>> out;
  for (size_t i = 0; i < tokens.size(); i++) {
    auto& row = out.emplace_back();
    long double sum = 0;
    for (size_t v = 0; v < vocab; v++)
      sum += row.emplace_back(std::exp(static_cast<long double>(logits[i * vocab + v])));
    for (auto& p : row) p /= sum;
  }
  return out;
}

TEST(Divergence, OfAModelFromItselfIsZero) {
  const auto model = load(kOriginal);
  const Comparison found = compare_models(*model, *model, some_tokens(30), 10);
  EXPECT_EQ(found.model.predicted, 27);
  EXPECT_EQ(found.divergences, std::vector<double>(27));
  EXPECT_EQ(found.mean_divergence(), 0);
  EXPECT_EQ(found.divergence_quantile(0.99), 0);
  EXPECT_EQ(found.same_top_share(), 1);
  EXPECT_EQ(found.original.negative_log, found.model.negative_log);
}

// Windows of 200 tokens are read in two passes.
TEST(Divergence, OfAQuantisedModelIsThatOfTheDefinition) {
  const auto original = load(kOriginal), model = quantised(3);
  auto tokens = some_tokens(250);
  for (int& token : tokens) token = 3 + token * 7 % (model->spec().vocab - 3);
  std::vector<ComparedPrediction> each;
  std::vector<size_t> windows;
  const Comparison found =
      compare_models(*original, *model, tokens, 200, {}, [&](size_t done, auto predictions) {
        windows.push_back(done);
        each.insert(each.end(), predictions.begin(), predictions.end());
      });
  EXPECT_EQ(windows, (std::vector<size_t>{200, 250}));
  std::vector<double> expected;
  int64_t same = 0;
  for (const auto& [begin, end] : {std::pair<size_t, size_t>{0, 200}, {200, 250}}) {
    const auto window = std::span(tokens).subspan(begin, end - begin);
    const auto p = probabilities(*original, window), q = probabilities(*model, window);
    for (size_t i = 0; i + 1 < window.size(); i++) {
      long double sum = 0;
      for (size_t v = 0; v < p[i].size(); v++) sum += p[i][v] * (std::log(p[i][v]) - std::log(q[i][v]));
      const ComparedPrediction& one = each.at(expected.size());
      EXPECT_EQ(one.model.at, begin + i + 1);
      EXPECT_NEAR(one.original.logprob, std::log(static_cast<double>(p[i][window[i + 1]])), 1e-5);
      EXPECT_NEAR(one.model.logprob, std::log(static_cast<double>(q[i][window[i + 1]])), 1e-5);
      same += std::ranges::max_element(p[i]) - p[i].begin() == std::ranges::max_element(q[i]) - q[i].begin();
      expected.push_back(static_cast<double>(sum));
    }
  }
  ASSERT_EQ(found.divergences.size(), expected.size());
  double total = 0;
  for (size_t i = 0; i < expected.size(); i++) {
    EXPECT_NEAR(found.divergences[i], expected[i], 1e-6 + 1e-4 * expected[i]) << i;
    total += expected[i];
  }
  EXPECT_GT(total, 0.01);
  EXPECT_NEAR(found.mean_divergence(), total / double(expected.size()), 1e-4 * total);
  EXPECT_EQ(found.same_top, same);
  EXPECT_LT(found.same_top_share(), 1);
  const Likelihood alone = measure_likelihood(*model, tokens, 200);
  EXPECT_EQ(found.model.negative_log, alone.negative_log);
  EXPECT_EQ(found.model.predicted, alone.predicted);
}

TEST(Divergence, QuantilesAreValuesThatOccur) {
  Comparison c;
  for (int i = 200; i >= 1; i--) c.divergences.push_back(i);
  EXPECT_EQ(c.divergence_quantile(0.99), 198);
  EXPECT_EQ(c.divergence_quantile(1), 200);
  EXPECT_EQ(c.divergence_quantile(0.5), 100);
  EXPECT_EQ(c.divergence_quantile(0), 1);
  c.divergences = {7};
  EXPECT_EQ(c.divergence_quantile(0.99), 7);
  c.divergences = {NAN, 1, 2};
  EXPECT_TRUE(std::isnan(c.divergence_quantile(1)));
  EXPECT_EQ(c.divergence_quantile(0.5), 2);
}

TEST(Divergence, ComparisonsAreAddedUp) {
  ComparedPrediction one;
  one.original = {1, -1.0, 5};
  one.model = {1, -2.0, 5};
  one.divergence = 0.5;
  Comparison a, b;
  a.add(one);
  one.model.best = 6;
  one.divergence = 1.5;
  b.add(one);
  a.add(b);
  EXPECT_EQ(a.original.negative_log, 2);
  EXPECT_EQ(a.model.negative_log, 4);
  EXPECT_EQ(a.model.predicted, 2);
  EXPECT_EQ(a.mean_divergence(), 1);
  EXPECT_EQ(a.same_top_share(), 0.5);
}

}  // namespace
}  // namespace anabranch
