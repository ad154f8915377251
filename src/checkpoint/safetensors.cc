#include "checkpoint/safetensors.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>

#include "base/long_integers.h"
#include "base/wrong_file.h"

namespace anabranch {

namespace {

constexpr uint64_t kMaxHeader = 100u << 20;  // as the reference implementation
constexpr size_t kMaxIndex = 256u << 20;
constexpr size_t kMaxTensors = 1u << 20;
constexpr size_t kMaxRank = 8;
constexpr int64_t kMaxDim = (int64_t{1} << 31) - 1;  // array shapes are 32-bit
constexpr size_t kMaxName = 4096;

namespace dom = simdjson::dom;

simdjson::simdjson_result<dom::element> parse_text(dom::parser& parser, std::string_view text) {
  const auto root = parser.parse(simdjson::padded_string(text));
  if (root.error() != simdjson::NUMBER_ERROR) return root;
  return parser.parse(simdjson::padded_string(with_exponents_on_long_integers(text)));
}

int64_t dtype_size(std::string_view dtype) {
  static constexpr std::pair<std::string_view, int> kSizes[] = {
      {"F64", 8},  {"F32", 4},     {"F16", 2}, {"BF16", 2},    {"I64", 8},    {"U64", 8},
      {"I32", 4},  {"U32", 4},     {"I16", 2}, {"U16", 2},     {"I8", 1},     {"U8", 1},
      {"BOOL", 1}, {"F8_E4M3", 1}, {"C64", 8}, {"F8_E5M2", 1}, {"F8_E8M0", 1}};
  for (const auto& [name, size] : kSizes)
    if (name == dtype) return size;
  return 0;
}

struct Context {
  const std::string& path;
  std::string_view tensor;

  template <class... Args>
  Error error(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) const {
    return Error{kind, fmt::format("{}: tensor \"{}\": {}", path, shown(tensor),
                                   fmt::format(format, std::forward<Args>(args)...))};
  }
};

Result<int64_t> parse_shape(const dom::element& element, const Context& at, std::vector<int64_t>& shape) {
  dom::array dims;
  if (element.get(dims)) return at.error(ErrorKind::invalid, "\"shape\" is not an array");
  int64_t count = 1;
  for (dom::element dim : dims) {
    uint64_t n;
    if (dim.get(n)) return at.error(ErrorKind::invalid, "a dimension is not a whole number from 0");
    if (n > static_cast<uint64_t>(kMaxDim)) return at.error(ErrorKind::invalid, "dimension {} is absurd", n);
    if (shape.size() == kMaxRank) return at.error(ErrorKind::invalid, "more than {} dimensions", kMaxRank);
    shape.push_back(static_cast<int64_t>(n));
    if (__builtin_mul_overflow(count, static_cast<int64_t>(n), &count))
      return at.error(ErrorKind::invalid, "shape {} overflows", shape_text(shape));
  }
  return count;
}

Result<SafetensorsTensor> parse_tensor(const dom::element& element, std::span<const std::byte> data,
                                       const Context& at) {
  SafetensorsTensor tensor;
  tensor.name = std::string(at.tensor);
  dom::object fields;
  if (element.get(fields)) return at.error(ErrorKind::invalid, "its header entry is not an object");
  std::string_view dtype;
  if (fields["dtype"].get(dtype)) return at.error(ErrorKind::invalid, "no \"dtype\"");
  const int64_t size = dtype_size(dtype);
  if (size == 0) return at.error(ErrorKind::unsupported, "type \"{}\" is not known", shown(dtype));
  tensor.dtype = std::string(dtype);
  dom::element shape;
  if (fields["shape"].get(shape)) return at.error(ErrorKind::invalid, "no \"shape\"");
  TRY(const int64_t count, parse_shape(shape, at, tensor.shape));

  dom::array offsets;
  if (fields["data_offsets"].get(offsets) || offsets.size() != 2)
    return at.error(ErrorKind::invalid, "\"data_offsets\" is not a pair");
  uint64_t begin, end;
  if (offsets.at(0).get(begin) || offsets.at(1).get(end))
    return at.error(ErrorKind::invalid, "\"data_offsets\" are not whole numbers from 0");
  if (begin > end) return at.error(ErrorKind::invalid, "data_offsets [{}, {}] run backwards", begin, end);
  if (end > data.size())
    return at.error(ErrorKind::invalid,
                    "its data ends at byte {} of {}: the file is truncated or damaged: download it again",
                    end, data.size());
  int64_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes) || static_cast<uint64_t>(bytes) != end - begin)
    return at.error(ErrorKind::invalid, "shape {} of {} does not fill its {} bytes", shape_text(tensor.shape),
                    dtype, end - begin);
  tensor.data = data.subspan(begin, end - begin);
  return tensor;
}

Result<void> check_layout(const SafetensorsFile& file, const std::string& path) {
  for (size_t i = 1; i < file.tensors.size(); i++)
    if (file.tensors[i].name == file.tensors[i - 1].name)
      return make_error(ErrorKind::invalid, "{}: tensor \"{}\" is there twice", path,
                        shown(file.tensors[i].name));
  std::vector<const SafetensorsTensor*> by_place;
  for (const auto& tensor : file.tensors)
    if (!tensor.data.empty()) by_place.push_back(&tensor);
  std::sort(by_place.begin(), by_place.end(),
            [](const auto* a, const auto* b) { return a->data.data() < b->data.data(); });
  for (size_t i = 1; i < by_place.size(); i++)
    if (by_place[i]->data.data() < by_place[i - 1]->data.data() + by_place[i - 1]->data.size())
      return make_error(ErrorKind::invalid, "{}: tensor \"{}\" overlaps \"{}\"", path,
                        shown(by_place[i]->name), shown(by_place[i - 1]->name));
  return {};
}

}  // namespace

std::optional<WeightKind> dense_kind(std::string_view dtype) {
  if (dtype == "F32") return WeightKind::f32;
  if (dtype == "F16") return WeightKind::f16;
  if (dtype == "BF16") return WeightKind::bf16;
  return std::nullopt;
}

const char* dtype_name(WeightKind kind) {
  if (kind == WeightKind::f32) return "F32";
  return kind == WeightKind::f16 ? "F16" : "BF16";
}

Result<SafetensorsFile> parse_safetensors(std::span<const std::byte> bytes, const std::string& path) {
  uint64_t length;
  if (bytes.size() < sizeof(length))
    return make_error(ErrorKind::invalid, "{}: {} bytes are too few for a safetensors file{}", path,
                      bytes.size(), what_it_is_instead(bytes));
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > kMaxHeader) {
    if (const auto other = what_it_is_instead(bytes); !other.empty())
      return make_error(ErrorKind::invalid, "{} is not a safetensors file{}", path, other);
    return make_error(ErrorKind::invalid,
                      "{} is not a safetensors file, or damaged: its header length {} is absurd (at most {})",
                      path, length, kMaxHeader);
  }
  if (length > bytes.size() - sizeof(length))
    return make_error(
        ErrorKind::invalid,
        "{}: its header of {} bytes ends beyond the file's {}: the file is truncated: download it again",
        path, length, bytes.size());
  const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + sizeof(length), length);
  const auto data = bytes.subspan(sizeof(length) + length);

  dom::parser parser;
  dom::element root;
  if (const auto code = parse_text(parser, header).get(root))
    return make_error(ErrorKind::invalid, "{}: the header is not JSON: {}", path,
                      simdjson::error_message(code));
  dom::object entries;
  if (root.get(entries)) return make_error(ErrorKind::invalid, "{}: the header is not a JSON object", path);
  SafetensorsFile file;
  for (const auto entry : entries) {
    if (entry.key == "__metadata__") {
      std::string_view format;
      if (!entry.value["format"].get(format)) file.format = std::string(format.substr(0, kMaxName));
      continue;
    }
    if (file.tensors.size() == kMaxTensors)
      return make_error(ErrorKind::exhausted, "{}: more than {} tensors", path, kMaxTensors);
    if (entry.key.empty() || entry.key.size() > kMaxName)
      return make_error(ErrorKind::invalid, "{}: a tensor name of {} bytes", path, entry.key.size());
    TRY(auto tensor, parse_tensor(entry.value, data, Context{path, entry.key}));
    file.tensors.push_back(std::move(tensor));
  }
  std::sort(file.tensors.begin(), file.tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  TRY_VOID(check_layout(file, path));
  return file;
}

uint64_t safetensors_header_bytes(std::span<const std::byte> first) {
  uint64_t length;
  if (first.size() < sizeof(length)) return sizeof(length);
  std::memcpy(&length, first.data(), sizeof(length));
  return length > kMaxHeader ? 0 : sizeof(length) + length;
}

Result<std::vector<std::pair<std::string, std::string>>> parse_safetensors_index(std::string_view text,
                                                                                 const std::string& path) {
  if (text.size() > kMaxIndex)
    return make_error(ErrorKind::exhausted, "{} has {} bytes; at most {} are read", path, text.size(),
                      kMaxIndex);
  dom::parser parser;
  dom::element root;
  if (const auto code = parse_text(parser, text).get(root))
    return make_error(ErrorKind::invalid, "{} is not JSON: {}", path, simdjson::error_message(code));
  dom::object map;
  if (root["weight_map"].get(map))
    return make_error(ErrorKind::invalid, "{} has no \"weight_map\" object", path);
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto entry : map) {
    std::string_view file;
    if (entry.value.get(file))
      return make_error(ErrorKind::invalid, "{}: tensor \"{}\": its file is not a string", path,
                        shown(entry.key));
    // A plain name only: an index must not reach out of the model's directory.
    if (!file.ends_with(".safetensors") || file.find_first_of("/\\") != std::string_view::npos ||
        file.find('\0') != std::string_view::npos || file.starts_with("."))
      return make_error(ErrorKind::invalid,
                        "{}: tensor \"{}\": \"{}\" is not the plain name of a .safetensors file", path,
                        shown(entry.key), shown(file));
    if (out.size() == kMaxTensors)
      return make_error(ErrorKind::exhausted, "{}: more than {} tensors", path, kMaxTensors);
    out.emplace_back(std::string(entry.key), std::string(file));
  }
  return out;
}

}  // namespace anabranch
