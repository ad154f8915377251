#include "state/prompt_images.h"

#include <gtest/gtest.h>

#include "base/image_ids.h"

namespace anabranch {
namespace {

using Axes = std::array<int, 3>;

PromptImages two_images() {
  PromptImages images;
  images.grid_positions = true;
  images.images = {{.begin = 2, .rows = 2, .columns = 3}, {.begin = 9, .rows = 4, .columns = 1}};
  return images;
}

// By hand, after Transformers' get_rope_index: text 0 1; a grid of 2 x 3 at 2; text 5; a grid of 4 x 1
// at 6...
TEST(PromptImages, TextGoesOnBehindTheLargestPositionOfAnImage) {
  const PromptImages images = two_images();
  const std::vector<Axes> want = {
      {0, 0, 0}, {1, 1, 1},                                                              // text
      {2, 2, 2}, {2, 2, 3}, {2, 2, 4}, {2, 3, 2}, {2, 3, 3},    {2, 3, 4},   {5, 5, 5},  // text
      {6, 6, 6}, {6, 7, 6}, {6, 8, 6}, {6, 9, 6}, {10, 10, 10}, {11, 11, 11}};           // text
  for (size_t i = 0; i < want.size(); i++) EXPECT_EQ(images.axes_of(static_cast<int>(i)), want[i]) << i;
}

TEST(PromptImages, WithoutAGridEveryRowStandsAtItsPosition) {
  PromptImages images = two_images();
  images.grid_positions = false;
  for (const int i : {0, 3, 8, 10, 100}) EXPECT_EQ(images.axes_of(i), (Axes{i, i, i}));
}

TEST(PromptImages, FindsTheImageOfAPosition) {
  const PromptImages images = two_images();
  EXPECT_EQ(images.at(1), nullptr);
  EXPECT_EQ(images.at(2), &images.images[0]);
  EXPECT_EQ(images.at(7), &images.images[0]);
  EXPECT_EQ(images.at(8), nullptr);
  EXPECT_EQ(images.at(12), &images.images[1]);
  EXPECT_EQ(images.at(13), nullptr);
}

TEST(ImageIds, AreAboveEveryVocabularyAndTellImagesApart) {
  const ImageKey a{1, 2}, b{1, 3}, c{2, 2};
  int same_as_b = 0, same_as_c = 0;
  for (int i = 0; i < 4096; i++) {
    EXPECT_TRUE(is_image_id(image_id(a, i)));
    EXPECT_GT(image_id(a, i), 0);
    same_as_b += image_id(a, i) == image_id(b, i);
    same_as_c += image_id(a, i) == image_id(c, i);
  }
  EXPECT_LE(same_as_b, 1);
  EXPECT_LE(same_as_c, 1);
  EXPECT_FALSE(is_image_id(300'000));
}

}  // namespace
}  // namespace anabranch
