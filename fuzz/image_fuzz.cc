// A picture's file, decoded and made into patches; and the same bytes as preprocessor_config.json.
#include <algorithm>
#include <cstdlib>
#include <memory>

#include "images/processor.h"

using namespace anabranch;

namespace {

void check(bool good) {
  if (!good) std::abort();
}

void check_picture(std::string_view bytes) {
  // Small, so that most of the time goes into parsing.
  const auto picture = decode_picture(bytes, {1 << 20, 1024, 1 << 16});
  if (!picture.ok()) return check(!picture.error().message.empty());
  check(picture->width >= 1 && picture->height >= 1 && picture->width <= 1024 && picture->height <= 1024);
  check(picture->rgb.size() == size_t{3} * picture->width * picture->height);
  ImageProcessor processor;
  processor.std = {1, 1, 1};
  const auto image = process_image(*picture, processor, 1 << 16);
  if (!image.ok()) return;
  check(image->rgb.size() == size_t{3} * image->width * image->height);
  check(image->tokens * 4 == image->rows * image->columns);
  const size_t patch_values = size_t{3} * 2 * processor.patch * processor.patch;
  const PatchReader reader(*image, processor);
  std::vector<float> patch(patch_values);
  for (int row = 0; row < image->rows; row++)
    for (int column = 0; column < image->columns; column++)
      check(reader.read(row, column, patch.data()) == patch.data() + patch.size());
}

void check_config(std::string_view text) {
  const auto json = parse_json(text, {1 << 16, 32, 256, 4096});
  if (!json.ok()) return;
  const auto processor = read_image_processor(*json, "file");
  if (!processor.ok()) return;
  const Picture dot{1, 1, {1, 2, 3}};
  const auto image = process_image(dot, *processor, 4096);
  check(image.ok() && image->tokens >= 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // A copy of its own, so that a read past the end is caught.
  const auto copy = std::make_unique<char[]>(size);
  std::copy_n(data, size, copy.get());
  check_picture({copy.get(), size});
  check_config({copy.get(), size});
  return 0;
}
