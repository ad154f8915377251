// The images of a prompt as the model sees them: their positions, and the rows that a vision tower has
// computed for them.
#pragma once

#include <array>
#include <vector>

#include "tensor/tensor.h"

namespace anabranch {

// Positions [begin, begin + rows * columns) of the sequence: a grid, row by row.
struct PromptImage {
  int begin = 0;
  int rows = 0, columns = 0;
  // f32 on the model's device; empty until needed. Rows [0, tokens()) take the place of token embeddings.
  // With deepstack, rows [(i + 1) * tokens(), (i + 2) * tokens()) are added to the residual stream behind
  // layer i.
  Tensor embeddings;
  int tokens() const { return rows * columns; }
  int end() const { return begin + tokens(); }
};

struct PromptImages {
  std::vector<PromptImage> images;  // ascending and disjoint
  bool grid_positions = false;      // an image's positions follow its grid (axes_of())
  bool see_each_other = false;      // attention within an image is bidirectional

  // The image at this position of the sequence, or null.
  const PromptImage* at(int position) const;
  // The rotary positions of a row in time, height and width. With grid_positions, all tokens of an image have
  // as time the position where the image begins, and height and width count from there; the text after it
  // continues after the largest of these. Otherwise, and for text before all images, all three are the
  // position. Reference: Qwen2-VL (Wang et al. 2024), section 2.1, and Transformers' get_rope_index.
  std::array<int, 3> axes_of(int position) const;
};

}  // namespace anabranch
