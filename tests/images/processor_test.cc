// Resizing, sizes and patches against Transformers' image processors (goldens by
// tools/make_image_goldens.py).
#include "images/processor.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>

#include "images/drawings.h"
#include "images/resize.h"
#include "slow.h"

namespace anabranch {
namespace {

using testing::draw;

const Json& goldens() {
  static const Json json = [] {
    auto parsed = parse_json(testing::read_data("processors.json"));
    CHECK(parsed.ok(), "{}", parsed.error().message);
    return *parsed;
  }();
  return json;
}

ImageProcessor processor_of(const Json& config) {
  auto read = read_image_processor(config, "preprocessor_config.json");
  CHECK(read.ok(), "{}", read.error().message);
  return *read;
}

// Of the bytes before normalisation, in the order of the patches.
std::string hash_of(const std::vector<float>& patches, const ImageProcessor& processor) {
  const size_t channel = size_t(processor.temporal_patch) * processor.patch * processor.patch;
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < patches.size(); i++) {
    const size_t c = i / channel % 3;
    const auto byte =
        static_cast<uint8_t>(std::lround((double{patches[i]} * processor.std[c] + processor.mean[c]) * 255));
    hash = (hash ^ byte) * 0x100000001b3;
  }
  return fmt::format("{:016x}", hash);
}

// All of them in the order of Transformers' processors: Qwen's come in blocks of merge x merge, which are one
// token each; Gemma's come row by row.
std::vector<float> patches_of(const ProcessedImage& image, const ImageProcessor& processor) {
  const int merge = processor.kind == ImageProcessor::Kind::qwen ? processor.merge : 1;
  const PatchReader reader(image, processor);
  std::vector<float> out(static_cast<size_t>(reader.values()) * static_cast<size_t>(image.rows) *
                         static_cast<size_t>(image.columns));
  float* to = out.data();
  for (int block_row = 0; block_row < image.rows; block_row += merge)
    for (int block_column = 0; block_column < image.columns; block_column += merge)
      for (int row = block_row; row < block_row + merge; row++)
        for (int column = block_column; column < block_column + merge; column++)
          to = reader.read(row, column, to);
  return out;
}

void compare(const Json& test) {
  const ImageProcessor processor =
      processor_of(goldens()["processors"][test["processor"].get<std::string>()]);
  const Picture drawing = draw(test["drawing"], test["width"], test["height"], test["seed"]);
  const auto image = process_image(drawing, processor);
  ASSERT_TRUE(image.ok()) << image.error().message;
  EXPECT_EQ(Json({image->rows, image->columns}), test["grid"]);
  const bool gemma = processor.kind == ImageProcessor::Kind::gemma3;
  EXPECT_EQ(image->tokens, gemma ? 256 : image->rows * image->columns / 4);
  const std::vector<float> patches = patches_of(*image, processor);
  ASSERT_EQ(Json(patches.size()), test["patches"][0].get<size_t>() * test["patches"][1].get<size_t>());
  const float step = 1 / (255 * processor.std[0]);
  for (size_t i = 0; i < test["at"].size(); i++) {
    const float value = patches[test["at"][i].get<size_t>()], expected = test["values"][i].get<float>();
    EXPECT_NEAR(value, expected, step * 1e-3) << "at " << test["at"][i];
  }
  // Not only within one step: the same bytes.
  EXPECT_EQ(hash_of(patches, processor), test["bytes"]);
}

TEST(ImageProcessor, MakesOfFiftyDrawingsWhatTransformersMakes) {
  EXPECT_EQ(goldens()["cases"].size(), 50u);
  for (const Json& test : goldens()["cases"]) {
    SCOPED_TRACE(fmt::format("{} {} {} x {}", test["processor"].get<std::string>(),
                             test["drawing"].get<std::string>(), test["width"].get<int>(),
                             test["height"].get<int>()));
    compare(test);
  }
}

TEST(ImageProcessor, QwensSizesAreThoseOfSmartResize) {
  for (const Json& row : goldens()["smart_resize"]) {
    ImageProcessor processor;
    processor.patch = row[2].get<int>() / 2;
    processor.min_pixels = row[3];
    processor.max_pixels = row[4];
    Picture picture{row[0], row[1], {}};
    picture.rgb.resize(size_t{3} * picture.width * picture.height);
    const auto image = process_image(picture, processor);
    ASSERT_TRUE(image.ok()) << row << image.error().message;
    EXPECT_EQ(image->width, row[5]) << row;
    EXPECT_EQ(image->height, row[6]) << row;
  }
}

TEST(ImageProcessor, NarrowPicturesAreRefused) {
  ImageProcessor processor;
  for (const auto& [width, height] : {std::pair{201, 1}, {2, 401}}) {
    const auto image = process_image(draw("noise", width, height, 0), processor);
    ASSERT_FALSE(image.ok());
    EXPECT_EQ(image.error().kind, ErrorKind::invalid);
    EXPECT_EQ(image.error().message,
              fmt::format("the picture is {} x {} pixels large; one side may be at most 200 times the other",
                          width, height));
  }
}

TEST(ImageProcessor, MostPixelsLowersTheLimitForOnePicture) {
  const ImageProcessor qwen = processor_of(goldens()["processors"]["qwen3.5"]);
  const Picture drawing = draw("gradient", 640, 480, 0);
  EXPECT_EQ(process_image(drawing, qwen)->tokens, 300);
  const auto small = process_image(drawing, qwen, 128 * 128);  // below the processor's min_pixels
  EXPECT_EQ(small->tokens, 4 * 3);
  EXPECT_EQ(small->width, 128);
  EXPECT_EQ(small->height, 96);
  EXPECT_EQ(process_image(drawing, qwen, int64_t{1} << 40)->tokens, 300);
  EXPECT_EQ(process_image(drawing, qwen, 0)->tokens, 1);
  EXPECT_EQ(process_image(drawing, processor_of(goldens()["processors"]["gemma3"]), 1000)->tokens, 256);
}

// The kind of error, and the key that its message names; "" when the config is read.
std::string refusal(const char* base, const char* key, const Json& value) {
  Json config = goldens()["processors"][base];
  config[key] = value;
  const auto read = read_image_processor(config, "dir/preprocessor_config.json");
  if (read.ok()) return "";
  EXPECT_TRUE(read.error().message.starts_with("dir/preprocessor_config.json: ")) << read.error().message;
  EXPECT_NE(read.error().message.find(fmt::format("\"{}\"", key)), std::string::npos) << read.error().message;
  return read.error().kind == ErrorKind::unsupported ? "unsupported" : "invalid";
}

TEST(ImageProcessorConfig, ValuesOfOthersAreNamed) {
  for (const char* base : {"qwen3.5", "gemma3"}) {
    for (const char* key : {"do_resize", "do_rescale", "do_normalize"}) {
      EXPECT_EQ(refusal(base, key, false), "unsupported") << key;
      EXPECT_EQ(refusal(base, key, true), "") << key;
      EXPECT_EQ(refusal(base, key, nullptr), "") << key;
    }
    for (const char* key : {"do_pan_and_scan", "do_center_crop", "do_pad"}) {
      EXPECT_EQ(refusal(base, key, true), "unsupported") << key;
      EXPECT_EQ(refusal(base, key, false), "") << key;
    }
    EXPECT_EQ(refusal(base, "resample", 1), "unsupported");
    EXPECT_EQ(refusal(base, "rescale_factor", 0.1), "unsupported");
    EXPECT_EQ(refusal(base, "image_processor_type", "LlavaImageProcessor"), "unsupported");
    EXPECT_EQ(refusal(base, "image_mean", Json::array({0.5, 0.5})), "invalid");
    EXPECT_EQ(refusal(base, "image_std", Json::array({0.5, 0.5, 0})), "invalid");
    EXPECT_EQ(refusal(base, "image_std", Json::array({0.5, 0.5, "x"})), "invalid");
  }
  EXPECT_EQ(refusal("qwen3.5", "patch_size", 0), "invalid");
  EXPECT_EQ(refusal("qwen3.5", "merge_size", 1000), "invalid");
  EXPECT_EQ(refusal("qwen3.5", "size", Json{{"shortest_edge", 5000}, {"longest_edge", 4000}}), "invalid");
  EXPECT_EQ(refusal("gemma3", "size", Json{{"height", 900}, {"width", 900}}), "invalid");
  EXPECT_EQ(refusal("gemma3", "size", Json{{"height", 896}, {"width", 448}}), "invalid");
  EXPECT_EQ(refusal("gemma3", "image_seq_length", 255), "invalid");
}

TEST(ImageProcessorConfig, ReadsWhatCheckpointsSay) {
  const ImageProcessor qwen = processor_of(goldens()["processors"]["qwen2-vl"]);
  EXPECT_EQ(qwen.patch, 14);
  EXPECT_EQ(qwen.min_pixels, 3136);
  EXPECT_EQ(qwen.max_pixels, 1003520);
  // processor_config.json of newer versions of Transformers.
  Json nested;
  nested["image_processor"] = goldens()["processors"]["gemma3"];
  nested["image_processor"].erase("image_seq_length");
  nested["image_seq_length"] = 64;
  const ImageProcessor gemma = processor_of(nested);
  EXPECT_EQ(gemma.kind, ImageProcessor::Kind::gemma3);
  EXPECT_EQ(gemma.tokens, 64);
  EXPECT_EQ(gemma.merge, 8);
  EXPECT_EQ(gemma.patch, 14);
  for (const Json& other : {Json(), Json(3), Json::array(), Json::object(), Json{{"image_processor", 3}}})
    EXPECT_FALSE(read_image_processor(other, "x").ok()) << other;
}

TEST(Resize, KeepsAPictureThatHasItsSize) {
  const Picture drawing = draw("noise", 31, 17, 0);
  EXPECT_EQ(resize(drawing, 31, 17, ResizeFilter::bicubic).rgb, drawing.rgb);
}

TEST(Resize, OneColourStaysThatColour) {
  Picture plain{37, 53, std::vector<uint8_t>(size_t{3} * 37 * 53, 201)};
  for (const auto filter : {ResizeFilter::bilinear, ResizeFilter::bicubic})
    for (const auto& [width, height] : {std::pair{5, 7}, {100, 9}, {64, 64}, {1, 1}})
      for (const uint8_t value : resize(plain, width, height, filter).rgb) ASSERT_EQ(value, 201);
}

// About 40 ms each on one core of the machine that this was written on.
TEST(Resize, APhotoTakesLittleTime) {
  const Picture photo = draw("rings", 4000, 3000, 0);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(resize(photo, 896, 896, ResizeFilter::bilinear).width, 896);
  EXPECT_EQ(resize(photo, 1120, 840, ResizeFilter::bicubic).width, 1120);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5) * kSlowdown);
}

}  // namespace
}  // namespace anabranch
