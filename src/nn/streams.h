#pragma once

#include "nn/linear.h"
#include "ops/streams.h"

namespace anabranch::nn {

// Reads one row from a residual stream of several streams (hyper-connections; ops/streams.h):
// the mean over the streams of sigmoid(up(silu(down(n) / streams))) * n, where n are the normed streams.
struct StreamMixer {
  int streams = 0;
  ops::RowNorm norm;     // [streams * H]
  ops::Weight down, up;  // [rank, streams * H], [streams * H, rank]

  // x [M, streams * H] -> the normed streams; and these -> [M, H].
  Tensor normed(const Tensor& x) const;
  Tensor mix(const Tensor& normed) const;
  Tensor operator()(const Tensor& x) const { return mix(normed(x)); }
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    visit(down), visit(up);
  }
};

// A part of a layer between its streams: x + 2 sigmoid(weights(n) / streams) * part(mixer(n)), for each
// stream.
struct HyperConnection {
  StreamMixer mixer;
  ops::Weight weights;  // [streams, streams * H]

  // run: the part, [M, H] -> [M, H].
  template <class Run>
  Tensor operator()(const Tensor& x, const Run& run) const {
    const Tensor normed = mixer.normed(x);
    return ops::add_to_streams(x, run(mixer.mix(normed)), ops::linear(normed, weights));
  }
  template <class Visit>
  void visit_weights(const Visit& visit) const {
    mixer.visit_weights(visit), visit(weights);
  }
};

// The connections of both parts of a layer.
struct HyperConnections {
  HyperConnection of_mixer, of_mlp;
};

// x [M, H] -> [M, streams * H]: each stream is x.
Tensor to_streams(const Tensor& x, int streams);

}  // namespace anabranch::nn
