// One forward step as plain data: rows of several sequences packed one after the other, without padding.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/image_ids.h"
#include "state/prompt_images.h"
#include "state/sequence_state.h"

namespace anabranch {

// Rows [begin, begin + count) of the batch are the next `count` tokens of one sequence: committed, or
// drafts while its state is open.
struct Span {
  SequenceState* state = nullptr;
  int begin = 0;
  int count = 0;
  // Where the state after these tokens is left (SequenceState::snapshot(), made while the pass runs); or
  // null.
  Snapshot* keep = nullptr;
  bool whole = false;  // an image whose rows attend to each other both ways
};

// Rows of a batch that are an image's.
struct ImageRows {
  int begin = 0;  // the first row in the batch
  Tensor rows;    // [n, hidden] f32: take the place of the ids' embeddings
};

struct Batch {
  std::vector<int> ids;          // token of each row; -1 - i: element i of `chosen`; or is_image_id()
  std::optional<Tensor> chosen;  // [..] i32 on the device: tokens that the host does not know yet
  std::vector<int> positions;    // its position in its sequence
  // Of each row where it stands in time, height and width, [rows * 3] (PromptImages::axes_of); empty: all of
  // them where `positions` says.
  std::vector<int> axes;
  std::vector<ImageRows> images;  // of all rows with an is_image_id(), ascending
  std::vector<Span> spans;        // together they cover every row, in order
  std::vector<int> logit_rows;    // rows whose logits are wanted, ascending

  // Adds the next tokens of a sequence, with logits for none, the last or all of them. A sequence may have
  // several spans, each the tokens after the one before, so that a state between them can be kept.
  // images: of the sequence, with the embeddings of those that the tokens are of; null: it has none.
  enum class Logits { none, last, all };
  void add(SequenceState& state, std::span<const int> tokens, Logits logits, Snapshot* keep = nullptr,
           const PromptImages* images = nullptr);
  // The same for a state that is `behind` tokens behind the sequence, and that knows no images' positions:
  // the first token is that of position applied() + behind.
  void add_behind(SequenceState& state, std::span<const int> tokens, const PromptImages* images, int behind);

 private:
  int next_position(const SequenceState& state) const;
  void add_images(const PromptImages& images, int position, int row, int count);
  void add_axes(const PromptImages* images, int position, int row, int count);
};

}  // namespace anabranch
