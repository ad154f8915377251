#include "decode/drafters.h"

#include <cstring>

#include "base/check.h"
#include "decode/sampler.h"

namespace anabranch {
namespace {

// The token at `position` by the last row of hidden [n, H].
int draw(const Model& model, const mx::array& hidden, const SamplingParams& sampling, size_t position) {
  const int rows = hidden.shape(0);
  auto logits = model.draft_logits(ops::slice_rows(hidden, rows - 1, rows));
  logits.eval();
  return sample({logits.data<float>(), logits.size()}, sampling, position, model.draft_vocab());
}

class MtpDrafter final : public Drafter {
 public:
  explicit MtpDrafter(const Model& model)
      : model_(model),
        state_(model.mtp_layout()),
        waiting_(ops::empty({kCapacity, model.spec().hidden}, mx::float32)) {}

  void applied(const mx::array& hidden, std::span<const int> tokens) override {
    mx::array rows = hidden;
    rows.eval();
    const int count = rows.shape(0);
    for (int done = 0; done < count;) {
      const int n = std::min(count - done, kCapacity - waiting_count_);
      std::memcpy(row(waiting_count_), rows.data<float>() + static_cast<size_t>(done) * width(),
                  sizeof(float) * static_cast<size_t>(n) * width());
      waiting_count_ += n;
      done += n;
      if (waiting_count_ == kCapacity) catch_up(tokens, 1);  // the last one's output is a draft's beginning
    }
  }

  std::vector<int> propose(const DraftRequest& request) override {
    std::vector<int> drafts;
    auto hidden = catch_up(request.tokens);
    if (!hidden || waiting_count_ > 0 || request.count == 0) return drafts;
    state_.open();
    for (;;) {
      drafts.push_back(draw(model_, *hidden, request.sampling, request.tokens.size() + drafts.size()));
      if (static_cast<int>(drafts.size()) == request.count) break;
      hidden = pair(ops::slice_rows(*hidden, hidden->shape(0) - 1, hidden->shape(0)), {&drafts.back(), 1});
    }
    state_.commit(0);  // pairs with hidden states of its own making
    return drafts;
  }

 private:
  static constexpr int kCapacity = 256;

  int width() const { return waiting_.shape(1); }
  float* row(int i) { return waiting_.data<float>() + static_cast<size_t>(i) * width(); }

  mx::array pair(const mx::array& hidden, std::span<const int> next) {
    Batch batch;
    batch.add(state_, next, Batch::Logits::none);
    return model_.mtp(hidden, batch);
  }

  // Applies the waiting pairs whose second token is known, but for the last `keep`; their output, if any.
  std::optional<mx::array> catch_up(std::span<const int> tokens, int keep = 0) {
    const int known =
        std::min<int>(waiting_count_ - keep, static_cast<int>(tokens.size()) - 1 - state_.length());
    if (known <= 0) return std::nullopt;
    const auto next = tokens.subspan(state_.length() + 1, known);
    auto out = pair(ops::slice_rows(waiting_, 0, known), next);
    out.eval();
    waiting_count_ -= known;
    std::memmove(row(0), row(known), sizeof(float) * static_cast<size_t>(waiting_count_) * width());
    return out;
  }

  const Model& model_;
  SequenceState state_;  // pairs applied
  mx::array waiting_;    // hidden states of the positions from state_.length() on
  int waiting_count_ = 0;
};

class ModelDrafter final : public Drafter {
 public:
  explicit ModelDrafter(const Model& model) : model_(model), state_(model.make_state()) {}

  std::vector<int> propose(const DraftRequest& request) override {
    std::vector<int> drafts;
    const auto& tokens = request.tokens;
    if (request.count == 0 || static_cast<int>(tokens.size()) + request.count > model_.spec().context_length)
      return drafts;
    auto hidden = catch_up(tokens);
    state_.open();
    for (;;) {
      drafts.push_back(draw(model_, hidden, request.sampling, tokens.size() + drafts.size()));
      if (static_cast<int>(drafts.size()) == request.count) return drafts;
      hidden = apply({&drafts.back(), 1});
    }
  }

  // Keeps up with long prompts and long stretches without drafts, so that no draft has to read it all.
  void applied(const mx::array& hidden, std::span<const int> tokens) override {
    applied_ += hidden.shape(0);
    while (!state_.on_trial() && applied_ - state_.length() >= kChunk)
      apply(tokens.subspan(state_.length(), kChunk - state_.length() % kChunk));
  }

  void observe(int accepted) override {
    if (state_.on_trial()) state_.commit(std::min(accepted, state_.applied() - state_.length()));
  }

 private:
  static constexpr int kChunk = 256;

  mx::array apply(std::span<const int> tokens) {
    Batch batch;
    batch.add(state_, tokens, Batch::Logits::none);
    return model_.forward(batch).hidden;
  }

  // Applies what of the sequence this model has not seen; hidden states of the last part.
  mx::array catch_up(std::span<const int> tokens) {
    observe(0);
    for (;;) {
      const int at = state_.length(), left = static_cast<int>(tokens.size()) - at;
      CHECK(left > 0, "the draft model is ahead of its sequence");
      const int n = std::min(left, kChunk - at % kChunk);
      auto hidden = apply(tokens.subspan(at, n));
      if (n == left) return hidden;
    }
  }

  const Model& model_;
  SequenceState state_;
  int applied_ = 0;  // tokens that the full model has seen
};

class LayersDrafter final : public Drafter {
 public:
  LayersDrafter(const Model& model, std::vector<int> layers) : model_(model), layers_(std::move(layers)) {}

  std::vector<int> propose(const DraftRequest& request) override {
    std::vector<int> drafts;
    if (request.count == 0) return drafts;
    SequenceState& state = request.state;
    state.open();
    int last = request.tokens.back();
    do {
      Batch batch;
      batch.add(state, {&last, 1}, Batch::Logits::none);
      const auto hidden = model_.forward_some(batch, layers_);
      last = draw(model_, hidden, request.sampling, request.tokens.size() + drafts.size());
      drafts.push_back(last);
    } while (static_cast<int>(drafts.size()) < request.count);
    state.commit(0);
    return drafts;
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
