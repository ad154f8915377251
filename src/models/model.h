// A loaded model: immutable weights and a forward pass. Made and used on the engine thread. model_load.cc
// loads it, model_bytes.h counts its bytes, model_adapters.h fits adapters to it.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "models/model_load.h"
#include "models/model_spec.h"
#include "models/output_head.h"
#include "models/ranks.h"
#include "nn/mtp.h"

namespace anabranch {

struct ModelWeights {
  ops::Weight embedding;  // [vocab, hidden]
  std::optional<nn::PerLayerInputs> per_layer_inputs;
  Ranks ranks;    // the layers, on the devices that share them
  nn::Norm norm;  // after the layers
  OutputHead head;
  std::optional<nn::Mtp> mtp = {};
  std::optional<nn::StreamMixer> mixer = {};  // in place of `norm`, where there are several streams
  std::optional<nn::Norm> embedding_norm = {};
};

class Model {
 public:
  Model(ModelSpec spec, ModelWeights weights);
  virtual ~Model() = default;
  // Picks the family by config.json's model_type. Every tensor of the checkpoint must be used by the family.
  // Errors: unsupported (a family or value that this program or the device cannot run), invalid (a tensor
  // missing, misshapen, left over). The device outlives the model.
  static Result<std::unique_ptr<Model>> load(Checkpoint& checkpoint, Device& device,
                                             const ModelLoadOptions& options = {});

  struct Output {
    Tensor hidden;  // [rows of the batch, hidden], after the final norm
    Tensor logits;  // [logit_rows, vocab] f32; [0, vocab] when none were asked for
  };
  // Applies each span's tokens to its state (committed, or as drafts) and returns hidden states and logits.
  // Throws on ids out of range. after_layer: also receives [rows, hidden] after each layer and the final
  // norm, from which draft_logits() computes the logits of an early exit; the last one is `hidden`.
  virtual Output forward(const Batch& batch, std::vector<Tensor>* after_layer = nullptr) const;

  // The same through only some layers (ascending): a draft of forward()'s result. Only for drafts; afterwards
  // the layers' states are invalid, so commit nothing. -> [rows, hidden].
  Tensor forward_some(const Batch& batch, std::span<const int> layers) const;

  // hidden [n, hidden], as forward() returns it -> logits [n, vocab] f32; over draft_vocab() (or the
  // vocabulary, when that is empty) [n, ...].
  Tensor logits(const Tensor& hidden) const { return weights_.head.logits(hidden, weights_.ranks); }
  Tensor draft_logits(const Tensor& hidden) const {
    return weights_.head.draft_logits(hidden, weights_.ranks);
  }
  const std::vector<int>& draft_vocab() const { return weights_.head.draft_vocab(); }
  // Changes the ids from which drafts are chosen (OutputHead::set_draft_vocab). checkpoint: the model's
  // files, opened again. Errors: see Checkpoint::take_matrix.
  Result<void> set_draft_vocab(Checkpoint& checkpoint, const std::vector<int>& vocab);

  // The checkpoint's multi-token-prediction head. Row i pairs `hidden` row i, a position's hidden state
  // (after the final norm, or returned by mtp()), with the token after that position. The batch's ids are
  // these tokens; its state was made from mtp_layout(). -> [n, hidden], whose logits predict the token after
  // that one. Reference: Qwen3.5's MTP module as vLLM and SGLang run it.
  bool has_mtp() const { return weights_.mtp.has_value(); }
  Tensor mtp(const Tensor& hidden, const Batch& batch) const;
  StateLayout mtp_layout() const;

  // Removes layers; those after them move up. Lossy: it is a different model then, and states made before do
  // not fit it.
  void drop_layers(std::span<const int> layers);
  // The checkpoint's modules of the layers that were removed.
  const std::set<std::string>& dropped_modules() const { return dropped_modules_; }
  // False if layers depend on others: they read their keys and values, or take per-layer inputs.
  bool can_skip_layers() const;

  Device& device() const { return weights_.ranks.device(); }
  const ModelSpec& spec() const { return spec_; }
  const ModelWeights& weights() const { return weights_; }
  int ranks() const { return weights_.ranks.count(); }

  SequenceState make_state() const { return SequenceState(part_devices_, layout_); }
  // The parts of a state. For a model that is split among devices: those of rank 0, then those of rank 1, ...
  const StateLayout& state_layout() const { return layout_; }
  const std::vector<Device*>& state_devices() const { return part_devices_; }  // of each part
  // The parts that are on each device.
  std::vector<StateLayout> device_layouts() const;

 private:
  Tensor run_layers(std::span<const int> layers, const Batch& batch, std::vector<Tensor>* after_layer) const;
  Tensor embed(const Batch& batch) const;
  // What comes between the layers and the head.
  Tensor finish(const Tensor& x) const { return weights_.mixer ? (*weights_.mixer)(x) : weights_.norm(x); }
  // x [rows, hidden] behind a layer -> with what the batch's images add there (ImageRows::deep).
  static Tensor add_deep(const Tensor& x, const Batch& batch, int layer);
  void lay_out_states();

  ModelSpec spec_;
  ModelWeights weights_;
  StateLayout layout_;
  std::vector<Device*> part_devices_;
  std::vector<int> parts_;  // for each layer: which part of its rank's states it uses
  std::set<std::string> dropped_modules_;
};

}  // namespace anabranch
