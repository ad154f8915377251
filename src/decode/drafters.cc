#include "decode/drafters.h"

#include "base/check.h"
#include "decode/sampler.h"
#include "decode/speculation.h"

namespace anabranch {
namespace {

// Drafts drawn one after the other, each with those before it in the sequence's history.
class Drafts {
 public:
  explicit Drafts(const DraftRequest& request) : request_(request) {}
  ~Drafts() {
    for (int i = 0; i < size(); i++) request_.history.pop();
  }
  Drafts(const Drafts&) = delete;
  Drafts& operator=(const Drafts&) = delete;

  // Draws the next one by the last row of hidden [n, H].
  void draw(const Model& model, const mx::array& hidden) {
    const int rows = hidden.shape(0);
    const auto logits = ops::to_host(model.draft_logits(ops::slice_rows(hidden, rows - 1, rows)));
    tokens_.push_back(sample({logits.data<float>(), logits.size()}, request_.sampling, request_.history,
                             request_.tokens.size() + tokens_.size(), model.draft_vocab()));
    request_.history.push(tokens_.back());
  }

  int size() const { return static_cast<int>(tokens_.size()); }
  bool enough() const { return size() == request_.count; }
  std::span<const int> last() const { return {&tokens_.back(), 1}; }
  const std::vector<int>& tokens() const { return tokens_; }

 private:
  const DraftRequest& request_;
  std::vector<int> tokens_;
};

// A trial that leaves nothing.
class Trial {
 public:
  explicit Trial(SequenceState& state) : state_(state) { state_.open(); }
  ~Trial() { state_.commit(0); }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

 private:
  SequenceState& state_;
};

class MtpDrafter final : public Drafter {
 public:
  explicit MtpDrafter(const Model& model)
      : model_(model), state_(model.mtp_layout()), last_(ops::zeros({1, model.spec().hidden}, mx::float32)) {}

  void applied(const mx::array& hidden, std::span<const int> tokens) override {
    const int count = hidden.shape(0);
    if (count == 0) return;
    last_ = ops::slice_rows(hidden, count - 1, count);
    for (int done = 0; done < count;) {
      const int n = std::min(count - done, kCapacity - waiting_count_);
      waiting_.push_back(ops::slice_rows(hidden, done, done + n));
      waiting_count_ += n;
      done += n;
      if (waiting_count_ == kCapacity) catch_up(tokens, 1);  // the last one's output is a draft's beginning
    }
  }

  void prepare(std::span<const int> tokens) override {
    if (waiting_count_ > kMaxTrial) catch_up(tokens, 1);
  }

  void resume(int length, const MtpSnapshot* saved) override {
    if (!saved) {
      skipped_ = length;
      return;
    }
    state_.restore(saved->state);
    applied(ops::to_device(saved->hidden), {});
  }

  std::optional<MtpSnapshot> save(std::span<const int> tokens) override {
    const int length = static_cast<int>(tokens.size());
    if (skipped_ > 0 || next_pair() + waiting_count_ < length || length == 0) return std::nullopt;
    catch_up(tokens);
    Snapshot snapshot = state_.snapshot();
    // A pair with the token after these, sampled already, is not theirs.
    for (auto& layer : snapshot.layers) ops::kv_truncate(std::get<ops::PagedKv>(layer), length - 1);
    snapshot.length = length - 1;
    return MtpSnapshot{std::move(snapshot), ops::take_rows(last_, std::vector<int>{0})};
  }

  std::vector<int> propose(const DraftRequest& request) override {
    auto hidden = catch_up(request.tokens);
    if (!hidden || waiting_count_ > 0 || request.count == 0) return {};
    Drafts drafts(request);
    const Trial trial(state_);  // pairs with hidden states of its own making
    for (;;) {
      drafts.draw(model_, *hidden);
      if (drafts.enough()) return drafts.tokens();
      hidden = pair(ops::slice_rows(*hidden, hidden->shape(0) - 1, hidden->shape(0)), drafts.last());
    }
  }

 private:
  static constexpr int kCapacity = 256;

  // The position whose hidden state waits first.
  int next_pair() const { return skipped_ + state_.length(); }

  mx::array pair(const mx::array& hidden, std::span<const int> next) {
    Batch batch;
    batch.add(state_, next, Batch::Logits::none);
    return model_.mtp(hidden, batch);
  }

  // Applies the waiting pairs whose second token is known, but for the last `keep`; their output, if any.
  std::optional<mx::array> catch_up(std::span<const int> tokens, int keep = 0) {
    const int known = std::min<int>(waiting_count_ - keep, static_cast<int>(tokens.size()) - 1 - next_pair());
    if (known <= 0) return std::nullopt;
    const auto next = tokens.subspan(next_pair() + 1, known);
    const auto rows = ops::concat_rows(waiting_);
    auto out = pair(ops::slice_rows(rows, 0, known), next);
    waiting_count_ -= known;
    waiting_.clear();
    if (waiting_count_ > 0) waiting_.push_back(ops::slice_rows(rows, known, known + waiting_count_));
    return out;
  }

  const Model& model_;
  SequenceState state_;             // pairs applied
  std::vector<mx::array> waiting_;  // hidden states of the positions from next_pair() on, [n_i, hidden]
  mx::array last_;                  // of the last position applied, [1, hidden]
  int waiting_count_ = 0;           // rows of waiting_
  int skipped_ = 0;  // positions before the first pair, of which nothing is known: drafts lack that context
};

class ModelDrafter final : public Drafter {
 public:
  explicit ModelDrafter(const Model& model) : model_(model), state_(model.make_state()) {}

  bool can_draft(size_t tokens) const override {
    return tokens + kMaxDraft <= static_cast<size_t>(model_.spec().context_length);
  }

  // Reads the last part only of what the full model need not read.
  void resume(int length, const MtpSnapshot*) override {
    applied_ = length;
    skipped_ = std::max(0, length / kChunk - 1) * kChunk;
  }

  void prepare(std::span<const int> tokens) override {
    if (static_cast<int>(tokens.size()) - next() > kMaxTrial) catch_up(tokens.first(tokens.size() - 1));
  }

  std::vector<int> propose(const DraftRequest& request) override {
    const auto& tokens = request.tokens;
    if (request.count == 0 || !can_draft(tokens.size())) return {};
    Drafts drafts(request);
    auto hidden = catch_up(tokens);
    state_.open();
    for (;;) {
      drafts.draw(model_, hidden);
      if (drafts.enough()) return drafts.tokens();
      hidden = apply(drafts.last());
    }
  }

  // Keeps up with long prompts and long stretches without drafts, so that no draft has to read it all.
  void applied(const mx::array& hidden, std::span<const int> tokens) override {
    applied_ += hidden.shape(0);
    while (!state_.on_trial() && can_draft(static_cast<size_t>(applied_)) && applied_ - next() >= kChunk)
      apply(tokens.subspan(next(), kChunk - next() % kChunk));
  }

  void observe(int accepted) override {
    if (state_.on_trial()) state_.commit(std::min(accepted, state_.applied() - state_.length()));
  }

 private:
  static constexpr int kChunk = 256;

  int next() const { return skipped_ + state_.length(); }  // the first token not applied

  mx::array apply(std::span<const int> tokens) {
    Batch batch;
    batch.add(state_, tokens, Batch::Logits::none);
    return model_.forward(batch).hidden;
  }

  // Applies what of the sequence this model has not seen; hidden states of the last part.
  mx::array catch_up(std::span<const int> tokens) {
    observe(0);
    for (;;) {
      const int at = next(), left = static_cast<int>(tokens.size()) - at;
      CHECK(left > 0, "the draft model is ahead of its sequence");
      const int n = std::min(left, kChunk - at % kChunk);
      auto hidden = apply(tokens.subspan(at, n));
      if (n == left) return hidden;
    }
  }

  const Model& model_;
  SequenceState state_;
  int applied_ = 0;  // tokens that the full model has seen
  int skipped_ = 0;  // that this model never sees: its drafts lack that context
};

class LayersDrafter final : public Drafter {
 public:
  LayersDrafter(const Model& model, std::vector<int> layers) : model_(model), layers_(std::move(layers)) {}

  std::vector<int> propose(const DraftRequest& request) override {
    if (request.count == 0) return {};
    Drafts drafts(request);
    SequenceState& state = request.state;
    const Trial trial(state);
    auto last = request.tokens.last(1);
    do {
      Batch batch;
      batch.add(state, last, Batch::Logits::none);
      drafts.draw(model_, model_.forward_some(batch, layers_));
      last = drafts.last();
    } while (!drafts.enough());
    return drafts.tokens();
  }

 private:
  const Model& model_;
  std::vector<int> layers_;
};

}  // namespace

std::unique_ptr<Drafter> make_mtp_drafter(const Model& model) {
  return std::make_unique<MtpDrafter>(model);
}
std::unique_ptr<Drafter> make_model_drafter(const Model& draft) {
  return std::make_unique<ModelDrafter>(draft);
}
std::unique_ptr<Drafter> make_layers_drafter(const Model& model, std::vector<int> layers) {
  return std::make_unique<LayersDrafter>(model, std::move(layers));
}

}  // namespace anabranch
