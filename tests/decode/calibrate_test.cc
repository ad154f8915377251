// Calibration: the searches find what was planted; the passes over text say what other passes say.
#include "decode/calibrate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/testing.h"

namespace anabranch {
namespace {

TEST(ExpectedRate, IsTheBestDepthOfItsFormula) {
  EXPECT_DOUBLE_EQ(expected_rate(0, 0), 1 / 1.15);              // one draft, never right
  EXPECT_DOUBLE_EQ(expected_rate(1, 0), 16 / (1 + 15 * 0.15));  // all fifteen are right
  // a = 0.8, cost 0.1: k = 3 is the best, 2.952 tokens for 1.75 passes.
  EXPECT_DOUBLE_EQ(expected_rate(0.8, 0.1), (1 + 0.8 + 0.64 + 0.512) / (1 + 3 * 0.25));
  EXPECT_LT(expected_rate(0.5, 0.9), 1);
  for (double a = 0.1; a < 1; a += 0.1) {
    EXPECT_GT(expected_rate(a + 0.05, 0.2), expected_rate(a, 0.2));
    EXPECT_GT(expected_rate(a, 0.2), expected_rate(a, 0.25));
  }
}

DraftCosts even_costs(int layers) {
  DraftCosts costs;
  costs.layers.assign(layers, 0.8 / layers);
  costs.head = 0.2;
  return costs;
}

TEST(DraftCosts, AreShares) {
  const auto costs = draft_costs({{100, 200, 300}, 400, 50});
  EXPECT_EQ(costs.layers, (std::vector<double>{0.1, 0.2, 0.3}));
  EXPECT_DOUBLE_EQ(costs.head, 0.4);
  EXPECT_DOUBLE_EQ(costs.mtp, 0.05);
}

TEST(SearchExit, TakesTheDepthThatPays) {
  std::vector<double> agreement(20, 0.05);
  for (int i = 5; i < 19; i++) agreement[i] = 0.85 + 0.005 * i;
  agreement[19] = 1;
  const auto found = search_exit(agreement, even_costs(20), 0.02);
  EXPECT_EQ(found.best, 5);
  ASSERT_EQ(found.rates.size(), 20u);
  EXPECT_DOUBLE_EQ(found.rates[5], expected_rate(agreement[5], 0.02 + 6 * 0.04));
  EXPECT_GT(found.rates[5], 1);
}

TEST(SearchExit, NeverTakesTheWholeModel) {
  EXPECT_EQ(search_exit(std::vector<double>{0.1, 1}, even_costs(2), 0).best, 0);
  EXPECT_EQ(search_exit(std::vector<double>{1}, even_costs(1), 0).best, -1);
}

// Agreement of a model in which each missing layer costs its own share, and some pairs more.
struct Planted {
  std::vector<double> loss;
  int first = -1, second = -1;  // that must not both be missing
  int asked = 0;
  double operator()(std::span<const int> layers) {
    asked++;
    double right = 1;
    std::vector<bool> run(loss.size());
    for (const int i : layers) run[i] = true;
    for (size_t i = 0; i < loss.size(); i++) right *= run[i] ? 1 : 1 - loss[i];
    if (first >= 0 && !run[first] && !run[second]) right *= 0.3;
    return right;
  }
};

std::vector<int> taken(const SkipSearch& found) {
  std::vector<int> out;
  for (int i = 0; i < found.best; i++) out.push_back(found.skipped[i].layer);
  std::sort(out.begin(), out.end());
  return out;
}

TEST(SearchSkip, FindsPlantedLayers) {
  Planted model{std::vector<double>(16, 0.5)};
  const std::vector<int> spare = {2, 3, 7, 8, 11, 12, 13};
  for (const int i : spare) model.loss[i] = 0.001 * (i + 1);
  const auto found = search_skip(even_costs(16), 0.05, std::ref(model));
  EXPECT_EQ(taken(found), spare);
  EXPECT_NEAR(found.alone[5], 0.5, 1e-12);
  EXPECT_EQ(found.skipped[0].layer, 2);
  double left = 1;
  for (const int i : spare) left *= 1 - model.loss[i];
  EXPECT_NEAR(found.skipped[found.best - 1].agreement, left, 1e-12);
  EXPECT_LE(model.asked, 16 + 3 * 8) << "far fewer than all pairs";
}

TEST(SearchSkip, LeavesOneOfTwoThatStandInForEachOther) {
  Planted model{std::vector<double>(16, 0.5)};
  for (const int i : {2, 3, 7, 8}) model.loss[i] = 0.001 * (i + 1);
  model.first = 2;
  model.second = 3;
  EXPECT_EQ(taken(search_skip(even_costs(16), 0.05, std::ref(model))), (std::vector<int>{2, 7, 8}));
}

TEST(SearchSkip, StopsSoonWhereNothingPays) {
  Planted model{std::vector<double>(40, 0.6)};
  const auto found = search_skip(even_costs(40), 0.05, std::ref(model));
  EXPECT_EQ(found.best, 1);
  EXPECT_LE(found.skipped.size(), 5u);
  Planted tiny{{0.5}};
  EXPECT_EQ(search_skip(even_costs(1), 0.05, std::ref(tiny)).best, 0);
}

// Passages over a vocabulary in which `rare` ids, of high number, are used again and again.
std::vector<Passage> passages_of(const std::vector<int>& rare, int common) {
  std::vector<Passage> out;
  for (int i = 0; i < 4; i++) {
    Passage p;
    for (int k = 0; k < 300; k++)
      p.tokens.push_back(k % 3 == 0 ? rare[k / 3 % rare.size()] : (k * 7 + i) % common);
    out.push_back(p);
  }
  return out;
}

TEST(SearchVocab, TakesWhatOccursAndFillsUpByNumber) {
  const std::vector<int> rare = {20000, 30000, 40000};
  const auto passages = passages_of(rare, 900);
  const auto found =
      search_vocab(passages, 50000, {45000}, [](int size) { return 0.02 + 0.3 * size / 50000; });
  EXPECT_EQ(found.sizes[found.best].size, 1024);
  EXPECT_EQ(found.ids.size(), 1024u);
  EXPECT_TRUE(std::is_sorted(found.ids.begin(), found.ids.end()));
  for (const int id : {0, 899, 20000, 30000, 40000, 45000})
    EXPECT_TRUE(std::binary_search(found.ids.begin(), found.ids.end(), id)) << id;
  EXPECT_EQ(found.sizes.back().size, 50000);
  EXPECT_EQ(found.sizes.back().coverage, 1);
  EXPECT_EQ(found.sizes[0].coverage, 1) << "what one half uses, the other does";
}

TEST(SearchVocab, CoverageIsOfTextThatWasNotCounted) {
  // Each passage has words of its own, which no other one can teach.
  std::vector<Passage> passages;
  for (int i = 0; i < 4; i++) {
    Passage p;
    for (int k = 0; k < 100; k++) p.tokens.push_back(k < 50 ? k : 20000 + 100 * i + k);
    passages.push_back(p);
  }
  const auto found = search_vocab(passages, 30000, {}, [](int size) { return 1e-5 * size; });
  EXPECT_NEAR(found.sizes[0].coverage, 49.0 / 99, 1e-9);
  EXPECT_EQ(found.sizes.back().coverage, 1);
  EXPECT_THROW(search_vocab({passages.data(), 1}, 30000, {}, [](int) { return 0.1; }), std::invalid_argument);
}

TEST(SearchVocab, TakesMoreWhereTheHeadIsCheap) {
  std::vector<Passage> passages;
  for (int i = 0; i < 4; i++) {
    Passage p;
    for (int k = 0; k < 2000; k++) p.tokens.push_back((k * 31 + i * 8009) % 6000);
    passages.push_back(p);
  }
  const auto best = [&](double head) {
    const auto found =
        search_vocab(passages, 100000, {}, [&](int size) { return 0.02 + head * size / 100000; });
    return found.sizes[found.best].size;
  };
  EXPECT_EQ(best(0.1), 8192);
  EXPECT_GT(best(0), best(3));
}

class CalibrateModel : public ::testing::Test {
 protected:
  static constexpr const char* kPath = ANABRANCH_SOURCE_DIR "/tests/models/data/qwen35_flat_tied/model";

  void SetUp() override {
    auto checkpoint = Checkpoint::open(kPath);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    auto model = Model::load(**checkpoint, ops::cpu_device());
    ASSERT_TRUE(model.ok()) << model.error().message;
    model_ = std::move(*model);
    const int vocab = model_->spec().vocab;
    for (int i = 0; i < 3; i++) {
      Passage p;
      for (int k = 0; k < 150 + 10 * i; k++) p.tokens.push_back((k * k * 13 + k * (i + 3)) % vocab);
      p.first = 20 + i;
      passages_.push_back(p);
    }
  }

  std::unique_ptr<Model> model_;
  std::vector<Passage> passages_;
};

TEST_F(CalibrateModel, MeasuresWhatPlainPassesSay) {
  const auto full = measure_text(*model_, passages_, true);
  size_t at = 0;
  double sum = 0;
  for (const auto& p : passages_) {
    auto state = model_->make_state();
    for (size_t i = 0; i + 1 < p.tokens.size(); i++) {
      Batch batch;
      batch.add(state, {&p.tokens[i], 1}, Batch::Logits::all);
      const auto logits = to_host(model_->forward(batch).logits);
      if (static_cast<int>(i) + 1 < p.first) continue;
      const float* row = logits.data<float>();
      const float* end = row + logits.size();
      EXPECT_EQ(full.best.at(at++), std::max_element(row, end) - row);
      double total = 0;
      for (const float* x = row; x < end; x++) total += std::exp(static_cast<double>(*x));
      sum += std::log(total) - row[p.tokens[i + 1]];
    }
  }
  EXPECT_EQ(at, full.best.size());
  EXPECT_NEAR(full.perplexity, std::exp(sum / static_cast<double>(at)), 1e-2);
  ASSERT_EQ(full.exit_agreement.size(), model_->spec().layers.size());
  EXPECT_EQ(full.exit_agreement.back(), 1) << "after all layers it is the model itself";
  EXPECT_LT(full.exit_agreement.front(), 1);
}

TEST_F(CalibrateModel, DraftsAgreeWithExitsAndLeaveTheStatesAlone) {
  const auto full = measure_text(*model_, passages_, true);
  DraftAgreement drafts(*model_, passages_, full);
  EXPECT_GT(drafts.tokens(), 100);
  std::vector<int> all(model_->spec().layers.size());
  std::iota(all.begin(), all.end(), 0);
  const std::vector<int> half(all.begin(), all.begin() + all.size() / 2);
  const double before = drafts.agreement(half);
  EXPECT_EQ(drafts.agreement(all), 1);
  EXPECT_EQ(drafts.agreement(half), before);
  EXPECT_LT(before, 1);
}

TEST_F(CalibrateModel, DraftVocabularyCanBeChangedLater) {
  std::vector<int> every_third;
  for (int id = 0; id < model_->spec().vocab; id += 3) every_third.push_back(id);
  const auto checkpoint = Checkpoint::open(kPath);
  ASSERT_TRUE(model_->set_draft_vocab(**checkpoint, every_third).ok());
  EXPECT_EQ(model_->draft_vocab(), every_third);
  const auto full = measure_text(*model_, {passages_.data(), 1}, true);
  const auto in = std::count_if(full.best.begin(), full.best.end(), [](int id) { return id % 3 == 0; });
  EXPECT_DOUBLE_EQ(full.exit_agreement.back(),
                   static_cast<double>(in) / static_cast<double>(full.best.size()));
}

TEST_F(CalibrateModel, LayersLeftOutForGoodMakeAnotherModel) {
  const auto full = measure_text(*model_, passages_, false);
  EXPECT_TRUE(full.exit_agreement.empty());
  EXPECT_EQ(agreement_of(full, full), 1);
  model_->drop_layers(std::vector<int>{1});
  const auto lossy = measure_text(*model_, passages_, false);
  EXPECT_LT(agreement_of(full, lossy), 1);
  EXPECT_NE(full.perplexity, lossy.perplexity);
  // States of what is left can take drafts.
  EXPECT_EQ(model_->spec().layers.size(), model_->state_layout().size());
  auto state = model_->make_state();
  state.open();
  Batch batch;
  batch.add(state, {passages_[0].tokens.data(), 4}, Batch::Logits::none);
  to_host(model_->forward(batch).hidden);
  state.commit(3);
  EXPECT_EQ(state.length(), 3);
}

}  // namespace
}  // namespace anabranch
