#include <algorithm>
#include <csetjmp>
#include <cstdio>

// jerror.h needs cstdio.
#include <jpeglib.h>

#include <jerror.h>

#include "images/formats.h"
#include "images/orientation.h"

namespace anabranch {

namespace {

// A progressive file refines the whole image with every scan. Encoders write about ten. An image may have
// kAlwaysScans scans in any case, and more up to a total of kMostScannedPixels.
constexpr int kMostScans = 100, kAlwaysScans = 20;
constexpr int64_t kMostScannedPixels = 1'000'000'000;
constexpr std::string_view kExifHeader("Exif\0\0", 6);

// libjpeg reports errors through callbacks that must not return. Ours jump back into attempt().
struct JpegReader {
  jpeg_decompress_struct info{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf failed;
  bool ended_early = false;
  char message[JMSG_LENGTH_MAX] = "";
  uint8_t* rows = nullptr;  // destination of the pixels, [height, row_bytes]
  size_t row_bytes = 0;
  int most_scans = 0;

  ~JpegReader() { jpeg_destroy_decompress(&info); }
};

JpegReader& reader_of(j_common_ptr info) {
  return *static_cast<JpegReader*>(info->client_data);
}

[[noreturn]] void fail(j_common_ptr info) {
  JpegReader& reader = reader_of(info);
  reader.ended_early = info->err->msg_code == JWRN_JPEG_EOF;
  info->err->format_message(info, reader.message);
  std::longjmp(reader.failed, 1);
}

// After these warnings, libjpeg would continue with pixels that are not in the file.
bool loses_pixels(int code) {
  return code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
         code == JWRN_ARITH_BAD_CODE || code == JWRN_MUST_RESYNC;
}

void on_message(j_common_ptr info, int level) {
  if (level < 0 && loses_pixels(info->err->msg_code)) fail(info);
}

void on_progress(j_common_ptr info) {
  JpegReader& reader = reader_of(info);
  if (reader.info.input_scan_number <= reader.most_scans) return;
  std::snprintf(reader.message, sizeof reader.message, "it has more than %d scans", reader.most_scans);
  std::longjmp(reader.failed, 1);
}

// False when libjpeg failed. Nothing on the stack between here and libjpeg has a destructor: `step` is a
// plain function, and all state is in the reader.
bool attempt(JpegReader& reader, void (*step)(JpegReader&)) {
  if (setjmp(reader.failed)) return false;
  step(reader);
  return true;
}

void read_header(JpegReader& reader) {
  jpeg_save_markers(&reader.info, JPEG_APP0 + 1, 0xffff);
  jpeg_read_header(&reader.info, TRUE);
}

void read_pixels(JpegReader& reader) {
  jpeg_start_decompress(&reader.info);
  while (reader.info.output_scanline < reader.info.output_height) {
    JSAMPROW row = reader.rows + reader.row_bytes * reader.info.output_scanline;
    jpeg_read_scanlines(&reader.info, &row, 1);
  }
  jpeg_finish_decompress(&reader.info);
}

void create(JpegReader& reader) {
  jpeg_create_decompress(&reader.info);
}

int orientation_of(const JpegReader& reader) {
  for (auto* marker = reader.info.marker_list; marker; marker = marker->next) {
    const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
    if (data.starts_with(kExifHeader)) return exif_orientation(data);
  }
  return 1;
}

// Converts from inverted CMYK, which Adobe's programs write and Pillow assumes. The rounding is Pillow's.
void cmyk_to_rgb(std::vector<uint8_t>& pixels) {
  const size_t count = pixels.size() / 4;
  for (size_t i = 0; i < count; i++) {
    const uint32_t white = pixels[4 * i + 3];
    for (size_t c = 0; c < 3; c++) {
      const uint32_t product = (255 - pixels[4 * i + c]) * white + 128;
      pixels[3 * i + c] = static_cast<uint8_t>(white - (((product >> 8) + product) >> 8));
    }
  }
  pixels.resize(3 * count);
}

Result<void> check_header(const jpeg_decompress_struct& info, const PictureLimits& limits) {
  TRY_VOID(check_size("JPEG", info.image_width, info.image_height, limits));
  if (info.num_components == 1 || info.num_components == 3 || info.num_components == 4) return {};
  return make_error(ErrorKind::unsupported, "the JPEG picture has {} colour channels; 1, 3 and 4 are read",
                    info.num_components);
}

int most_scans(const jpeg_decompress_struct& info) {
  const int64_t pixels = int64_t{info.image_width} * info.image_height;
  return static_cast<int>(std::clamp<int64_t>(kMostScannedPixels / pixels, kAlwaysScans, kMostScans));
}

Error error_of(const JpegReader& reader) {
  return reader.ended_early ? cut_short("JPEG") : damaged("JPEG", reader.message);
}

}  // namespace

Result<DecodedFile> decode_jpeg(std::string_view bytes, const PictureLimits& limits) {
  JpegReader reader;
  jpeg_decompress_struct& info = reader.info;
  info.err = jpeg_std_error(&reader.errors);
  reader.errors.error_exit = fail;
  reader.errors.emit_message = on_message;
  reader.progress.progress_monitor = on_progress;
  info.client_data = &reader;
  if (!attempt(reader, create)) return error_of(reader);
  info.progress = &reader.progress;
  jpeg_mem_src(&info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  if (!attempt(reader, read_header)) return error_of(reader);
  TRY_VOID(check_header(info, limits));
  reader.most_scans = most_scans(info);
  const bool cmyk = info.num_components == 4;
  const int orientation = orientation_of(reader);  // first, because finishing frees the markers
  info.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  reader.row_bytes = size_t{info.image_width} * (cmyk ? 4 : 3);
  std::vector<uint8_t> pixels(reader.row_bytes * info.image_height);
  reader.rows = pixels.data();
  const int width = static_cast<int>(info.image_width), height = static_cast<int>(info.image_height);
  if (!attempt(reader, read_pixels)) return error_of(reader);
  if (cmyk) cmyk_to_rgb(pixels);
  return DecodedFile{{width, height, std::move(pixels)}, orientation};
}

}  // namespace anabranch
