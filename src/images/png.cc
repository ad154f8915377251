#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "images/formats.h"
#include "images/orientation.h"

namespace anabranch {

namespace {

constexpr png_alloc_size_t kMostChunkBytes = 1 << 20;  // for EXIF data
// Chunks that do not affect pixels; some contain compressed text or profiles. libpng skips them unread.
// Colour profiles are ignored, as in Pillow.
constexpr char kSkippedChunks[] =
    "iCCP\0zTXt\0iTXt\0tEXt\0sPLT\0hIST\0sCAL\0pCAL\0tIME\0gAMA\0cHRM\0sRGB\0bKGD\0oFFs\0pHYs";

// libpng reports errors through a callback that must not return. Ours jumps back into attempt().
struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::string_view rest;  // the unread rest of the file
  std::jmp_buf failed;
  bool ended_early = false;
  char message[128] = "";
  uint8_t* rows = nullptr;  // destination of the pixels, [height, row_bytes]
  size_t row_bytes = 0;

  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
  std::snprintf(reader.message, sizeof reader.message, "%s", message);
  std::longjmp(reader.failed, 1);
}

void on_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep to, size_t count) {
  auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
  if (count > reader.rest.size()) {
    reader.ended_early = true;
    png_error(png, "it ends too early");
  }
  std::memcpy(to, reader.rest.data(), count);
  reader.rest.remove_prefix(count);
}

// False when libpng failed. Nothing on the stack between here and libpng has a destructor: `step` is a plain
// function, and all state is in the reader.
bool attempt(PngReader& reader, void (*step)(PngReader&)) {
  if (setjmp(reader.failed)) return false;
  step(reader);
  return true;
}

void create(PngReader& reader) {
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reader, on_error, on_warning);
  if (reader.png) reader.info = png_create_info_struct(reader.png);
}

void read_header(PngReader& reader) {
  png_structp png = reader.png;
  png_set_read_fn(png, &reader, read_bytes);
  png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);  // check_size() checks the size later
  png_set_chunk_malloc_max(png, kMostChunkBytes);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
  png_set_keep_unknown_chunks(png, PNG_HANDLE_CHUNK_NEVER, reinterpret_cast<png_const_bytep>(kSkippedChunks),
                              sizeof kSkippedChunks / 5);
  png_read_info(png, reader.info);
}

// Asks for 8-bit RGB, or RGBA if the file has an alpha channel or a transparent colour. Of 16 bits only the
// upper 8 are used.
void choose_format(PngReader& reader) {
  png_set_expand(reader.png);
  png_set_strip_16(reader.png);
  png_set_gray_to_rgb(reader.png);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  reader.row_bytes = png_get_rowbytes(reader.png, reader.info);
}

void read_pixels(PngReader& reader) {
  const bool interlaced = png_get_interlace_type(reader.png, reader.info) != PNG_INTERLACE_NONE;
  const png_uint_32 height = png_get_image_height(reader.png, reader.info);
  for (int pass = 0; pass < (interlaced ? PNG_INTERLACE_ADAM7_PASSES : 1); pass++)
    for (png_uint_32 y = 0; y < height; y++)
      png_read_row(reader.png, reader.rows + reader.row_bytes * y, nullptr);
  png_read_end(reader.png, reader.info);
}

int orientation_of(const PngReader& reader) {
  png_bytep data = nullptr;
  png_uint_32 size = 0;
  if (!png_get_eXIf_1(reader.png, reader.info, &size, &data) || !data) return 1;
  return exif_orientation({reinterpret_cast<const char*>(data), size});
}

Error error_of(const PngReader& reader) {
  return reader.ended_early ? cut_short("PNG") : damaged("PNG", reader.message);
}

}  // namespace

Result<DecodedFile> decode_png(std::string_view bytes, const PictureLimits& limits) {
  PngReader reader;
  reader.rest = bytes;
  if (!attempt(reader, create) || !reader.info)
    return make_error(ErrorKind::internal, "libpng does not start");
  if (!attempt(reader, read_header)) return error_of(reader);
  const png_uint_32 width = png_get_image_width(reader.png, reader.info);
  const png_uint_32 height = png_get_image_height(reader.png, reader.info);
  TRY_VOID(check_size("PNG", width, height, limits));
  if (!attempt(reader, choose_format)) return error_of(reader);
  const int channels = png_get_channels(reader.png, reader.info);
  CHECK((channels == 3 || channels == 4) && reader.row_bytes == size_t{width} * channels, "{} channels",
        channels);
  std::vector<uint8_t> pixels(reader.row_bytes * height);
  reader.rows = pixels.data();
  if (!attempt(reader, read_pixels)) return error_of(reader);
  if (channels == 4) lay_on_white(pixels);
  return DecodedFile{{static_cast<int>(width), static_cast<int>(height), std::move(pixels)},
                     orientation_of(reader)};
}

}  // namespace anabranch
