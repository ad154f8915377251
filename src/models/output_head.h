// The output head of a model: from hidden states to logits.
#pragma once

#include <optional>
#include <vector>

#include "models/ranks.h"
#include "ops/collective.h"
#include "ops/weight.h"

namespace anabranch {

class OutputHead {
 public:
  // weight [vocab, hidden]: the embedding itself when it is tied. bias [vocab], scale and soft_cap: of the
  // logits, in this order; 0 = no cap.
  explicit OutputHead(ops::Weight weight, float scale = 1, float soft_cap = 0,
                      std::optional<Tensor> bias = {})
      : weight_(std::move(weight)), bias_(std::move(bias)), scale_(scale), soft_cap_(soft_cap) {}

  // hidden [n, hidden], after the final norm -> logits [n, vocab] f32. ranks: those of share(), if it was
  // called.
  Tensor logits(const Tensor& hidden, const Ranks& ranks) const;
  // -> logits over draft_vocab() (or the vocabulary, when that is empty) [n, ...] f32.
  Tensor draft_logits(const Tensor& hidden, const Ranks& ranks) const;

  // The token ids from which drafts are chosen, ascending. Empty: all.
  const std::vector<int>& draft_vocab() const { return draft_vocab_; }
  // Copies the head's rows for these ids (ascending; only ids that the model has are used), so that a draft
  // does not compute the logits of the whole vocabulary. rows: the head's weights in the files.
  void set_draft_vocab(Device& device, const WeightSource& rows, const std::vector<int>& vocab);
  // Gives each rank a copy of its share of the rows, for few rows of `hidden`, if they can be split.
  void share(const Ranks& ranks, const WeightSource& rows);

  const ops::Weight& weight() const { return weight_; }
  const std::optional<ops::Weight>& draft_rows() const { return draft_rows_; }  // unset: drafts use all rows
  const std::vector<ops::Weight>& shares() const { return shares_; }  // of each rank; empty: not shared

 private:
  Tensor logits_of_shares(const Tensor& hidden, const Ranks& ranks) const;
  Tensor scaled_and_capped(const Tensor& products, const std::optional<Tensor>& bias) const;

  ops::Weight weight_;
  std::optional<Tensor> bias_, draft_bias_;  // the latter for draft_rows_
  float scale_, soft_cap_;
  std::vector<int> draft_vocab_;
  std::optional<ops::Weight> draft_rows_;
  std::vector<ops::Weight> shares_;
  ops::Split split_;  // of the rows among `shares_`
};

}  // namespace anabranch
