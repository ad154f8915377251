#include "chat/prompt_pictures.h"

#include <gtest/gtest.h>

namespace anabranch {
namespace {

RequestImage image_of(uint64_t key, int tokens) {
  auto image = std::make_shared<ProcessedImage>();
  image->tokens = tokens;
  return {0, {key, key}, image};
}

TEST(PromptPictures, IdsTakeThePlaceOfPadTokens) {
  const std::vector<RequestImage> images = {image_of(1, 3), image_of(2, 2)};
  std::vector<int> tokens = {5, 99, 6, 99};
  const auto begins = put_images(tokens, 99, images);
  ASSERT_TRUE(begins);
  EXPECT_EQ(*begins, (std::vector<int>{1, 5}));
  EXPECT_EQ(tokens, (std::vector<int>{5, image_id({1, 1}, 0), image_id({1, 1}, 1), image_id({1, 1}, 2), 6,
                                      image_id({2, 2}, 0), image_id({2, 2}, 1)}));
}

TEST(PromptPictures, FewerPadTokensTakeTheFirstImages) {
  std::vector<int> tokens = {99, 7};
  const auto begins = put_images(tokens, 99, std::vector{image_of(1, 1), image_of(2, 1)});
  ASSERT_TRUE(begins);
  EXPECT_EQ(*begins, std::vector<int>{0});
  EXPECT_EQ(tokens, (std::vector<int>{image_id({1, 1}, 0), 7}));
}

TEST(PromptPictures, MorePadTokensThanImagesAreAnError) {
  std::vector<int> tokens = {99, 99};
  EXPECT_FALSE(put_images(tokens, 99, std::vector{image_of(1, 1)}));
}

TEST(PromptPictures, OnlyTheTemplatesOwnWordsAreWrittenAnew) {
  ImageFormat format;
  format.written = "<start>";
  format.in_prompt = "\n\n<start><pad><end>\n\n";
  std::vector<PromptPiece> pieces = {{"a<start>b<start>", true}, {"<start>", false}};
  write_for_images(pieces, format);
  EXPECT_EQ(pieces[0].text, "a\n\n<start><pad><end>\n\nb\n\n<start><pad><end>\n\n");
  EXPECT_EQ(pieces[1].text, "<start>");
}

}  // namespace
}  // namespace anabranch
