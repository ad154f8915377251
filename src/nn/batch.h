// One forward step as plain data: rows of several sequences packed one after the other, without padding.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/image_ids.h"
#include "nn/adapter.h"
#include "state/prompt_images.h"
#include "state/sequence_state.h"

namespace anabranch {

// Rows [begin, begin + count) of the batch are the next `count` tokens of one sequence: committed, or
// drafts while its state is open.
struct Span {
  SequenceState* state = nullptr;
  int begin = 0;
  int count = 0;
  // Receives a snapshot of the state after these tokens (SequenceState::snapshot(), taken while the pass
  // runs); or null.
  Snapshot* keep = nullptr;
  bool whole = false;  // the rows are a whole image with bidirectional attention
};

// Rows of a batch that belong to an image.
struct ImageRows {
  int begin = 0;             // the first row in the batch
  Tensor rows;               // [n, hidden] f32: replace the embeddings of the ids
  std::vector<Tensor> deep;  // [n, hidden] f32 each: the i-th is added to these rows behind layer i
};

struct Batch {
  std::vector<int> ids;          // token of each row; -1 - i: element i of `chosen`; or is_image_id()
  std::optional<Tensor> chosen;  // [..] i32 on the device: tokens that the host does not know yet
  std::vector<int> positions;    // position of each row in its sequence
  // For each row its position in time, height and width, [rows * 3] (PromptImages::axes_of); empty: all three
  // equal `positions`.
  std::vector<int> axes;
  std::vector<ImageRows> images;          // for all rows with an is_image_id(), ascending
  std::vector<Span> spans;                // together they cover every row, in order
  std::vector<int> logit_rows;            // rows whose logits are wanted, ascending
  std::vector<nn::AdapterRows> adapters;  // rows of states with adapters; in order for each row

  // Adds the next tokens of a sequence, with logits for none, the last or all of them. A sequence may have
  // several consecutive spans, so that a snapshot can be taken between them. images: those of the sequence,
  // with embeddings for each image that the tokens touch; null: it has none.
  enum class Logits { none, last, all };
  void add(SequenceState& state, std::span<const int> tokens, Logits logits, Snapshot* keep = nullptr,
           const PromptImages* images = nullptr);
  // Like add(), without logits, for a state that has applied `behind` tokens fewer than the sequence. Images
  // are looked up at the sequence's positions, from applied() + behind on, without what is added behind
  // layers; rotary positions are the state's own, without the grids of images.
  void add_behind(SequenceState& state, std::span<const int> tokens, const PromptImages* images, int behind);
  // Behind how many of the first layers images add rows.
  int deep_layers() const;

 private:
  int next_position(const SequenceState& state) const;
  void add_images(const PromptImages& images, int position, int row, int count, bool deep);
  void add_adapters(const SequenceState& state, int row, int count);
  void add_axes(const PromptImages* images, int position, int row, int count);
};

}  // namespace anabranch
