// The images of a prompt as the model sees them: where they stand, and the rows that a vision tower made of
// them.
#pragma once

#include <array>
#include <vector>

#include "tensor/tensor.h"

namespace anabranch {

// Positions [begin, begin + rows * columns) of the sequence: a grid, row by row.
struct PromptImage {
  int begin = 0;
  int rows = 0, columns = 0;
  Tensor embeddings;  // [rows * columns, hidden] f32 on the model's device; empty until it is needed
  int tokens() const { return rows * columns; }
  int end() const { return begin + tokens(); }
};

struct PromptImages {
  std::vector<PromptImage> images;  // ascending, and apart
  bool grid_positions = false;      // an image's positions are those of its grid (axes_of())
  bool see_each_other = false;      // attention within an image goes both ways

  // The image that covers the position of the sequence, or null.
  const PromptImage* at(int position) const;
  // Where a row stands for rotary positions over time, height and width. With grid_positions all tokens of an
  // image have the time at which it begins, and height and width count from there; the text after it goes on
  // behind the largest of these. Else, and of text before all images, all three are the position. Reference:
  // Qwen2-VL (Wang et al. 2024), section 2.1, and Transformers' get_rope_index.
  std::array<int, 3> axes_of(int position) const;
};

}  // namespace anabranch
