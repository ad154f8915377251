// Converts an image to a vision tower's input, with the same results as the image processors of Transformers.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "images/picture.h"

namespace anabranch {

struct ImageProcessor {
  enum class Kind { qwen, gemma3 };
  Kind kind = Kind::qwen;
  int patch = 14;  // width and height of a patch, in pixels
  // Qwen: each patch contains the image this many times (the frames of a video); merge x merge patches become
  // one token; the resized image has between min_pixels and max_pixels pixels.
  int temporal_patch = 2;
  int merge = 2;
  int64_t min_pixels = 56 * 56;
  int64_t max_pixels = 28 * 28 * 1280;
  // Gemma 3: every image becomes a square with this side, and this number of tokens.
  int size = 896;
  int tokens = 256;
  // Normalisation of each channel, whose values are from 0 to 1: (value - mean) / std.
  std::array<float, 3> mean{}, std{};
};

// Reads preprocessor_config.json, or processor_config.json, which has the same keys under "image_processor".
// `path` is named in errors. Errors: invalid, unsupported (an unknown processor, or a value that this program
// does not support).
Result<ImageProcessor> read_image_processor(const Json& preprocessor_config, std::string_view path);

// A resized image, before normalisation.
struct ProcessedImage {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;   // [height, width, 3]
  int rows = 0, columns = 0;  // in patches
  int tokens = 0;             // number of tokens that the image takes in the prompt
};

// most_pixels: lowers max_pixels for this image (Qwen only: Gemma's images have one size). Errors: invalid
// (the image is too narrow).
Result<ProcessedImage> process_image(const Picture& picture, const ImageProcessor& processor,
                                     std::optional<int64_t> most_pixels = {});

// The tower's input, normalised, patch by patch. A patch is [channel, temporal, y, x] (Gemma 3: [channel, y,
// x]). The image must outlive it.
class PatchReader {
 public:
  PatchReader(const ProcessedImage& image, const ImageProcessor& processor);
  // Writes the patch at this row and column of patches to out [3 * temporal * patch * patch]; returns the end
  // of the written values.
  float* read(int row, int column, float* out) const;
  int values() const { return 3 * temporal_ * patch_ * patch_; }

 private:
  const ProcessedImage& image_;
  const int patch_, temporal_;
  std::array<std::array<float, 256>, 3> normalised_;  // for each channel, the value of each byte
};

}  // namespace anabranch
