#include "images/processor.h"

#include <algorithm>
#include <cmath>

#include "images/resize.h"

namespace anabranch {

namespace {

constexpr double kMostAspect = 200;

struct Size {
  int width, height;
};

// The multiples of a token's side nearest to the picture's sides, or as many of them as the limits on pixels
// ask for.
Size qwen_size(const Picture& picture, const ImageProcessor& processor, int64_t min_pixels,
               int64_t max_pixels) {
  const double side = processor.patch * processor.merge;
  const double width = picture.width, height = picture.height;
  const auto at_least_one = [&](double multiples) { return std::max(multiples, 1.0) * side; };
  double w = std::nearbyint(width / side) * side, h = std::nearbyint(height / side) * side;
  if (w * h > static_cast<double>(max_pixels)) {
    const double shrink = std::sqrt(width * height / static_cast<double>(max_pixels));
    w = at_least_one(std::floor(width / shrink / side));
    h = at_least_one(std::floor(height / shrink / side));
  } else if (w * h < static_cast<double>(min_pixels)) {
    const double grow = std::sqrt(static_cast<double>(min_pixels) / (width * height));
    w = at_least_one(std::ceil(width * grow / side));
    h = at_least_one(std::ceil(height * grow / side));
  }
  return {static_cast<int>(w), static_cast<int>(h)};
}

Result<Size> size_for(const Picture& picture, const ImageProcessor& processor,
                      std::optional<int64_t> most_pixels) {
  if (processor.kind == ImageProcessor::Kind::gemma3) return Size{processor.size, processor.size};
  const auto [shorter, longer] = std::minmax(picture.width, picture.height);
  if (longer > kMostAspect * shorter)
    return make_error(ErrorKind::invalid,
                      "the picture is {} x {} pixels large; one side may be at most {} times the other",
                      picture.width, picture.height, kMostAspect);
  const int64_t most =
      std::min(processor.max_pixels, std::max<int64_t>(1, most_pixels.value_or(processor.max_pixels)));
  return qwen_size(picture, processor, std::min(processor.min_pixels, most), most);
}

// What each byte of each channel becomes. The arithmetic is that of Transformers: the factor 1 / 255 is taken
// into mean and std.
using ByteTable = std::array<std::array<float, 256>, 3>;
ByteTable normalised_bytes(const ImageProcessor& processor) {
  ByteTable table;
  for (int c = 0; c < 3; c++)
    for (int value = 0; value < 256; value++)
      table[c][value] =
          (static_cast<float>(value) - processor.mean[c] * 255.0f) / (processor.std[c] * 255.0f);
  return table;
}

// One patch as [channel, temporal, y, x]. Returns the end of what was written.
float* write_patch(const ProcessedImage& image, const ByteTable& table, int row, int column, int side,
                   int temporal, float* out) {
  const size_t frame = size_t(side) * side;
  for (int c = 0; c < 3; c++) {
    float* const first = out;
    for (int y = 0; y < side; y++) {
      const uint8_t* from =
          image.rgb.data() + 3 * ((size_t(row) * side + y) * image.width + size_t(column) * side) + c;
      for (int x = 0; x < side; x++) *out++ = table[c][from[3 * x]];
    }
    for (int t = 1; t < temporal; t++) out = std::copy_n(first, frame, out);
  }
  return out;
}

}  // namespace

Result<ProcessedImage> process_image(const Picture& picture, const ImageProcessor& processor,
                                     std::optional<int64_t> most_pixels) {
  CHECK(picture.width > 0 && picture.height > 0, "an empty picture");
  TRY(const Size size, size_for(picture, processor, most_pixels));
  const bool qwen = processor.kind == ImageProcessor::Kind::qwen;
  Picture resized =
      resize(picture, size.width, size.height, qwen ? ResizeFilter::bicubic : ResizeFilter::bilinear);
  ProcessedImage out{size.width, size.height, std::move(resized.rgb)};
  out.rows = out.height / processor.patch;
  out.columns = out.width / processor.patch;
  out.tokens = qwen ? out.rows * out.columns / (processor.merge * processor.merge) : processor.tokens;
  return out;
}

std::vector<float> patches_of(const ProcessedImage& image, const ImageProcessor& processor) {
  const bool qwen = processor.kind == ImageProcessor::Kind::qwen;
  const int merge = qwen ? processor.merge : 1, temporal = qwen ? processor.temporal_patch : 1;
  const size_t patch_values = size_t{3} * temporal * processor.patch * processor.patch;
  const ByteTable table = normalised_bytes(processor);
  std::vector<float> out(patch_values * image.rows * image.columns);
  float* to = out.data();
  for (int block_row = 0; block_row < image.rows; block_row += merge)
    for (int block_column = 0; block_column < image.columns; block_column += merge)
      for (int row = block_row; row < block_row + merge; row++)
        for (int column = block_column; column < block_column + merge; column++)
          to = write_patch(image, table, row, column, processor.patch, temporal, to);
  return out;
}

}  // namespace anabranch
