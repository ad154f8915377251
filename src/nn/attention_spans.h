// What all kinds of attention do with the spans of a batch.
#pragma once

#include <vector>

#include "nn/batch.h"
#include "ops/attention.h"

namespace anabranch::nn {

// Joins all spans of a sequence into one, up to an image with bidirectional attention: keys and values are
// read once, and a snapshot between spans only has a shorter length. part: the part of the states.
std::vector<ops::AttentionSpan> spans_of_sequences(const Batch& batch, int part);

// Takes the snapshots of the batch's spans. All rows are in the caches already.
void keep_snapshots(const Batch& batch, int part);

}  // namespace anabranch::nn
