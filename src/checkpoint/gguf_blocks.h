// GGUF's tensor types: how many bytes a block of weights takes, and its contents as codes, scales and biases
// (base/weight_source.h). Layouts as ggml defines them (ggml-common.h, ggml-quants.c).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/weight_source.h"

namespace anabranch {

struct GgufType {
  uint32_t id;
  const char* name;
  int block;  // weights
  int bytes;  // of a block
  WeightKind kind;
  // Coded kinds, as in WeightSource:
  int bits = 0, group = 0;
  ScaleType scale_type = ScaleType::f16;
  bool symmetric = false;
  int zero_point = 0;
  // One block: codes[block], scales and biases [block / group]; biases are left alone when symmetric.
  void (*decode)(const uint8_t* block, uint8_t* codes, float* scales, float* biases) = nullptr;
  // K-quants and IQ types: the factors and integers that scales and biases are made of (one d and dmin,
  // block / group integers).
  void (*decode_scales)(const uint8_t* block, const BlockScales& out) = nullptr;
  // table only:
  CodeTable table{};
  float scale_factor = 1;
};

// Null for a type that we cannot read.
const GgufType* find_gguf_type(uint32_t id);
const GgufType* find_gguf_type(std::string_view name);
// "IQ4_XS", or "number 99" for an unknown type.
std::string gguf_type_name(uint32_t id);

// cols is a multiple of type.block.
WeightSource gguf_source(const GgufType& type, const std::byte* data, int64_t rows, int64_t cols,
                         std::shared_ptr<const void> keep);

}  // namespace anabranch
