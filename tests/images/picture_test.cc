// Files of every type against Pillow's pixels (goldens by tools/make_image_goldens.py), and files that are
// refused.
#include "images/picture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "images/drawings.h"
#include "images/orientation.h"

namespace anabranch {
namespace {

using testing::draw;
using testing::read_data;

// The largest difference between a file's pixels and Pillow's.
int difference(const std::string& name) {
  const auto picture = decode_picture(read_data(name));
  if (!picture.ok()) {
    ADD_FAILURE() << name << ": " << picture.error().message;
    return 256;
  }
  const std::string expected = read_data(name + ".rgb");
  EXPECT_EQ(picture->rgb.size(), expected.size()) << name;
  EXPECT_EQ(picture->rgb.size(), size_t{3} * picture->width * picture->height) << name;
  int most = 0;
  for (size_t i = 0; i < std::min(expected.size(), picture->rgb.size()); i++)
    most = std::max(most, std::abs(picture->rgb[i] - static_cast<uint8_t>(expected[i])));
  return most;
}

std::string message_of(std::string_view bytes, const PictureLimits& limits = {}) {
  const auto picture = decode_picture(bytes, limits);
  return picture.ok() ? "" : picture.error().message;
}

TEST(Picture, JpegHasPillowsPixels) {
  for (const char* name :
       {"rgb.jpg", "rgb444.jpg", "progressive.jpg", "restarts.jpg", "grey.jpg", "cmyk.jpg"})
    EXPECT_EQ(difference(name), 0) << name;
}

TEST(Picture, PngHasPillowsPixels) {
  for (const char* name : {"rgb.png", "rgba.png", "grey.png", "grey_alpha.png", "palette.png",
                           "palette_alpha.png", "transparent_colour.png", "bits1.png", "bits2.png",
                           "bits4.png", "rgb16.png", "grey16.png", "interlaced.png"})
    EXPECT_EQ(difference(name), 0) << name;
}

TEST(Picture, WebpHasPillowsPixels) {
  for (const char* name : {"lossy.webp", "lossless.webp", "lossy_alpha.webp", "lossless_alpha.webp"})
    EXPECT_EQ(difference(name), 0) << name;
}

TEST(Picture, ExifTurnsIt) {
  for (int orientation = 1; orientation <= 8; orientation++)
    EXPECT_EQ(difference(fmt::format("orientation{}.jpg", orientation)), 0) << orientation;
  EXPECT_EQ(difference("orientation6.png"), 0);
  EXPECT_EQ(difference("orientation8.webp"), 0);
}

TEST(Picture, TurnedPicturesAreTurnedBackByTheOpposite) {
  const Picture drawing = draw("noise", 70, 45, 1);
  for (const auto& [there, back] : {std::pair{2, 2}, {3, 3}, {4, 4}, {5, 5}, {6, 8}, {7, 7}, {8, 6}}) {
    const Picture turned = upright(drawing, there);
    EXPECT_EQ(turned.width, there < 5 ? 70 : 45);
    EXPECT_NE(turned.rgb, drawing.rgb);
    EXPECT_EQ(upright(turned, back).rgb, drawing.rgb) << there;
  }
}

TEST(Picture, ExifThatIsDamagedCountsAsUpright) {
  // Big-endian, one entry: tag 0x0112, SHORT, once, 6.
  const std::string good("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0", 22);
  EXPECT_EQ(exif_orientation(good), 6);
  EXPECT_EQ(exif_orientation(std::string("Exif\0\0", 6) + good), 6);
  for (size_t size = 0; size < 20; size++) EXPECT_EQ(exif_orientation(good.substr(0, size)), 1) << size;
  // What lies behind the end is not read.
  for (size_t size = 0; size < 20; size++)
    EXPECT_EQ(exif_orientation(std::string_view(good).substr(0, size)), 1) << size;
  std::string changed = good;
  changed[19] = 9;
  EXPECT_EQ(exif_orientation(changed), 1);
  changed = good;
  changed[4] = '\xff';  // the directory lies beyond the end
  EXPECT_EQ(exif_orientation(changed), 1);
}

TEST(Picture, OtherTypesAreNamed) {
  EXPECT_EQ(message_of(read_data("refused.gif")), "the picture is a GIF; send JPEG, PNG or WebP");
  EXPECT_EQ(message_of(read_data("refused.bmp")), "the picture is a BMP; send JPEG, PNG or WebP");
  EXPECT_EQ(message_of(read_data("refused.tiff")), "the picture is a TIFF; send JPEG, PNG or WebP");
  EXPECT_EQ(message_of(read_data("refused.ico")), "the picture is an ICO; send JPEG, PNG or WebP");
  EXPECT_EQ(message_of(std::string("\0\0\0\x18"
                                   "ftypheic\0\0\0\0",
                                   16)),
            "the picture is a HEIC; send JPEG, PNG or WebP");
  EXPECT_EQ(message_of("<svg xmlns='http://www.w3.org/2000/svg'/>"),
            "the picture is an SVG; send JPEG, PNG or WebP");
  EXPECT_EQ(message_of(read_data("animation.webp")),
            "the WebP picture is an animation; send a still picture");
  EXPECT_EQ(message_of("hello"),
            "this is no picture, or of an unknown type; send JPEG, PNG or WebP (5 bytes were received)");
  EXPECT_EQ(decode_picture("").error().kind, ErrorKind::invalid);
}

TEST(Picture, LimitsHoldForEveryType) {
  for (const char* name : {"rgb.jpg", "rgb.png", "lossy.webp"}) {  // 41 x 30
    const std::string file = read_data(name);
    EXPECT_TRUE(decode_picture(file, {file.size(), 41, 41 * 30}).ok()) << name;
    for (const PictureLimits& limits : {PictureLimits{file.size() - 1, 41, 41 * 30},
                                        {file.size(), 40, 41 * 30},
                                        {file.size(), 41, 41 * 30 - 1}}) {
      const auto refused = decode_picture(file, limits);
      ASSERT_FALSE(refused.ok()) << name;
      EXPECT_EQ(refused.error().kind, ErrorKind::exhausted) << name;
    }
  }
  EXPECT_EQ(message_of(read_data("rgb.png"), {1 << 20, 16384, 1000}),
            "the PNG picture is 41 x 30 pixels large; at most 16384 on a side and 1000 in all are read");
}

}  // namespace
}  // namespace anabranch
