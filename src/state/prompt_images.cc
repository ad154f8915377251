#include "state/prompt_images.h"

#include <algorithm>

namespace anabranch {

const PromptImage* PromptImages::at(int position) const {
  const auto after = std::ranges::upper_bound(images, position, {}, &PromptImage::begin);
  if (after == images.begin() || position >= (after - 1)->end()) return nullptr;
  return &*(after - 1);
}

std::array<int, 3> PromptImages::axes_of(int position) const {
  if (!grid_positions) return {position, position, position};
  int saved = 0;  // the tokens of the images so far, minus the positions that these images take
  for (const PromptImage& image : images) {
    if (position < image.begin) break;
    const int begin = image.begin - saved;
    if (const int i = position - image.begin; i < image.tokens())
      return {begin, begin + i / image.columns, begin + i % image.columns};
    saved += image.tokens() - std::max(image.rows, image.columns);
  }
  return {position - saved, position - saved, position - saved};
}

}  // namespace anabranch
