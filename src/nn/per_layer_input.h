// Per-layer embeddings (Gemma 3n, Gemma 4): besides its embedding, each token has a short vector for every
// layer, which the layer adds to the residual stream through a gate. Reference: Transformers' Gemma4TextModel
// (get_per_layer_inputs, project_per_layer_inputs) and Gemma4TextDecoderLayer.
#pragma once

#include "nn/linear.h"

namespace anabranch::nn {

// Computes the inputs of all layers from the ids and the scaled embeddings of a batch.
struct PerLayerInputs {
  int layers = 0, width = 0;
  ops::Weight table;       // [vocab, layers * width]
  float table_scale = 1;   // factor of its rows
  ops::Weight projection;  // [layers * width, H]
  Norm norm;               // over width

  // embedding [M, H] -> [layers * M, width]: layer i's rows begin at i * M.
  // chosen: see ops::embed().
  Tensor operator()(std::span<const int> ids, const Tensor& embedding, const Tensor* chosen = nullptr) const;
};

// x + norm(projection(activation(gate(x)) * input)).
struct PerLayerGate {
  ops::Weight gate;        // [width, H]
  ops::Weight projection;  // [H, width]
  Norm norm;
  ops::Activation activation = ops::Activation::gelu_tanh;

  // input [M, width]
  Tensor operator()(const Tensor& x, const Tensor& input) const;
};

}  // namespace anabranch::nn
