#include <webp/decode.h>

#include "images/formats.h"
#include "images/orientation.h"

namespace anabranch {

namespace {

constexpr size_t kChunkHeader = 8;

uint32_t number_at(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (int i = 0; i < 4; i++) value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
  return value;
}

// Looks for the EXIF chunk. `chunks`: the data after the file's header; chunks have even sizes.
int orientation_of(std::string_view chunks) {
  while (chunks.size() >= kChunkHeader) {
    const size_t size = number_at(chunks, 4);
    const std::string_view data = chunks.substr(kChunkHeader, size);
    if (chunks.starts_with("EXIF")) return exif_orientation(data);
    chunks.remove_prefix(std::min(chunks.size(), kChunkHeader + size + size % 2));
  }
  return 1;
}

Error error_of(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      return cut_short("WebP");
    case VP8_STATUS_OUT_OF_MEMORY:
      return make_error(ErrorKind::exhausted, "there is no memory for the WebP picture");
    default:
      return damaged("WebP", "its data cannot be decoded");
  }
}

}  // namespace

Result<DecodedFile> decode_webp(std::string_view bytes, const PictureLimits& limits) {
  constexpr size_t kFileHeader = 12;
  if (bytes.size() < kFileHeader || number_at(bytes, 4) > bytes.size() - kChunkHeader)
    return cut_short("WebP");
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) return make_error(ErrorKind::internal, "libwebp has another version");
  const VP8StatusCode header = WebPGetFeatures(data, bytes.size(), &config.input);
  if (header != VP8_STATUS_OK) return error_of(header);
  const int width = config.input.width, height = config.input.height;
  TRY_VOID(check_size("WebP", width, height, limits));
  if (config.input.has_animation)
    return make_error(ErrorKind::unsupported, "the WebP picture is an animation; send a still picture");
  const bool alpha = config.input.has_alpha;
  const size_t stride = size_t(width) * (alpha ? 4 : 3);
  std::vector<uint8_t> pixels(stride * height);
  config.output.colorspace = alpha ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {pixels.data(), static_cast<int>(stride), pixels.size()};
  const VP8StatusCode status = WebPDecode(data, bytes.size(), &config);
  WebPFreeDecBuffer(&config.output);
  if (status != VP8_STATUS_OK) return error_of(status);
  if (alpha) lay_on_white(pixels);
  return DecodedFile{{width, height, std::move(pixels)}, orientation_of(bytes.substr(kFileHeader))};
}

}  // namespace anabranch
