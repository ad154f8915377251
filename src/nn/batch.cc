#include "nn/batch.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace anabranch {

int Batch::next_position(const SequenceState& state) const {
  int position = state.applied();
  for (const Span& span : spans) position += span.state == &state ? span.count : 0;
  return position;
}

void Batch::add(SequenceState& state, std::span<const int> tokens, Logits logits, Snapshot* keep,
                const PromptImages* sequence_images) {
  const int begin = static_cast<int>(ids.size()), count = static_cast<int>(tokens.size());
  const int position = next_position(state);
  for (int i = 0; i < count; i++) {
    ids.push_back(tokens[i]);
    positions.push_back(position + i);
    if (logits == Logits::all || (logits == Logits::last && i + 1 == count)) logit_rows.push_back(begin + i);
  }
  add_axes(sequence_images, position, begin, count);
  if (sequence_images) add_images(*sequence_images, position, begin, count, true);
  // Images with bidirectional attention have spans of their own.
  int at = begin;
  if (sequence_images && sequence_images->see_each_other)
    for (const PromptImage& image : sequence_images->images) {
      const int from = begin + image.begin - position, to = begin + image.end() - position;
      if (to <= begin || from >= begin + count) continue;
      if (from < begin || to > begin + count)
        throw std::invalid_argument("a part of an image that must be seen as a whole");
      if (at < from) spans.push_back({&state, at, from - at});
      spans.push_back({&state, from, to - from, nullptr, true});
      at = to;
    }
  if (at < begin + count || count == 0) spans.push_back({&state, at, begin + count - at});
  spans.back().keep = keep;
  if (count == 0) return;
  add_adapters(state, begin, count);
}

// Joins rows that follow each other and go through the same adapter, if each row keeps the order of its
// adapters.
void Batch::add_adapters(const SequenceState& state, int row, int count) {
  auto least = adapters.begin();
  for (const auto& applied : state.adapters()) {
    least = std::find_if(least, adapters.end(), [&](const nn::AdapterRows& rows) {
      return std::pair(rows.adapter, rows.scale) == applied && rows.begin + rows.count == row;
    });
    if (least == adapters.end())
      least = adapters.insert(least, {applied.first, applied.second, row, count});
    else
      least->count += count;
    ++least;
  }
}

void Batch::add_behind(SequenceState& state, std::span<const int> tokens, const PromptImages* sequence_images,
                       int behind) {
  const int begin = static_cast<int>(ids.size()), position = next_position(state);
  add(state, tokens, Logits::none);
  if (sequence_images)
    add_images(*sequence_images, position + behind, begin, static_cast<int>(tokens.size()), false);
}

int Batch::deep_layers() const {
  size_t most = 0;
  for (const ImageRows& image : images) most = std::max(most, image.deep.size());
  return static_cast<int>(most);
}

// Adds the parts of images that are in `count` rows from `row` on. The first of these rows is at `position`.
// deep: with what is added behind layers.
void Batch::add_images(const PromptImages& of_sequence, int position, int row, int count, bool deep) {
  for (const PromptImage& image : of_sequence.images) {
    const int from = std::max(image.begin, position), to = std::min(image.end(), position + count);
    if (from >= to) continue;
    if (image.embeddings.empty()) throw std::invalid_argument("an image was not encoded");
    const auto part = [&](int level) {
      const int first = level * image.tokens() - image.begin;
      return image.embeddings.slice_rows(first + from, first + to);
    };
    ImageRows added{row + from - position, part(0), {}};
    const int levels = deep ? image.embeddings.shape(0) / image.tokens() : 1;
    for (int level = 1; level < levels; level++) added.deep.push_back(part(level));
    images.push_back(std::move(added));
  }
}

void Batch::add_axes(const PromptImages* of_sequence, int position, int row, int count) {
  const bool own = of_sequence && of_sequence->grid_positions;
  if (!own && axes.empty()) return;
  const auto put = [&](int at) {
    for (const int axis : {at, at, at}) axes.push_back(axis);
  };
  for (int i = static_cast<int>(axes.size()) / 3; i < row; i++) put(positions[static_cast<size_t>(i)]);
  for (int i = 0; i < count; i++) {
    if (!own) {
      put(position + i);
      continue;
    }
    const auto place = of_sequence->axes_of(position + i);
    axes.insert(axes.end(), place.begin(), place.end());
  }
}

}  // namespace anabranch
