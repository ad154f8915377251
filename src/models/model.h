// A loaded model: immutable weights and a forward pass. Made and used on the engine thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/adapter_file.h"
#include "checkpoint/checkpoint.h"
#include "models/model_spec.h"
#include "nn/mtp.h"

namespace anabranch {

struct ModelLoadOptions {
  // Token ids, ascending, from which drafts are chosen (only ids that the model has are used). The head's
  // rows for them are copied, so that a draft does not pay for the whole vocabulary. Null or empty: drafts
  // use the whole head. Called when the other weights are loaded.
  std::function<std::vector<int>()> draft_vocab;
  std::function<Result<void>(int done, int total)> progress;  // per layer; an error ends the loading
  // Called as soon as there is a layer of each kind, with a partial model of the layers loaded so far. It
  // only serves to find out which kernels the whole model will need: its head is the embedding. Not called
  // for models of few layers.
  std::function<void(const class Model& begun)> begun;
  bool split = true;  // split layers among the device's group, if it is in one
};

// The model that config.json describes, without its weights. Errors: unsupported (a family or value that this
// program or the device cannot run), invalid (a value is missing or wrong).
Result<ModelSpec> read_model_spec(const Checkpoint& checkpoint, const Device& device);

class Model {
 public:
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

  // hidden [n, hidden], as forward() returns it -> logits [n, vocab] f32.
  Tensor logits(const Tensor& hidden) const { return logits(hidden, head_); }
  // hidden [n, hidden] -> logits over draft_vocab() (or the vocabulary, when that is empty) [n, ...] f32.
  Tensor draft_logits(const Tensor& hidden) const;
  const std::vector<int>& draft_vocab() const { return draft_vocab_; }
  // Changes the ids from which drafts are chosen (see ModelLoadOptions::draft_vocab). checkpoint: the model's
  // files, opened again. Errors: see Checkpoint::take_matrix.
  Result<void> set_draft_vocab(Checkpoint& checkpoint, const std::vector<int>& vocab);

  // The checkpoint's multi-token-prediction head. Row i pairs `hidden` row i, a position's hidden state
  // (after the final norm, or returned by mtp()), with the token after that position. The batch's ids are
  // these tokens; its state was made from mtp_layout(). -> [n, hidden], whose logits predict the token after
  // that one. Reference: Qwen3.5's MTP module as vLLM and SGLang run it.
  bool has_mtp() const { return mtp_.has_value(); }
  Tensor mtp(const Tensor& hidden, const Batch& batch) const;
  StateLayout mtp_layout() const;

  // Whether an adapter fits. Errors: invalid (a module of another shape), unsupported (a module that adapters
  // cannot change, such as experts, or that the model does not have; layers on several devices).
  Result<void> check_adapter(const AdapterFile& file) const;
  // The linear layers that the file's modules change, by input: they go on the device together. Those that
  // were dropped are left out.
  std::vector<std::vector<const nn::Linear*>> adapted_inputs(const AdapterFile& file) const;
  // Puts the modules of an input's layers on the device, from a file that fits, for the states that the
  // adapter shall change (SequenceState::set_adapters).
  void add_to_adapter(nn::Adapter& adapter, const AdapterFile& file,
                      std::span<const nn::Linear* const> layers) const;

  // Removes layers; those after them move up. Lossy: it is a different model then, and states made before do
  // not fit it.
  void drop_layers(std::span<const int> layers);
  // False if layers depend on others: they read their keys and values, or take per-layer inputs.
  bool can_skip_layers() const;

  SequenceState make_state() const { return SequenceState(part_devices_, layout_); }
  Device& device() const { return *device_; }
  const ModelSpec& spec() const { return spec_; }
  // The parts of a state. For a model that is split among devices: those of rank 0, then those of rank 1, ...
  const StateLayout& state_layout() const { return layout_; }
  const std::vector<Device*>& state_devices() const { return part_devices_; }  // of each part
  int ranks() const { return static_cast<int>(others_.size()) + 1; }
  // The parts that are on each device.
  std::vector<StateLayout> device_layouts() const;
  uint64_t parameters() const;    // without the MTP head
  uint64_t weight_bytes() const;  // all matrices, including those for drafts
  // Bytes that one decode step reads (of a split model: on its first device): the layers and the head, not
  // the embedding table.
  uint64_t bytes_per_token() const;
  uint64_t layer_bytes_per_token() const;  // without the head
  // Bytes of all matrices, by part.
  struct PartBytes {
    std::vector<uint64_t> layers;
    uint64_t head = 0, mtp = 0;  // mtp: without a head of its own
    uint64_t embedding = 0;      // 0 when it is the head
    uint64_t draft_head = 0;     // copy of the head's rows draft_vocab()
    uint64_t copies = 0;         // of a split model: copies of matrices for few rows (own_inputs)
  };
  PartBytes part_bytes() const;

 protected:
  Model(Device& device, ModelSpec spec, ops::Weight embedding, std::vector<nn::DecoderLayer> layers,
        nn::RmsNorm norm, ops::Weight head);

 private:
  // Another device of the group, with its share of each layer if layers are split.
  struct Rank {
    Device* device;
    std::vector<nn::DecoderLayer> layers;
  };
  Device& rank_device(int rank) const {
    return rank == 0 ? *device_ : *others_[static_cast<size_t>(rank) - 1].device;
  }
  bool in_turns() const { return !owners_.empty(); }
  Tensor embed(const Batch& batch) const;
  Tensor run_layer(int layer, const Tensor& x, const Batch& batch, const Tensor& inputs) const;
  Tensor run_layers(std::span<const int> layers, const Batch& batch, std::vector<Tensor>* after_layer) const;
  Tensor run_ranks(std::span<const int> layers, const Batch& batch, std::vector<Tensor>* after_layer) const;
  Tensor run_shares(int rank, std::span<const int> layers, const Batch& batch,
                    std::vector<Tensor>* after_layer) const;
  Tensor run_turns(int rank, std::span<const int> layers, const Batch& batch,
                   std::vector<Tensor>* after_layer) const;
  void set_ranks(std::vector<Rank> others, std::vector<int> owners);
  void share_head(const WeightSource& head_rows);
  void lay_out_states();
  Tensor logits(const Tensor& hidden, const ops::Weight& head) const;
  Tensor logits_of_ranks(const Tensor& hidden) const;
  void on_ranks(const std::function<void(int)>& run) const;
  void load_draft_head(const WeightSource& head_rows, const std::vector<int>& vocab);

  Device* device_;
  ModelSpec spec_;
  StateLayout layout_;
  std::vector<Device*> part_devices_;
  std::vector<Rank> others_;  // ranks 1, 2, ...
  // For each layer the rank that has all of it, if layers are not split and ranks work in turns. Else empty.
  std::vector<int> owners_;
  std::unique_ptr<ThreadPool> rank_threads_;  // one for each rank; null: there is one rank
  ops::Weight embedding_;                     // [vocab, hidden]
  std::vector<nn::DecoderLayer> layers_;
  std::set<std::string> dropped_;  // modules of layers that were dropped
  std::vector<int> parts_;         // for each layer: which part of the states it uses
  std::optional<nn::PerLayerInputs> per_layer_inputs_;
  nn::RmsNorm norm_;
  ops::Weight head_;  // [vocab, hidden]; the embedding itself when tied
  // Each rank's copy of its rows of the head, for few rows of x; empty: only the first device has the head.
  std::vector<ops::Weight> head_shares_;
  ops::Split head_split_;
  std::optional<nn::Mtp> mtp_;
  std::vector<int> draft_vocab_;
  std::optional<ops::Weight> draft_head_;  // rows draft_vocab_ of head_
};

}  // namespace anabranch
