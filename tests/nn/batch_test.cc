#include "nn/batch.h"

#include <gtest/gtest.h>

#include "ops/testing.h"

namespace anabranch {
namespace {

// Three positions for each row, also of text that came before the first picture or comes after the last.
TEST(Batch, TextBesideAPictureStandsAtItsPositions) {
  Device& device = ops::cpu_device(1);
  SequenceState text(device, {}), with_picture(device, {}), more(device, {});
  PromptImages images;
  images.grid_positions = true;
  images.images = {{.begin = 1, .rows = 1, .columns = 2, .embeddings = device.zeros({2, 4}, Dtype::f32)}};
  const std::vector<int> tokens = {1, 2, 3, 4};
  Batch batch;
  batch.add(text, tokens, Batch::Logits::none);
  batch.add(with_picture, std::span(tokens).first(2), Batch::Logits::none, nullptr, &images);
  batch.add(with_picture, std::span(tokens).last(2), Batch::Logits::none, nullptr, &images);
  batch.add(more, std::span(tokens).first(2), Batch::Logits::none);
  EXPECT_EQ(batch.positions, (std::vector<int>{0, 1, 2, 3, 0, 1, 2, 3, 0, 1}));
  EXPECT_EQ(batch.axes, (std::vector<int>{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3,  // text
                                          0, 0, 0, 1, 1, 1, 1, 1, 2, 3, 3, 3,  // text, picture, text
                                          0, 0, 0, 1, 1, 1}));
  // The picture is cut between the parts.
  ASSERT_EQ(batch.images.size(), 2u);
  EXPECT_EQ(batch.images[0].begin, 5);
  EXPECT_EQ(batch.images[0].rows.shape(0), 1);
  EXPECT_EQ(batch.images[1].begin, 6);
}

}  // namespace
}  // namespace anabranch
