// How large a model's weights are, and how many of their bytes a decode step reads.
#pragma once

#include <cstdint>
#include <vector>

#include "models/model.h"

namespace anabranch {

// Bytes of all matrices, by part.
struct ModelBytes {
  std::vector<uint64_t> layers;
  uint64_t head = 0, mtp = 0;  // mtp: without a head of its own
  uint64_t embedding = 0;      // 0 when it is the head
  uint64_t draft_head = 0;     // copy of the head's rows Model::draft_vocab()
  uint64_t copies = 0;         // of a split model: copies of matrices for few rows (own_inputs)
  uint64_t all() const;
};
ModelBytes count_bytes(const Model& model);

uint64_t count_parameters(const Model& model);  // without the MTP head

// Bytes that one decode step reads (of a split model: on its first device): the layers and the head, not the
// embedding table.
uint64_t bytes_per_token(const Model& model);
uint64_t layer_bytes_per_token(const Model& model);  // without the head

}  // namespace anabranch
