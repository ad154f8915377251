// Drafters that run a model: each guesses the tokens after a sequence's last one, with the sampling (and the
// noise) that the full model will use, so that a guess is right exactly when both would have said the same.
// Whatever they propose is verified; being wrong costs time only.
//
// Each sequence has drafters of its own, but those of one kind run their passes together (propose_together):
// a pass over the rows of many sequences costs little more than a pass over one row.
//
// Ownership: one of each per sequence, on the engine thread; models outlive them.
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
  TokenHistory& history;  // of the sequence; left as it was
  int count = 0;          // drafts wanted
  SequenceState& state;   // of the full model, before the last token; left as it was
};

// Rows [begin, begin + count) of hidden states [n, hidden] f32.
struct HiddenRows {
  Tensor rows;
  int begin = 0, count = 0;
};

// A pass of a drafter's model: rows of several sequences.
struct DraftPass {
  Batch batch;
  std::vector<HiddenRows> hidden;  // for the MTP head: what it pairs with the batch's tokens, in their order
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  // Whether it can draft after so many tokens.
  virtual bool can_draft(size_t tokens) const {
    static_cast<void>(tokens);
    return true;
  }
  // Catches up after a long time without drafts; not charged to the next draft's cost.
  virtual void prepare(std::span<const int> tokens) { static_cast<void>(tokens); }

  // A draft, driven by propose_together(). begin() adds the rows of the first pass: what the drafter has not
  // seen of the sequence. False: it cannot draft now, and added nothing.
  virtual bool begin(const DraftRequest& request, DraftPass& pass) = 0;
  // Adds the row of one more drafted token; hidden: the row that the token was drawn from.
  virtual void extend(int token, const HiddenRows& hidden, DraftPass& pass) = 0;
  // The draft is complete, or failed.
  virtual void finish() {}
  // Runs a pass, of this drafter or others of its kind -> hidden states of its rows, [n, hidden].
  virtual Tensor run(const DraftPass& pass) const = 0;
  // Whose head the drafts are drawn from.
  virtual const Model& model() const = 0;

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
  // The full model applied tokens for good: their hidden states, in the order of the sequence. tokens: the
  // sequence as far as it is known. parked: drafts of this kind do not pay at present, so the drafter should
  // not spend time on keeping up; it may forget what lies far back.
  virtual void applied(const HiddenRows& hidden, std::span<const int> tokens, bool parked) {
    static_cast<void>(hidden);
    static_cast<void>(tokens);
    static_cast<void>(parked);
  }
};

// One sequence's draft among others that are made together.
struct DraftWork {
  Drafter* drafter;
  DraftRequest request;
  std::vector<int> tokens = {};     // the result: at most request.count tokens that may follow
  std::exception_ptr failure = {};  // of this draft alone: its logits are not numbers
};

// Makes the drafts of several sequences by drafters of one kind, of one model, in shared passes: one pass for
// each position of the longest draft. An exception leaves every request.state as it was.
void propose_together(std::span<DraftWork> works);

// The checkpoint's MTP head, chained: its first draft comes from the trunk's hidden state, each further one
// from its own output. Its keys and values cover every pair (hidden state, next token) of the sequence,
// unless it was parked: then those of the tokens since then, and of a few before. Pairs wait until a draft
// needs them, or a batch of them is full.
std::unique_ptr<Drafter> make_mtp_drafter(const Model& model);

// Another, smaller model with the same tokens, with a state of its own.
std::unique_ptr<Drafter> make_model_drafter(const Model& draft);

// Some of the model's own layers (the first few, or all but some), then its final norm and head.
std::unique_ptr<Drafter> make_layers_drafter(const Model& model, std::vector<int> layers);

}  // namespace anabranch
