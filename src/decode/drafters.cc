#include "decode/drafters.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <stdexcept>

#include "base/check.h"
#include "decode/sampler.h"
#include "decode/speculation.h"

namespace anabranch {
namespace {

// Concatenates the rows, [sum of counts, hidden]. Consecutive rows of the same tensor are taken by one op.
Tensor gather(std::span<const HiddenRows> wanted) {
  std::vector<Tensor> parts;
  for (size_t i = 0; i < wanted.size();) {
    std::vector<int> rows;
    const size_t first = i;
    for (; i < wanted.size() && wanted[i].rows.is_same(wanted[first].rows); i++)
      for (int row = 0; row < wanted[i].count; row++) rows.push_back(wanted[i].begin + row);
    parts.push_back(ops::take_rows(wanted[first].rows, rows));
  }
  return ops::concat_rows(parts);
}

// Draws the next token of each draft: logits [works, draft vocabulary]. A row that is not numbers fails its
// own draft only.
void draw_next(std::span<DraftWork* const> works, const Model& model, const Tensor& logits) {
  const auto& ids = model.draft_vocab();
  const auto take = [](DraftWork& work, const Drawn& drawn) {
    work.tokens.push_back(drawn.token);
    work.request.history.push(drawn.token, drawn.mu);
  };
  const bool best_only = std::all_of(works.begin(), works.end(), [](const DraftWork* work) {
    return work->request.sampling.greedy() && !work->request.sampling.changes_logits();
  });
  if (best_only) {
    const std::vector<int> best = ops::best_of_rows(logits);
    for (size_t i = 0; i < works.size(); i++) {
      if (best[i] >= 0)
        take(*works[i], {ids.empty() ? best[i] : ids[static_cast<size_t>(best[i])]});
      else
        works[i]->failure =
            std::make_exception_ptr(std::runtime_error("the drafter produced logits that are not numbers"));
    }
    return;
  }
  const Tensor host = to_host(logits);
  const auto width = static_cast<size_t>(host.shape(1));
  const auto draw_one = [&](size_t i) {
    DraftWork& work = *works[i];
    try {
      take(work, draw({host.data<float>() + i * width, width}, work.request.sampling, work.request.history,
                      work.request.tokens.size() + work.tokens.size(), ids));
    } catch (...) {
      work.failure = std::current_exception();
    }
  };
  model.device().threads().parallel_for(static_cast<int64_t>(works.size()), 1,
                                        [&](int64_t begin, int64_t end) {
                                          for (int64_t i = begin; i < end; i++)
                                            draw_one(static_cast<size_t>(i));
                                        });
}

// The last row of each span.
std::vector<int> last_rows(const Batch& batch) {
  std::vector<int> rows;
  for (const Span& span : batch.spans) rows.push_back(span.begin + span.count - 1);
  return rows;
}

class MtpDrafter final : public Drafter {
 public:
  MtpDrafter(const Model& model, const PromptImages* images)
      : model_(model),
        images_(images),
        state_(model.device(), model.mtp_layout()),
        last_{model.device().zeros({1, model.spec().hidden}, Dtype::f32)} {}

  void applied(const HiddenRows& hidden, std::span<const int> tokens, bool parked) override {
    if (hidden.count == 0) return;
    const int excess = hidden.count + waiting_count_ - kParkedCapacity;
    int done = parked && excess > 0 ? forget(excess) : 0;
    while (done < hidden.count) {
      const int n = std::min(hidden.count - done, kCapacity - waiting_count_);
      wait({hidden.rows, hidden.begin + done, n});
      done += n;
      if (waiting_count_ == kCapacity) catch_up(tokens, 1);  // the next draft starts with the last pair
    }
    last_ = waiting_count_ > 0 ? waiting_.back() : hidden;
    last_.begin += last_.count - 1;
    last_.count = 1;
  }

  void prepare(std::span<const int> tokens) override {
    if (waiting_count_ > kParkedCapacity) catch_up(tokens, 1);
  }

  void resume(int length, const MtpSnapshot* saved) override {
    if (!saved) {
      skipped_ = length;
      return;
    }
    state_.restore(saved->state);
    applied({model_.device().to_device(saved->hidden), 0, 1}, {}, false);
  }

  std::optional<MtpSnapshot> save(std::span<const int> tokens) override {
    const int length = static_cast<int>(tokens.size());
    if (skipped_ > 0 || next_pair() + waiting_count_ < length || length == 0) return std::nullopt;
    catch_up(tokens);
    Snapshot snapshot = state_.snapshot();
    // The next token may be sampled already. The pair with it does not belong to `tokens`.
    for (auto& layer : snapshot.layers) ops::kv_truncate(std::get<ops::PagedKv>(layer), length - 1);
    snapshot.length = length - 1;
    return MtpSnapshot{std::move(snapshot), gather({&last_, 1})};
  }

  bool begin(const DraftRequest& request, DraftPass& pass) override {
    if (waiting_count_ == 0 || next_pair() + waiting_count_ >= static_cast<int>(request.tokens.size()))
      return false;
    add_waiting(request.tokens, waiting_count_, pass);
    return true;
  }

  // Pairs with the head's own hidden states are added as draft tokens, which finish() removes.
  void extend(int token, const HiddenRows& hidden, DraftPass& pass) override {
    if (!state_.has_draft_tokens()) state_.open();
    pass.batch.add(state_, {&token, 1}, Batch::Logits::none);
    pass.hidden.push_back(hidden);
  }

  void finish() override {
    if (state_.has_draft_tokens()) state_.commit(0);
  }

  Tensor run(const DraftPass& pass) const override { return model_.mtp(gather(pass.hidden), pass.batch); }
  const Model& model() const override { return model_; }

 private:
  static constexpr int kCapacity = 256, kParkedCapacity = 32;  // rows that wait at most
  // Waiting rows are copied if their step has more than this many times their number.
  static constexpr int kLargerStep = 4;

  // The position of the first waiting hidden state.
  int next_pair() const { return skipped_ + state_.length(); }

  static HiddenRows copy_of(const HiddenRows& rows) {
    return {ops::copy_rows(rows.rows, rows.begin, rows.begin + rows.count), 0, rows.count};
  }

  // Waiting rows keep the tensor of their whole step alive. Rows of a long prompt are copied at once; rows of
  // a smaller step are copied when they wait for a second round, so that drafting in every round copies
  // nothing.
  void wait(HiddenRows rows) {
    if (!waiting_.empty()) {
      HiddenRows& last = waiting_.back();
      if (!last.rows.is_same(rows.rows) && last.rows.shape(0) > kLargerStep * last.count)
        last = copy_of(last);
    }
    if (rows.rows.shape(0) > kCapacity) rows = copy_of(rows);
    waiting_count_ += rows.count;
    waiting_.push_back(std::move(rows));
  }

  // Skips the next `positions` pairs and forgets all earlier ones; drafts lack that context. Returns how many
  // of these positions were not waiting.
  int forget(int positions) {
    skipped_ = next_pair() + positions;
    if (state_.length() > 0) state_ = SequenceState(model_.device(), model_.mtp_layout());
    const int waiting = std::min(positions, waiting_count_);
    take_waiting(waiting);
    return positions - waiting;
  }

  // Removes the first `count` waiting rows and returns them.
  std::vector<HiddenRows> take_waiting(int count) {
    std::vector<HiddenRows> out;
    waiting_count_ -= count;
    while (count > 0) {
      HiddenRows& front = waiting_.front();
      out.push_back(front);
      const int n = out.back().count = std::min(front.count, count);
      front.begin += n;
      front.count -= n;
      count -= n;
      if (front.count == 0) waiting_.pop_front();
    }
    return out;
  }

  // Moves the first `pairs` waiting rows into the pass, with the tokens after them.
  void add_waiting(std::span<const int> tokens, int pairs, DraftPass& pass) {
    const auto next = tokens.subspan(static_cast<size_t>(next_pair()) + 1, static_cast<size_t>(pairs));
    pass.batch.add_behind(state_, next, images_, skipped_ + 1);
    for (HiddenRows& rows : take_waiting(pairs)) pass.hidden.push_back(std::move(rows));
  }

  // Applies the waiting pairs whose second token is known, except the last `keep`.
  void catch_up(std::span<const int> tokens, int keep = 0) {
    const int known = std::min<int>(waiting_count_ - keep, static_cast<int>(tokens.size()) - 1 - next_pair());
    if (known <= 0) return;
    DraftPass pass;
    add_waiting(tokens, known, pass);
    run(pass);
  }

  const Model& model_;
  const PromptImages* images_;
  SequenceState state_;             // pairs applied
  std::deque<HiddenRows> waiting_;  // of the positions from next_pair() on
  HiddenRows last_;                 // of the last position applied
  int waiting_count_ = 0;           // rows of waiting_
  int skipped_ = 0;                 // positions before the first pair; drafts lack that context
};

class ModelDrafter final : public Drafter {
 public:
  explicit ModelDrafter(const Model& model) : model_(model), state_(model.make_state()) {}

  bool can_draft(size_t tokens) const override {
    return tokens + kMaxDraft <= static_cast<size_t>(model_.spec().context_length);
  }

  // Reads only the last part of the tokens whose state came from the cache.
  void resume(int length, const MtpSnapshot*) override {
    applied_ = length;
    skip_to(length);
  }

  void prepare(std::span<const int> tokens) override {
    observe(0);
    const int last = static_cast<int>(tokens.size()) - 1;
    while (last - next() >= kMaxDraftTokens) {
      const int n = std::min(last - next(), kChunk - next() % kChunk);
      DraftPass pass;
      pass.batch.add(state_, tokens.subspan(static_cast<size_t>(next()), static_cast<size_t>(n)),
                     Batch::Logits::none);
      run(pass);
    }
  }

  bool begin(const DraftRequest& request, DraftPass& pass) override {
    if (!can_draft(request.tokens.size())) return false;
    prepare(request.tokens);
    const auto unseen = request.tokens.subspan(static_cast<size_t>(next()));
    CHECK(!unseen.empty(), "the draft model is ahead of its sequence");
    pass.batch.add(state_, unseen, Batch::Logits::none);
    return true;
  }

  void extend(int token, const HiddenRows&, DraftPass& pass) override {
    if (!state_.has_draft_tokens()) state_.open();
    pass.batch.add(state_, {&token, 1}, Batch::Logits::none);
  }

  Tensor run(const DraftPass& pass) const override { return model_.forward(pass.batch).hidden; }
  const Model& model() const override { return model_; }

  // Keeps up during long prompts and long stretches without drafts, so that no draft has to read all of it.
  void applied(const HiddenRows& hidden, std::span<const int> tokens, bool parked) override {
    applied_ += hidden.count;
    if (state_.has_draft_tokens() || !can_draft(static_cast<size_t>(applied_))) return;
    if (parked) {
      if (applied_ - next() >= 2 * kChunk) skip_to(applied_);
    } else if (applied_ - next() >= kChunk) {
      prepare(tokens.first(static_cast<size_t>(applied_ - applied_ % kChunk)));
    }
  }

  void observe(int accepted) override {
    if (state_.has_draft_tokens()) state_.commit(std::min(accepted, state_.applied() - state_.length()));
  }

 private:
  static constexpr int kChunk = 256;

  int next() const { return skipped_ + state_.length(); }  // the first token not applied

  // Forgets the tokens before `length` except the last part; drafts lack that context.
  void skip_to(int length) {
    skipped_ = std::max(0, length / kChunk - 1) * kChunk;
    if (state_.length() > 0) state_ = model_.make_state();
  }

  const Model& model_;
  SequenceState state_;
  int applied_ = 0;  // tokens that the full model has seen
  int skipped_ = 0;  // tokens at the start that this model never sees
};

class LayersDrafter final : public Drafter {
 public:
  LayersDrafter(const Model& model, std::vector<int> layers) : model_(model), layers_(std::move(layers)) {}

  bool begin(const DraftRequest& request, DraftPass& pass) override {
    state_ = &request.state;
    images_ = request.images;
    state_->open();
    pass.batch.add(*state_, request.tokens.last(1), Batch::Logits::none, nullptr, images_);
    return true;
  }

  void extend(int token, const HiddenRows&, DraftPass& pass) override {
    pass.batch.add(*state_, {&token, 1}, Batch::Logits::none, nullptr, images_);
  }

  void finish() override { state_->commit(0); }
  Tensor run(const DraftPass& pass) const override { return model_.forward_some(pass.batch, layers_); }
  const Model& model() const override { return model_; }

 private:
  const Model& model_;
  std::vector<int> layers_;
  SequenceState* state_ = nullptr;  // of the full model, during a draft
  const PromptImages* images_ = nullptr;
};

}  // namespace

void propose_together(std::span<DraftWork> works) {
  std::vector<DraftWork*> begun, open;
  // Finishes every draft that was begun, also after an exception.
  struct Finish {
    std::vector<DraftWork*>& works;
    ~Finish() {
      for (DraftWork* work : works) {
        for (size_t i = 0; i < work->tokens.size(); i++) work->request.history.pop();
        work->drafter->finish();
      }
    }
  } const finish{begun};
  DraftPass pass;
  for (DraftWork& work : works)
    if (work.request.count > 0 && work.drafter->begin(work.request, pass)) begun.push_back(&work);
  for (open = begun; !open.empty();) {
    const Drafter& any = *open.front()->drafter;
    const Tensor hidden = ops::take_rows(any.run(pass), last_rows(pass.batch));
    draw_next(open, any.model(), any.model().draft_logits(hidden));
    pass = {};
    std::vector<DraftWork*> further;
    for (size_t i = 0; i < open.size(); i++) {
      DraftWork& work = *open[i];
      if (work.failure || static_cast<int>(work.tokens.size()) == work.request.count) continue;
      work.drafter->extend(work.tokens.back(), {hidden, static_cast<int>(i), 1}, pass);
      further.push_back(&work);
    }
    open = std::move(further);
  }
}

std::unique_ptr<Drafter> make_mtp_drafter(const Model& model, const PromptImages* images) {
  return std::make_unique<MtpDrafter>(model, images);
}
std::unique_ptr<Drafter> make_model_drafter(const Model& draft) {
  return std::make_unique<ModelDrafter>(draft);
}
std::unique_ptr<Drafter> make_layers_drafter(const Model& model, std::vector<int> layers) {
  return std::make_unique<LayersDrafter>(model, std::move(layers));
}

}  // namespace anabranch
