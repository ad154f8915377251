#include "nn/ngram_input.h"

#include <algorithm>

#include "nn/recurrence.h"
#include "ops/elementwise.h"
#include "ops/profile.h"

namespace anabranch::nn {
namespace {

// The batch's tokens plus 1, each `copies` times: as floats, which are exact below 2^24.
Tensor tokens_as_rows(const Batch& batch, int copies) {
  const Tensor chosen = batch.chosen ? to_host(*batch.chosen) : Tensor();
  Tensor rows = host_device().empty({static_cast<int>(batch.ids.size()), copies}, Dtype::f32);
  float* to = rows.data<float>();
  for (const int id : batch.ids) {
    const int token = id >= 0 ? id : chosen.data<int>()[-1 - id];
    to = std::fill_n(to, copies, static_cast<float>(token + 1));
  }
  return rows;
}

}  // namespace

void NGramTables::append_rows(std::span<const int> tokens, std::vector<int>& rows) const {
  const size_t each = sizes.size() / static_cast<size_t>(longest - 1);
  int64_t hash = tokens[0] * multipliers[0], first = 0;
  bool ended = false;
  for (size_t i = 1, table = 0; i < static_cast<size_t>(longest); i++) {
    ended = ended || tokens[i] < 0 || tokens[i] == end;
    hash ^= (ended ? end : tokens[i]) * multipliers[i];
    for (size_t n = 0; n < each; n++, table++) {
      rows.push_back(static_cast<int>(first + hash % sizes[table]));
      first += sizes[table];
    }
  }
}

Tensor NGramInput::embed(const Batch& batch, Device& device, int part) const {
  const int longest = tables.longest;
  const Tensor own = device.to_device(tokens_as_rows(batch, longest));
  const Tensor history =
      to_host(ops::short_conv_plain(own, token_shape, token_taps, recurrence_spans(batch, part)));
  std::vector<int> rows, tokens(static_cast<size_t>(longest));
  rows.reserve(batch.ids.size() * tables.sizes.size());
  for (int row = 0; row < history.shape(0); row++) {
    for (int i = 0; i < longest; i++)
      tokens[static_cast<size_t>(i)] =
          static_cast<int>(history.data<float>()[int64_t{row} * longest + i]) - 1;
    tables.append_rows(tokens, rows);
  }
  const Tensor parts = ops::embed(rows, embedding);
  return parts.reshape({history.shape(0), static_cast<int>(tables.sizes.size()) * parts.shape(1)});
}

Tensor NGramInput::operator()(const Tensor& x, const Batch& batch, int part) const {
  const ops::Stage stage(x.device(), "n-grams: embedding, gate, conv, add");
  const auto norm = [&](const Tensor& rows, const ops::RowNorm& by) {
    return ops::norm_streams(rows, by.weight, by.eps, streams);
  };
  const ops::Weight* const both[] = {&keys, &values};
  const auto of_ngrams = ops::linear(embed(batch, x.device(), part), both);
  const Tensor gated =
      ops::gate_streams(norm(of_ngrams[0], key_norm), norm(x, query_norm), of_ngrams[1], streams);
  const Tensor mixed =
      ops::short_conv_plain(norm(gated, conv_norm), conv_shape, conv, recurrence_spans(batch, part + 1));
  return ops::add(x, ops::add(gated, ops::sigmoid_gate(mixed, mixed)));
}

uint64_t NGramInput::idle_bytes() const {
  const auto rows = static_cast<uint64_t>(embedding.out_features());
  return embedding.bytes() / rows * (rows - tables.sizes.size());
}

ops::RecurrenceShape token_memory(int longest) {
  ops::RecurrenceShape shape;
  shape.channels = shape.conv_kernel = longest;
  return shape;
}

Tensor token_taps(int longest) {
  Tensor taps = host_device().zeros({longest, longest}, Dtype::f32);
  for (int i = 0; i < longest; i++) taps.data<float>()[(longest - 1 - i) * longest + i] = 1;
  return taps;
}

}  // namespace anabranch::nn
