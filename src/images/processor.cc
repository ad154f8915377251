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

// The multiples of a token's side nearest to the image's sides; if the limits on pixels require it, smaller
// or larger ones.
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

// The value that each byte of each channel becomes. Same arithmetic as Transformers: the factor 1 / 255 is
// folded into mean and std.
using ByteTable = std::array<std::array<float, 256>, 3>;
ByteTable normalised_bytes(const ImageProcessor& processor) {
  ByteTable table;
  for (int c = 0; c < 3; c++)
    for (int value = 0; value < 256; value++)
      table[c][value] =
          (static_cast<float>(value) - processor.mean[c] * 255.0f) / (processor.std[c] * 255.0f);
  return table;
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

PatchReader::PatchReader(const ProcessedImage& image, const ImageProcessor& processor)
    : image_(image),
      patch_(processor.patch),
      temporal_(processor.kind == ImageProcessor::Kind::qwen ? processor.temporal_patch : 1),
      normalised_(normalised_bytes(processor)) {}

float* PatchReader::read(int row, int column, float* out) const {
  const size_t side = static_cast<size_t>(patch_), width = static_cast<size_t>(image_.width);
  for (size_t c = 0; c < 3; c++) {
    float* const first = out;
    for (size_t y = 0; y < side; y++) {
      const uint8_t* from =
          image_.rgb.data() +
          3 * ((static_cast<size_t>(row) * side + y) * width + static_cast<size_t>(column) * side) + c;
      for (size_t x = 0; x < side; x++) *out++ = normalised_[c][from[3 * x]];
    }
    for (int t = 1; t < temporal_; t++) out = std::copy_n(first, side * side, out);
  }
  return out;
}

}  // namespace anabranch
