// Files that are cut short, damaged, or made to cost memory and time.
#include <gtest/gtest.h>

#include <chrono>

#include "images/drawings.h"
#include "images/picture.h"

namespace anabranch {
namespace {

using testing::read_data;

constexpr const char* kFiles[] = {
    "rgb.jpg",       "progressive.jpg",     "restarts.jpg",    "grey.jpg",       "cmyk.jpg",  "rgb.png",
    "rgba.png",      "palette_alpha.png",   "rgb16.png",       "interlaced.png", "bits1.png", "lossy.webp",
    "lossless.webp", "lossless_alpha.webp", "lossy_alpha.webp"};

TEST(HostilePicture, EveryFileThatIsCutShortIsRefused) {
  for (const char* name : kFiles) {
    const std::string whole = read_data(name);
    ASSERT_TRUE(decode_picture(whole).ok()) << name;
    for (size_t size = 0; size < whole.size(); size++) {
      // A copy of its own, so that a read past the end is caught.
      const std::vector<char> part(whole.begin(), whole.begin() + size);
      const auto picture = decode_picture({part.data(), part.size()});
      ASSERT_FALSE(picture.ok()) << name << ": " << size << " of " << whole.size() << " bytes";
      EXPECT_EQ(picture.error().kind, ErrorKind::invalid) << name << ": " << picture.error().message;
    }
  }
}

TEST(HostilePicture, AFileThatEndsEarlySaysSo) {
  for (const auto& [name, type] :
       {std::pair{"rgb.jpg", "JPEG"}, {"rgb.png", "PNG"}, {"lossy.webp", "WebP"}}) {
    const std::string whole = read_data(name);
    EXPECT_EQ(decode_picture(whole.substr(0, whole.size() / 2)).error().message,
              fmt::format("the {} picture is cut short: its file ends too early", type));
  }
}

TEST(HostilePicture, WrongBytesGiveAnErrorOrAWholePicture) {
  for (const char* name : kFiles) {
    const std::string whole = read_data(name);
    for (size_t at = 0; at < whole.size(); at++)
      for (const int change : {0x01, 0x80, 0xff}) {
        std::string changed = whole;
        changed[at] = static_cast<char>(changed[at] ^ change);
        const auto picture = decode_picture(changed, {1 << 20, 4096, 1 << 16});
        if (picture.ok())
          ASSERT_EQ(picture->rgb.size(), size_t{3} * picture->width * picture->height)
              << name << " at " << at;
        else
          ASSERT_FALSE(picture.error().message.empty());
      }
  }
}

TEST(HostilePicture, DamagedPngDataIsNeverShown) {
  const std::string whole = read_data("rgb.png");
  const auto expected = decode_picture(whole);
  for (size_t at = whole.find("IDAT"); at < whole.size(); at++) {
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    EXPECT_FALSE(decode_picture(changed).ok()) << at;
  }
}

TEST(HostilePicture, DamageThatLeavesAHoleInAJpegIsAnError) {
  const std::string whole = read_data("restarts.jpg");
  // A restart marker becomes the end of the picture.
  std::string changed = whole;
  const size_t marker = changed.find("\xff\xd1");
  ASSERT_NE(marker, changed.npos);
  changed[marker + 1] = '\xd9';
  const auto picture = decode_picture(changed);
  ASSERT_FALSE(picture.ok());
  EXPECT_EQ(picture.error().kind, ErrorKind::invalid);
}

// The number of `bytes` bytes, most significant first.
void put(std::string& file, size_t at, uint32_t value, int bytes) {
  for (int i = 0; i < bytes; i++) file[at + i] = static_cast<char>(value >> (8 * (bytes - 1 - i)));
}

TEST(HostilePicture, ASmallFileThatPromisesManyPixelsIsRefusedByItsHeader) {
  std::string jpeg = read_data("rgb.jpg");
  const size_t frame = jpeg.find("\xff\xc0");
  ASSERT_NE(frame, jpeg.npos);
  put(jpeg, frame + 5, 65000, 2);
  put(jpeg, frame + 7, 65000, 2);
  EXPECT_EQ(decode_picture(jpeg).error().kind, ErrorKind::exhausted);
  std::string webp = read_data("lossy.webp");
  const size_t key = webp.find("\x9d\x01\x2a");
  ASSERT_NE(key, webp.npos);
  webp[key + 3] = webp[key + 5] = '\xff';
  webp[key + 4] = webp[key + 6] = '\x3f';
  EXPECT_EQ(decode_picture(webp).error().kind, ErrorKind::exhausted);
  // The header's checksum, too, so that libpng believes it.
  std::string png = read_data("huge.png");
  EXPECT_EQ(
      decode_picture(png).error().message,
      "the PNG picture is 2000000000 x 2000000000 pixels large; at most 16384 on a side and 50000000 in all "
      "are read");
}

// A progressive JPEG whose first scan is there again and again: each adds nothing, and costs a pass over all
// blocks.
TEST(HostilePicture, ScansWithoutEndAreRefused) {
  const std::string whole = read_data("progressive.jpg");
  const size_t first = whole.find("\xff\xda"), next = whole.find("\xff\xc4", first);
  ASSERT_NE(next, whole.npos);
  const std::string scan = whole.substr(first, next - first);
  const auto with = [&](int scans) {
    std::string many = whole;
    for (int i = 0; i < scans; i++) many.insert(first, scan);
    return many;
  };
  EXPECT_TRUE(decode_picture(with(50)).ok());
  const std::string many = with(200);
  const auto start = std::chrono::steady_clock::now();
  const auto picture = decode_picture(many);
  ASSERT_FALSE(picture.ok());
  EXPECT_EQ(picture.error().message, "the JPEG picture is damaged: it has more than 100 scans");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

// Text and profiles in a PNG can be compressed a thousandfold.
TEST(HostilePicture, CompressedTextInAPngIsNotRead) {
  const std::string file = read_data("text_bomb.png");
  EXPECT_LT(file.size(), 100'000u);
  EXPECT_TRUE(decode_picture(file).ok());
}

}  // namespace
}  // namespace anabranch
