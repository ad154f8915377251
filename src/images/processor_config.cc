#include <cmath>

#include "images/processor.h"

namespace anabranch {

namespace {

constexpr int kGemmaPatch = 14;
constexpr int64_t kMostPixels = 1 << 26;

// Reads values key by key; remembers the first wrong one. A null value counts as absent.
class Reader {
 public:
  Reader(const Json& config, std::string_view path) : config_(config), path_(path) {}

  int64_t integer(const char* key, int64_t low, int64_t high, int64_t fallback) {
    return integer_in(config_, key, low, high, fallback);
  }
  // The integer under `key` of the object "size".
  int64_t size(const char* key, int64_t low, int64_t high, int64_t fallback) {
    const Json* size = find(config_, "size");
    if (!size) return fallback;
    return integer_in(*size, key, low, high, fallback);
  }
  std::array<float, 3> channels(const char* key, double low, double high, std::array<float, 3> fallback) {
    const Json* values = find(config_, key);
    if (!values) return fallback;
    std::array<float, 3> out = fallback;
    const bool list = values->is_array() && values->size() == 3;
    for (size_t c = 0; list && c < 3; c++) {
      const Json& value = (*values)[c];
      if (!value.is_number() || !(value.get<double>() >= low && value.get<double>() <= high))
        return invalid(key), out;
      out[c] = static_cast<float>(value.get<double>());
    }
    if (!list) invalid(key);
    return out;
  }
  // Steps that this program always performs, or always omits.
  void always(const char* key) { fixed(key, true); }
  void never(const char* key) { fixed(key, false); }
  void resample(int works, const char* name) {
    const Json* value = find(config_, "resample");
    if (value && *value != works) unsupported("resample", *value, fmt::format("{} ({})", works, name));
  }
  void rescale_by_255() {
    const Json* value = find(config_, "rescale_factor");
    if (value && !(value->is_number() && std::abs(value->get<double>() * 255 - 1) < 1e-6))
      unsupported("rescale_factor", *value, "1/255");
  }
  void unsupported(const char* key, const Json& value, std::string_view works) {
    fail(make_error(ErrorKind::unsupported, "{}: \"{}\": {} is not supported; {} is", path_, key,
                    dump_json(value).substr(0, 100), works));
  }
  void invalid(const char* key) {
    fail(make_error(ErrorKind::invalid, "{}: \"{}\" has a value that makes no sense", path_, key));
  }
  const std::optional<Error>& error() const { return error_; }

 private:
  static const Json* find(const Json& object, const char* key) {
    if (!object.is_object()) return nullptr;
    const auto at = object.find(key);
    return at == object.end() || at->is_null() ? nullptr : &*at;
  }
  int64_t integer_in(const Json& object, const char* key, int64_t low, int64_t high, int64_t fallback) {
    const Json* value = find(object, key);
    if (!value) return fallback;
    const int64_t number = value->is_number_integer() ? value->get<int64_t>() : low - 1;
    if (number < low || number > high) invalid(key);
    return number;
  }
  void fixed(const char* key, bool works) {
    const Json* value = find(config_, key);
    if (value && *value != works) unsupported(key, *value, works ? "true" : "false");
  }
  void fail(Error error) {
    if (!error_) error_ = std::move(error);
  }

  const Json& config_;
  std::string path_;
  std::optional<Error> error_;
};

void read_common(Reader& reader, ImageProcessor& processor) {
  for (const char* key : {"do_resize", "do_rescale", "do_normalize"}) reader.always(key);
  for (const char* key : {"do_center_crop", "do_pad", "do_pan_and_scan"}) reader.never(key);
  reader.rescale_by_255();
  processor.mean = reader.channels("image_mean", -10, 10, processor.mean);
  processor.std = reader.channels("image_std", 1e-3, 10, processor.std);
}

// The defaults are those of Transformers' class.
ImageProcessor read_qwen(Reader& reader) {
  ImageProcessor out;
  out.kind = ImageProcessor::Kind::qwen;
  out.mean = {0.48145466f, 0.4578275f, 0.40821073f};
  out.std = {0.26862954f, 0.26130258f, 0.27577711f};
  read_common(reader, out);
  reader.resample(3, "bicubic");
  out.patch = static_cast<int>(reader.integer("patch_size", 1, 64, out.patch));
  out.temporal_patch = static_cast<int>(reader.integer("temporal_patch_size", 1, 8, out.temporal_patch));
  out.merge = static_cast<int>(reader.integer("merge_size", 1, 8, out.merge));
  out.min_pixels = reader.size("shortest_edge", 1, kMostPixels, out.min_pixels);
  out.max_pixels = reader.size("longest_edge", 1, kMostPixels, out.max_pixels);
  out.min_pixels = reader.integer("min_pixels", 1, kMostPixels, out.min_pixels);
  out.max_pixels = reader.integer("max_pixels", 1, kMostPixels, out.max_pixels);
  if (out.min_pixels > out.max_pixels) reader.invalid("size");
  return out;
}

ImageProcessor read_gemma3(Reader& reader) {
  ImageProcessor out;
  out.kind = ImageProcessor::Kind::gemma3;
  out.patch = kGemmaPatch;
  out.temporal_patch = 1;
  out.mean = out.std = {0.5f, 0.5f, 0.5f};
  read_common(reader, out);
  reader.resample(2, "bilinear");
  out.size = static_cast<int>(reader.size("height", kGemmaPatch, 4096, out.size));
  out.tokens = static_cast<int>(reader.integer("image_seq_length", 1, 1 << 16, out.tokens));
  // The tower averages squares of merge x merge patches, one for each token.
  const int patches = out.size / kGemmaPatch, side = static_cast<int>(std::lround(std::sqrt(out.tokens)));
  if (out.size % kGemmaPatch != 0 || reader.size("width", 1, 4096, out.size) != out.size)
    reader.invalid("size");
  if (side * side != out.tokens || patches % side != 0) reader.invalid("image_seq_length");
  out.merge = patches / std::max(side, 1);
  return out;
}

}  // namespace

Result<ImageProcessor> read_image_processor(const Json& preprocessor_config, std::string_view path) {
  // In processor_config.json the number of tokens is beside the image processor.
  Json config = preprocessor_config;
  if (const auto nested = preprocessor_config.find("image_processor"); nested != preprocessor_config.end()) {
    config = *nested;
    const auto tokens = preprocessor_config.find("image_seq_length");
    if (config.is_object() && tokens != preprocessor_config.end()) config["image_seq_length"] = *tokens;
  }
  Reader reader(config, path);
  const std::string type = string_at(config, "image_processor_type");
  ImageProcessor out;
  if (type.starts_with("Qwen2VLImageProcessor"))
    out = read_qwen(reader);
  else if (type.starts_with("Gemma3ImageProcessor"))
    out = read_gemma3(reader);
  else
    reader.unsupported("image_processor_type", type, "Qwen2VLImageProcessor or Gemma3ImageProcessor");
  if (reader.error()) return *reader.error();
  return out;
}

}  // namespace anabranch
