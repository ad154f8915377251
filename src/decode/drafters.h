// Drafters that run a model: each guesses the tokens after a sequence's last one, with the sampling (and the
// noise) that the full model will use, so that a guess is right exactly when both would have said the same.
// Whatever they propose is verified; being wrong costs time only.
//
// Ownership: one of each per sequence, on the engine thread; models outlive them.
#pragma once

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
  TokenHistory& history;  // of the sequence; left as it was
  int count = 0;          // drafts wanted
  SequenceState& state;   // of the full model, before the last token; left as it was
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  // Whether it can draft after so many tokens.
  virtual bool can_draft(size_t tokens) const {
    static_cast<void>(tokens);
    return true;
  }
  // Makes up for a long time without drafts, which is not the price of the next one.
  virtual void prepare(std::span<const int> tokens) { static_cast<void>(tokens); }
  // At most request.count tokens that may follow. An exception leaves request.state as it was.
  virtual std::vector<int> propose(const DraftRequest& request) = 0;
  // The first `accepted` tokens of the last proposal became part of the sequence.
  virtual void observe(int accepted) { static_cast<void>(accepted); }
  // The sequence begins with `length` tokens that the full model need not apply, its state having been kept;
  // saved: the MTP head's from save(), or null.
  virtual void resume(int length, const MtpSnapshot* saved) {
    static_cast<void>(length);
    static_cast<void>(saved);
  }
  // The MTP head's state after `tokens`, which are all that the full model applied; nothing for other
  // drafters or when it has not seen them all.
  virtual std::optional<MtpSnapshot> save(std::span<const int> tokens) {
    static_cast<void>(tokens);
    return std::nullopt;
  }
  // The full model applied tokens for good: their hidden states [n, hidden], in the order of the sequence.
  // tokens: the sequence as far as it is known.
  virtual void applied(const mx::array& hidden, std::span<const int> tokens) {
    static_cast<void>(hidden);
    static_cast<void>(tokens);
  }
};

// The checkpoint's MTP head, chained: its first draft comes from the trunk's hidden state, each further one
// from its own output. Its keys and values cover every pair (hidden state, next token) of the sequence; pairs
// wait until a draft needs them, or a batch of them is full.
std::unique_ptr<Drafter> make_mtp_drafter(const Model& model);

// Another, smaller model with the same tokens, with a state of its own.
std::unique_ptr<Drafter> make_model_drafter(const Model& draft);

// Some of the model's own layers (the first few, or all but some), then its final norm and head.
std::unique_ptr<Drafter> make_layers_drafter(const Model& model, std::vector<int> layers);

}  // namespace anabranch
