#include "models/kernel_passes.h"

#include <algorithm>

#include "ops/elementwise.h"

namespace anabranch {
namespace {

// Kernels differ by the number of rows that they process at once. These values lie on both sides of every
// known switch.
constexpr int kRows[] = {1,   2,   4,   5,   8,   9,   16,  17,  24,  25,  32,   33,
                         40,  48,  56,  64,  65,  72,  80,  88,  96,  104, 112,  120,
                         128, 129, 160, 192, 224, 256, 320, 384, 512, 700, 1024, 1536};
constexpr int kPromptChunks = 2;    // the second one has context
constexpr int kMostDrafting = 16;   // sequences that draft together
constexpr size_t kLogitRows = 128;  // more would take much memory, which pools would then keep

class Passes {
 public:
  explicit Passes(const Model& model, const nn::Adapter* adapter = nullptr)
      : model_(model), state_(model.make_state()) {
    if (adapter) state_.set_adapters({{adapter, 1.0f}});
  }

  void prompt() {
    for (int i = 0; i < kPromptChunks; i++)
      run({&state_}, model_.device().prefill_chunk(), Batch::Logits::last);
  }
  void rows() {
    for (const int n : kRows) run({&state_}, n, Batch::Logits::all);
    SequenceState other = state_;
    run({&state_, &other}, 1, Batch::Logits::all);
  }
  // Passes over drafts. The last pass applies the accepted token of the draft before it.
  void drafts() {
    for (const int n : kRows) {
      if (n > ops::kMaxDraftTokens) break;
      state_.open();
      run({&state_}, n, Batch::Logits::all);
      state_.commit(1);
    }
    run({&state_}, 1, Batch::Logits::all);
  }
  void draft_heads() {
    if (!model_.has_mtp()) return;
    SequenceState of_head(model_.device(), model_.mtp_layout());
    for (const int n : {model_.device().prefill_chunk(), 1, 2, 3, 4, 8, 16}) {
      const Tensor hidden = run({&state_}, n, Batch::Logits::none);
      Batch batch;
      batch.add(of_head, std::vector<int>(static_cast<size_t>(n)), Batch::Logits::none);
      const Tensor drafted = model_.mtp(hidden, batch);
      ops::best_of_rows(model_.draft_logits(drafted.slice_rows(0, std::min(n, kMostDrafting))));
    }
  }

 private:
  Tensor run(std::initializer_list<SequenceState*> states, int rows, Batch::Logits logits) {
    Batch batch;
    for (SequenceState* state : states)
      batch.add(*state, std::vector<int>(static_cast<size_t>(rows)), logits);
    if (batch.logit_rows.size() > kLogitRows) batch.logit_rows.resize(kLogitRows);
    const auto out = model_.forward(batch);
    if (logits != Batch::Logits::none) ops::best_of_rows(out.logits);
    return out.hidden;
  }

  const Model& model_;
  SequenceState state_;
};

}  // namespace

void prepare_kernels(const Model& model) {
  model.device().prepare_kernels([&] {
    Passes passes(model);
    passes.rows();
    passes.drafts();
    passes.draft_heads();
    passes.prompt();
  });
}

void prepare_kernels(const Model& model, const nn::Adapter& adapter) {
  model.device().prepare_kernels([&] {
    Passes passes(model, &adapter);
    passes.rows();
    passes.prompt();
  });
}

void prepare_kernels(const VisionTower& tower, const ImageProcessor& processor, Device& device) {
  constexpr int kBlocks[] = {1, 2, 4, 8, 12, 16, 32};  // on each side of an image
  const VisionSpec& spec = tower.spec();
  const auto encode = [&](int rows) {
    ProcessedImage blank;
    blank.rows = blank.columns = rows;
    blank.width = blank.height = rows * processor.patch;
    blank.rgb.resize(static_cast<size_t>(blank.width) * static_cast<size_t>(blank.height) * 3);
    const auto encoding = tower.begin(blank, processor);
    while (!encoding->step(1)) {
    }
  };
  device.prepare_kernels([&] {
    if (spec.family == VisionSpec::Family::gemma3) return encode(spec.table_side);
    for (const int blocks : kBlocks) encode(blocks * spec.merge);
  });
}

}  // namespace anabranch
