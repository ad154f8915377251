// Drafters that run a model. Each guesses the tokens after a sequence's last one, with the same sampling
// parameters and noise as the full model, so a guess is right exactly when both models sample the same token.
// All proposals are verified; a wrong one costs time only.
//
// Each sequence has its own drafters, but drafters of one kind share their passes (propose_together): a pass
// over the rows of many sequences costs little more than a pass over one row.
//
// Ownership: at most one of each kind per sequence, used on the engine thread. The models outlive them.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/sampling_params.h"
#include "decode/token_history.h"
#include "models/model.h"

namespace anabranch {

struct DraftRequest {
  std::span<const int> tokens;  // the sequence, the last token sampled but not applied
  const SamplingParams& sampling;
  TokenHistory& history;                 // of the sequence; restored afterwards
  int count = 0;                         // drafts wanted
  SequenceState& state;                  // of the full model, before the last token; restored afterwards
  const PromptImages* images = nullptr;  // of the sequence, or null
};

// Rows [begin, begin + count) of hidden states [n, hidden] f32.
struct HiddenRows {
  Tensor rows;
  int begin = 0, count = 0;
};

// One pass of a drafter's model over rows of several sequences.
struct DraftPass {
  Batch batch;
  std::vector<HiddenRows> hidden;  // for the MTP head: a hidden state for each token of the batch, in order
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  // Whether it can draft after this many tokens.
  virtual bool can_draft(size_t tokens) const {
    static_cast<void>(tokens);
    return true;
  }
  // Processes tokens that the drafter has not seen yet. This time does not count as a cost of the next draft.
  virtual void prepare(std::span<const int> tokens) { static_cast<void>(tokens); }

  // propose_together() makes a draft with these calls. begin() adds the rows of the first pass: the tokens
  // that the drafter has not seen yet. Returns false, and adds nothing, when it cannot draft now.
  virtual bool begin(const DraftRequest& request, DraftPass& pass) = 0;
  // Adds the row of one more drafted token. hidden: the hidden state from which the token was drawn.
  virtual void extend(int token, const HiddenRows& hidden, DraftPass& pass) = 0;
  // Ends the draft, which is complete or has failed.
  virtual void finish() {}
  // Runs a pass for this drafter and others of its kind. Returns the hidden states of its rows, [n, hidden].
  virtual Tensor run(const DraftPass& pass) const = 0;
  // The model whose head the drafts are drawn from.
  virtual const Model& model() const = 0;

  // Reports that the first `accepted` tokens of the last proposal became part of the sequence.
  virtual void observe(int accepted) { static_cast<void>(accepted); }
  // Reports that the full model's state for the first `length` tokens comes from the cache, so the drafter
  // has not seen them. saved: the MTP head's state, from save(), or null.
  virtual void resume(int length, const MtpSnapshot* saved) {
    static_cast<void>(length);
    static_cast<void>(saved);
  }
  // The MTP head's state after `tokens`, which must be all tokens that the full model applied. Returns
  // nothing for other drafters, or if the head has not seen all of them.
  virtual std::optional<MtpSnapshot> save(std::span<const int> tokens) {
    static_cast<void>(tokens);
    return std::nullopt;
  }
  // Reports the hidden states of tokens that the full model has committed, in the order of the sequence.
  // tokens: all known tokens of the sequence. parked: drafts of this kind do not pay at present, so the
  // drafter should not spend time to keep up, and may forget older tokens.
  virtual void applied(const HiddenRows& hidden, std::span<const int> tokens, bool parked) {
    static_cast<void>(hidden);
    static_cast<void>(tokens);
    static_cast<void>(parked);
  }
};

// One sequence's draft in propose_together().
struct DraftWork {
  Drafter* drafter;
  DraftRequest request;
  std::vector<int> tokens = {};     // the result: at most request.count tokens that may follow
  std::exception_ptr failure = {};  // of this draft alone: its logits are not numbers
};

// Makes the drafts of several sequences in shared passes, one for each position of the longest draft. All
// drafters must be of one kind and one model. An exception leaves every request.state unchanged.
void propose_together(std::span<DraftWork> works);

// The checkpoint's MTP head, chained: its first draft comes from the trunk's hidden state, each further one
// from its own output. Its KV cache covers every pair (hidden state, next token) of the sequence; after a
// time in which it was parked (applied()), only the last few pairs of that time and all later ones. Pairs are
// collected until a draft needs them, or until a batch of them is full. images: the sequence's images, or
// null; they outlive the drafter, and have embeddings when it processes their tokens.
std::unique_ptr<Drafter> make_mtp_drafter(const Model& model, const PromptImages* images = nullptr);

// A separate, smaller model with the same tokens and its own state.
std::unique_ptr<Drafter> make_model_drafter(const Model& draft);

// Some of the model's own layers (the first few, or all but some), then its final norm and head.
std::unique_ptr<Drafter> make_layers_drafter(const Model& model, std::vector<int> layers);

}  // namespace anabranch
