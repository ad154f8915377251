// The MTP head against its definition, written out in double precision from the checkpoint's tensors, and its
// own keys and values in drafts and in chunks.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "models/model.h"
#include "ops/testing.h"
#include "state/state_bits.h"

namespace anabranch {
namespace {

using ops::to_vector;
using testing::same_state;

const std::string kModel = ANABRANCH_SOURCE_DIR "/tests/models/data/qwen35_nested_untied_grouped/model";
// Its config.json.
constexpr int kHidden = 32, kWide = 64, kHeads = 4, kKvHeads = 2, kDim = 32, kRotary = 8, kVocab = 263;
constexpr double kTheta = 100000, kEps = 1e-6;

using Vector = std::vector<double>;

class Tensors {
 public:
  Tensors() : checkpoint_(std::move(Checkpoint::open(kModel).value())) {}
  const std::vector<float>& operator[](const std::string& name) {
    auto& values = values_[name];
    if (values.empty()) values = to_vector(checkpoint_->take(name, checkpoint_->find(name)->shape).value());
    return values;
  }
  // W x, W [out, x.size()]
  Vector times(const std::string& name, const Vector& x) {
    const auto& w = (*this)[name + ".weight"];
    Vector y(w.size() / x.size());
    for (size_t i = 0; i < w.size(); i++) y[i / x.size()] += w[i] * x[i % x.size()];
    return y;
  }
  Vector normed(const std::string& name, const Vector& x) {
    const auto& w = (*this)[name + ".weight"];
    double sum = 0;
    for (const double v : x) sum += v * v;
    Vector y;
    for (size_t i = 0; i < x.size(); i++)
      y.push_back(x[i] / std::sqrt(sum / static_cast<double>(x.size()) + kEps) * (1 + w[i]));
    return y;
  }

 private:
  std::unique_ptr<Checkpoint> checkpoint_;
  std::map<std::string, std::vector<float>> values_;
};

Vector part(const Vector& x, int begin, int count) {
  return {x.begin() + begin, x.begin() + begin + count};
}
void add(Vector& x, const Vector& y) {
  for (size_t i = 0; i < x.size(); i++) x[i] += y[i];
}
double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

// The first kRotary dimensions turn, dimension i with i + kRotary / 2.
Vector turned(Vector x, int position) {
  for (int i = 0; i < kRotary / 2; i++) {
    const double angle = position * std::pow(kTheta, -2.0 * i / kRotary), a = x[i], b = x[i + kRotary / 2];
    x[i] = a * std::cos(angle) - b * std::sin(angle);
    x[i + kRotary / 2] = b * std::cos(angle) + a * std::sin(angle);
  }
  return x;
}

// One pair after the other.
class ByHand {
 public:
  Vector operator()(const Vector& hidden, int next) {
    const int position = static_cast<int>(keys_.size());
    const auto& table = t_["model.embed_tokens.weight"];
    const Vector embedding(table.begin() + next * kHidden, table.begin() + (next + 1) * kHidden);
    Vector both = t_.normed("mtp.pre_fc_norm_embedding", embedding);
    const Vector second = t_.normed("mtp.pre_fc_norm_hidden", hidden);
    both.insert(both.end(), second.begin(), second.end());
    Vector x = t_.times("mtp.fc", both);
    const std::string p = "mtp.layers.0.";
    add(x, attention(p + "self_attn.", t_.normed(p + "input_layernorm", x), position));
    const Vector in = t_.normed(p + "post_attention_layernorm", x);
    Vector gate = t_.times(p + "mlp.gate_proj", in), up = t_.times(p + "mlp.up_proj", in);
    for (int i = 0; i < kWide; i++) up[i] *= gate[i] * sigmoid(gate[i]);
    add(x, t_.times(p + "mlp.down_proj", up));
    return t_.normed("mtp.norm", x);
  }
  Vector logits(const Vector& hidden) { return t_.times("lm_head", hidden); }

 private:
  Vector attention(const std::string& p, const Vector& x, int position) {
    const Vector q = t_.times(p + "q_proj", x), k = t_.times(p + "k_proj", x);  // q: [query | gate] by head
    Vector keys;
    for (int h = 0; h < kKvHeads; h++) {
      const Vector head = turned(t_.normed(p + "k_norm", part(k, h * kDim, kDim)), position);
      keys.insert(keys.end(), head.begin(), head.end());
    }
    keys_.push_back(keys);
    values_.push_back(t_.times(p + "v_proj", x));
    Vector out;
    for (int h = 0; h < kHeads; h++) {
      const Vector query = turned(t_.normed(p + "q_norm", part(q, 2 * h * kDim, kDim)), position);
      const int from = h / (kHeads / kKvHeads) * kDim;
      Vector mixed(kDim);
      double sum = 0;
      for (int j = 0; j <= position; j++) {
        double score = 0;
        for (int i = 0; i < kDim; i++) score += query[i] * keys_[j][from + i];
        const double weight = std::exp(score / std::sqrt(kDim));
        sum += weight;
        for (int i = 0; i < kDim; i++) mixed[i] += weight * values_[j][from + i];
      }
      for (int i = 0; i < kDim; i++) out.push_back(mixed[i] / sum * sigmoid(q[(2 * h + 1) * kDim + i]));
    }
    return t_.times(p + "o_proj", out);
  }

  Tensors t_;
  std::vector<Vector> keys_, values_;
};

class Mtp : public ::testing::Test {
 protected:
  void load(Device& device) {
    auto checkpoint = Checkpoint::open(kModel);
    ASSERT_TRUE(checkpoint.ok());
    auto model = Model::load(**checkpoint, device);
    ASSERT_TRUE(model.ok()) << model.error().message;
    model_ = std::move(*model);
    ASSERT_TRUE(model_->has_mtp());
  }
  // The trunk's hidden states of `tokens`.
  Tensor hidden_of(std::span<const int> tokens) {
    auto state = model_->make_state();
    Batch batch;
    batch.add(state, tokens, Batch::Logits::none);
    return model_->forward(batch).hidden;
  }
  Tensor pair(SequenceState& state, const Tensor& hidden, std::span<const int> next) {
    Batch batch;
    batch.add(state, next, Batch::Logits::none);
    return model_->mtp(hidden, batch);
  }
  std::vector<int> random_tokens(int n) {
    ops::Random random(5);
    std::vector<int> out;
    for (int i = 0; i < n; i++) out.push_back(random.below(kVocab));
    return out;
  }
  std::unique_ptr<Model> model_;
};

// fp32 against double: sums of up to 128 products of size 1, a dozen in a row, each product rounded: some
// 1e-5 at worst of hidden states of size 1 to 3, and logits of as many.
constexpr double kTolerance = 1e-4;

TEST_F(Mtp, EqualsItsDefinition) {
  for (Device* device : {&ops::cpu_device(0, true), &ops::reference_device()}) {
    load(*device);
    const auto tokens = random_tokens(41);
    const std::span<const int> known(tokens);
    const auto hidden = hidden_of(known.first(40));
    SequenceState state(model_->device(), model_->mtp_layout());
    const auto got = pair(state, hidden, known.subspan(1, 40));
    const auto logits = to_vector(model_->draft_logits(got)), rows = to_vector(got), in = to_vector(hidden);
    ByHand by_hand;
    Vector want;
    for (int i = 0; i < 40; i++) {
      want = by_hand(Vector(in.begin() + i * kHidden, in.begin() + (i + 1) * kHidden), tokens[i + 1]);
      for (int j = 0; j < kHidden; j++) ASSERT_NEAR(rows[i * kHidden + j], want[j], kTolerance) << i;
      const auto scores = by_hand.logits(want);
      for (int j = 0; j < kVocab; j++) ASSERT_NEAR(logits[i * kVocab + j], scores[j], kTolerance) << i;
    }
    // Chained: its own output in place of the trunk's hidden state.
    state.open();
    auto last = got.slice_rows(39, 40);
    for (const int next : {7, 200, 31}) {
      last = pair(state, last, {&next, 1});
      want = by_hand(want, next);
      const auto row = to_vector(last);
      for (int j = 0; j < kHidden; j++) ASSERT_NEAR(row[j], want[j], kTolerance) << "chained " << next;
    }
  }
}

TEST_F(Mtp, PairsMayComeInAnyChunksAndDraftsLeaveNothing) {
  for (const bool precise : {false, true}) {
    load(ops::cpu_device(0, precise));
    const auto tokens = random_tokens(301);
    const std::span<const int> known(tokens);
    const auto hidden = hidden_of(known.first(300));
    SequenceState whole(model_->device(), model_->mtp_layout()),
        pieces(model_->device(), model_->mtp_layout());
    const auto want = to_vector(pair(whole, hidden, known.subspan(1)));
    std::vector<float> got;
    for (int at = 0, n = 1; at < 300; at += n, n = std::min(300 - at, n % 13 + 1)) {
      // A draft of some tokens before each piece; near 256 it begins a block.
      pieces.open();
      pair(pieces, hidden.slice_rows(0, 1 + n % 7), known.first(1 + n % 7));
      pieces.commit(0);
      const auto rows = to_vector(pair(pieces, hidden.slice_rows(at, at + n), known.subspan(at + 1, n)));
      got.insert(got.end(), rows.begin(), rows.end());
    }
    EXPECT_TRUE(ops::bits_agree(got, want)) << "precise " << precise;
    EXPECT_TRUE(same_state(pieces.snapshot(), whole.snapshot()));
  }
}

}  // namespace
}  // namespace anabranch
