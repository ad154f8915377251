#pragma once

#include <cstdint>
#include <vector>

#include "nn/batch.h"
#include "nn/linear.h"
#include "nn/streams.h"

namespace anabranch::nn {

// Where the embeddings of n-grams are: several tables, one after the other, of whose sizes each n-gram's hash
// is a remainder. Reference: Transformers' Qwen4ExpTextNGramEmbedding.
struct NGramTables {
  int longest = 0;                   // tokens of the longest n-gram
  std::vector<int64_t> sizes;        // those of 2-grams first, as many for each length
  std::vector<int64_t> multipliers;  // of a token, the one before it, ..; [longest]
  int end = 0;  // the token before which no n-gram begins; stands also for tokens before the first

  // Appends a row of the tables for each of `sizes`. tokens: the newest first, [longest]; -1: there is none.
  void append_rows(std::span<const int> tokens, std::vector<int>& rows) const;
};

// Embeddings of the last tokens' n-grams, added to each stream of the residual stream:
//   g = gate_streams(norm(keys(e)), norm(x), values(e));  x + g + silu(causal_conv(norm(g)))
// The last tokens are a convolution's rows, too, so that states, drafts and snapshots know one kind of
// memory. Reference: Transformers' Qwen4ExpTextPLELayer.
struct NGramInput {
  NGramTables tables;
  int streams = 0;
  ops::Weight embedding;                         // [rows of all tables, E / tables]
  ops::Weight keys, values;                      // [streams * H, E], [H, E]
  ops::RowNorm key_norm, query_norm, conv_norm;  // [streams * H]
  ops::RecurrenceShape token_shape, conv_shape;
  ops::ShortConvWeights token_taps, conv;  // channel i of token_taps has the token before i others

  // part: the first of two parts of the states.
  Tensor operator()(const Tensor& x, const Batch& batch, int part) const;
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    visit(embedding), visit(keys), visit(values);
  }
  // Bytes of the embeddings that a single row does not use.
  uint64_t idle_bytes() const;

 private:
  // Of each row of the batch: [M, E].
  Tensor embed(const Batch& batch, Device& device, int part) const;
};

// The memory of the last `longest` - 1 tokens.
ops::RecurrenceShape token_memory(int longest);
// One-hot taps, of which channel i gives the value i rows ago: [longest, longest], in the host's memory.
Tensor token_taps(int longest);

}  // namespace anabranch::nn
