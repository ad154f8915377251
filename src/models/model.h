// A loaded model: immutable weights and a forward pass. Made and used on the engine thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "models/model_spec.h"
#include "nn/layers.h"

namespace anabranch {

class Model {
 public:
  // Picks the family by config.json's model_type. Every tensor of the checkpoint must be used by the family.
  // Errors: unsupported (a family or value this build cannot run), invalid (a tensor missing, misshapen, left
  // over). progress(done, total) is called per layer.
  static Result<std::unique_ptr<Model>> load(Checkpoint& checkpoint,
                                             const std::function<void(int, int)>& progress = {});

  struct Output {
    mx::array hidden;  // [rows of the batch, hidden], after the final norm
    mx::array logits;  // [logit_rows, vocab] f32; [0, vocab] when none were asked for
  };
  // Applies each span's tokens to its state and returns hidden states and logits. Throws on ids out of range.
  Output forward(const Batch& batch) const;

  SequenceState make_state() const { return SequenceState(layout_); }
  const ModelSpec& spec() const { return spec_; }
  const StateLayout& state_layout() const { return layout_; }
  bool has_mtp() const { return has_mtp_; }
  uint64_t parameters() const;
  uint64_t weight_bytes() const;  // all matrices
  uint64_t bytes_per_token()
      const;  // read by one decode step: the layers and the head, not the embedding table

 private:
  Model(ModelSpec spec, ops::Weight embedding, std::vector<nn::DecoderLayer> layers, nn::RmsNorm norm,
        ops::Weight head, bool has_mtp);

  ModelSpec spec_;
  StateLayout layout_;
  ops::Weight embedding_;  // [vocab, hidden]
  std::vector<nn::DecoderLayer> layers_;
  nn::RmsNorm norm_;
  ops::Weight head_;  // [vocab, hidden]; the embedding itself when tied
  bool has_mtp_;
};

}  // namespace anabranch
