#include "images/picture.h"

#include "images/formats.h"
#include "images/orientation.h"

namespace anabranch {

namespace {

struct Signature {
  size_t at;
  std::string_view bytes;
  const char* type;
};

using namespace std::literals;
// File types that people send although this program cannot read them; the error names them.
constexpr Signature kOtherTypes[] = {
    {0, "GIF8"sv, "a GIF"},
    {0, "BM"sv, "a BMP"},
    {0, "II*\0"sv, "a TIFF"},
    {0, "MM\0*"sv, "a TIFF"},
    {4, "ftypavi"sv, "an AVIF"},
    {4, "ftyphe"sv, "a HEIC"},
    {4, "ftypmif1"sv, "a HEIC"},
    {4, "ftyp"sv, "a video"},
    {0, "\x1a\x45\xdf\xa3"sv, "a video"},
    {0, "\0\0\1\0"sv, "an ICO"},
    {0, "8BPS"sv, "a Photoshop file"},
    {0, "%PDF"sv, "a PDF"},
    {0, "\xff\x0a"sv, "a JPEG XL"},
    {0, "\0\0\0\x0cJXL "sv, "a JPEG XL"},
    {0, "\0\0\0\x0cjP  "sv, "a JPEG 2000"},
    {0, "<svg"sv, "an SVG"},
    {0, "<?xml"sv, "an XML file, maybe an SVG"},
    {0, "<!DOCTYPE"sv, "a web page"},
    {0, "<html"sv, "a web page"},
};

bool holds(std::string_view bytes, size_t at, std::string_view part) {
  return bytes.size() >= at && bytes.substr(at).starts_with(part);
}

Result<DecodedFile> decode_file(std::string_view bytes, const PictureLimits& limits) {
  if (holds(bytes, 0, "\xff\xd8\xff"sv)) return decode_jpeg(bytes, limits);
  if (holds(bytes, 0, "\x89PNG\r\n\x1a\n"sv)) return decode_png(bytes, limits);
  if (holds(bytes, 0, "RIFF"sv) && holds(bytes, 8, "WEBP"sv)) return decode_webp(bytes, limits);
  for (const Signature& other : kOtherTypes)
    if (holds(bytes, other.at, other.bytes))
      return make_error(ErrorKind::unsupported, "the picture is {}; send JPEG, PNG or WebP", other.type);
  return make_error(
      ErrorKind::invalid,
      "this is no picture, or of an unknown type; send JPEG, PNG or WebP ({} bytes were received)",
      bytes.size());
}

}  // namespace

Result<Picture> decode_picture(std::string_view bytes, const PictureLimits& limits) {
  if (bytes.size() > limits.bytes)
    return make_error(ErrorKind::exhausted, "the picture's file has {} bytes; at most {} are read",
                      bytes.size(), limits.bytes);
  TRY(DecodedFile file, decode_file(bytes, limits));
  return upright(std::move(file.picture), file.orientation);
}

Result<void> check_size(const char* type, int64_t width, int64_t height, const PictureLimits& limits) {
  if (width < 1 || height < 1) return make_error(ErrorKind::invalid, "the {} picture has no pixels", type);
  if (width > limits.side || height > limits.side || width * height > limits.pixels)
    return make_error(ErrorKind::exhausted,
                      "the {} picture is {} x {} pixels large; at most {} on a side and {} in all are read",
                      type, width, height, limits.side, limits.pixels);
  return {};
}

Error damaged(const char* type, std::string_view reason) {
  return make_error(ErrorKind::invalid, "the {} picture is damaged: {}", type, reason);
}

Error cut_short(const char* type) {
  return make_error(ErrorKind::invalid, "the {} picture is cut short: its file ends too early", type);
}

void lay_on_white(std::vector<uint8_t>& pixels) {
  const size_t count = pixels.size() / 4;
  for (size_t i = 0; i < count; i++) {
    const uint32_t alpha = pixels[4 * i + 3];
    for (size_t c = 0; c < 3; c++) {
      // 255 * the result, shifted by 7 more bits.
      const uint32_t sum = (pixels[4 * i + c] * alpha + 255 * (255 - alpha) + 128) << 7;
      pixels[3 * i + c] = static_cast<uint8_t>((((sum >> 8) + sum) >> 8) >> 7);
    }
  }
  pixels.resize(3 * count);
}

}  // namespace anabranch
