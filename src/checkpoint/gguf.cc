#include "checkpoint/gguf.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/wrong_file.h"
#include "checkpoint/file_bytes.h"

namespace anabranch {

namespace {

constexpr uint64_t kMaxKeys = 4096;  // Json objects take quadratic time in their keys
constexpr uint64_t kMaxTensors = 1u << 17;
constexpr uint64_t kMaxName = 1024;
constexpr uint64_t kMaxString = 16u << 20;
constexpr uint64_t kMaxElements =
    4u << 20;  // of all arrays together; the largest vocabularies need about 1 M
constexpr int kMaxNesting = 3;
constexpr uint32_t kMaxRank = 4;
constexpr uint64_t kMaxDim = (uint64_t{1} << 31) - 1;  // array shapes are 32-bit
constexpr uint64_t kMaxAlignment = 1u << 20;

enum ValueType : uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  Result<GgufFile> parse() {
    TRY_VOID(parse_counts());
    file_.metadata = Json::object();
    for (uint64_t i = 0; i < keys_; i++) TRY_VOID(parse_key());
    TRY(const uint64_t alignment, find_alignment());
    std::vector<uint64_t> offsets;
    for (uint64_t i = 0; i < tensors_; i++) TRY_VOID(parse_tensor(offsets));
    header_end_ = at_;
    TRY_VOID(place(offsets, alignment));
    return std::move(file_);
  }

  uint64_t header_end() const { return header_end_; }  // 0: parse() failed before it
  bool is_cut() const { return cut_; }                 // the bytes end within metadata or tensor directory

 private:
  template <class... Args>
  Error invalid(fmt::format_string<Args...> format, Args&&... args) const {
    return Error{ErrorKind::invalid, path_ + ": " + fmt::format(format, std::forward<Args>(args)...)};
  }
  Error truncated(const std::string& what) {
    cut_ = true;
    return invalid("the file ends within {}: truncated or damaged: download it again", what);
  }
  uint64_t left() const { return bytes_.size() - at_; }

  template <class T>
  bool read(T& value) {
    if (left() < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return true;
  }

  // Points into the file.
  Result<std::string_view> read_text(uint64_t most, const std::string& what) {
    uint64_t length;
    if (!read(length)) return truncated(what);
    if (length > most) return invalid("{}: a string of {} bytes; at most {} are read", what, length, most);
    if (length > left()) return truncated(what);
    const std::string_view out(reinterpret_cast<const char*>(bytes_.data() + at_), length);
    at_ += length;
    return out;
  }
  Result<std::string> read_string(uint64_t most, const std::string& what) {
    TRY(const auto text, read_text(most, what));
    return std::string(text);
  }

  template <class T>
  Result<Json> read_number(const std::string& what) {
    T value;
    if (!read(value)) return truncated(what);
    return Json(value);
  }

  Result<Json> read_value(uint32_t type, const std::string& what, int depth) {
    switch (type) {
      case u8:
        return read_number<uint8_t>(what);
      case i8:
        return read_number<int8_t>(what);
      case u16:
        return read_number<uint16_t>(what);
      case i16:
        return read_number<int16_t>(what);
      case u32:
        return read_number<uint32_t>(what);
      case i32:
        return read_number<int32_t>(what);
      case u64:
        return read_number<uint64_t>(what);
      case i64:
        return read_number<int64_t>(what);
      case f32:
        return read_number<float>(what);
      case f64:
        return read_number<double>(what);
      case boolean: {
        uint8_t value;
        if (!read(value)) return truncated(what);
        return Json(value != 0);
      }
      case string: {
        TRY(auto text, read_string(kMaxString, what));
        return Json(std::move(text));
      }
      case array:
        return read_array(what, depth);
    }
    return invalid("{}: value type {} is not known", what, type);
  }

  // The type and the number of an array's elements.
  Result<std::pair<uint32_t, uint64_t>> read_array_head(const std::string& what) {
    uint32_t type;
    uint64_t count;
    if (!read(type) || !read(count)) return truncated(what);
    if (count > kMaxElements - elements_)
      return Error{ErrorKind::exhausted,
                   fmt::format("{}: {}: an array of {} elements; at most {} are read in all", path_, what,
                               count, kMaxElements)};
    if (count > left()) return truncated(what);  // an element takes a byte at least
    elements_ += count;
    return std::pair{type, count};
  }

  Result<Json> read_array(const std::string& what, int depth) {
    if (depth == kMaxNesting) return invalid("{}: arrays nested more than {} deep", what, kMaxNesting);
    TRY(const auto head, read_array_head(what));
    const auto [type, count] = head;
    Json out = Json::array();
    auto& items = out.get_ref<Json::array_t&>();
    items.reserve(count);
    for (uint64_t i = 0; i < count; i++) {
      TRY(auto item, read_value(type, what, depth + 1));
      items.push_back(std::move(item));
    }
    return out;
  }

  bool is_array_of_texts() const {
    uint32_t of;
    if (left() < sizeof(of)) return false;
    std::memcpy(&of, bytes_.data() + at_, sizeof(of));
    return of == string;
  }

  Result<std::vector<std::string_view>> read_texts(const std::string& what) {
    TRY(const auto head, read_array_head(what));
    std::vector<std::string_view> out;
    out.reserve(head.second);
    for (uint64_t i = 0; i < head.second; i++) {
      TRY(const auto text, read_text(kMaxString, what));
      out.push_back(text);
    }
    return out;
  }

  Result<void> parse_counts() {
    uint32_t version;
    if (bytes_.size() < 4 || std::memcmp(bytes_.data(), "GGUF", 4) != 0)
      return invalid("not a GGUF file{}", what_it_is_instead(bytes_));
    at_ = 4;
    if (!read(version) || !read(tensors_) || !read(keys_)) return truncated("its header");
    if (version == 1 || version > 3)
      return Error{
          ErrorKind::unsupported,
          (version & 0xffff) == 0
              ? path_ + ": a big-endian GGUF file; only little-endian ones are read"
              : fmt::format(
                    "{}: GGUF version {} is not supported, only 2 and 3: download a newer file of the "
                    "model",
                    path_, version)};
    if (version == 0) return invalid("GGUF version 0");
    if (keys_ > kMaxKeys) return invalid("{} metadata keys are absurd (at most {})", keys_, kMaxKeys);
    if (tensors_ > kMaxTensors) return invalid("{} tensors are absurd (at most {})", tensors_, kMaxTensors);
    return {};
  }

  Result<void> parse_key() {
    TRY(const std::string key, read_string(kMaxName, "a metadata key"));
    const std::string what = "metadata \"" + shown(key) + "\"";
    if (file_.metadata.contains(key) || file_.texts.contains(key)) return invalid("{} is there twice", what);
    uint32_t type;
    if (!read(type)) return truncated(what);
    const bool vocabulary = key == "tokenizer.ggml.tokens" || key == "tokenizer.ggml.merges";
    if (type == array && vocabulary && is_array_of_texts()) {
      TRY(file_.texts[key], read_texts(what));
      return {};
    }
    TRY(file_.metadata[key], read_value(type, what, 0));
    return {};
  }

  Result<uint64_t> find_alignment() const {
    const auto found = file_.metadata.find("general.alignment");
    if (found == file_.metadata.end()) return uint64_t{32};
    if (!found->is_number_unsigned()) return invalid("metadata \"general.alignment\" is not a whole number");
    const auto value = found->get<uint64_t>();
    if (value == 0 || value % 8 != 0 || value > kMaxAlignment)
      return invalid("metadata \"general.alignment\": {} is no sensible alignment", value);
    return value;
  }

  Result<void> parse_tensor(std::vector<uint64_t>& offsets) {
    TRY(std::string name, read_string(kMaxName, "a tensor name"));
    const std::string what = "tensor \"" + shown(name) + "\"";
    uint32_t rank, type;
    uint64_t offset;
    if (!read(rank)) return truncated(what);
    if (rank == 0 || rank > kMaxRank)
      return invalid("{}: {} dimensions; 1 to {} are read", what, rank, kMaxRank);
    GgufTensor tensor{std::move(name), nullptr, {}, {}};
    for (uint32_t i = 0; i < rank; i++) {
      uint64_t n;
      if (!read(n)) return truncated(what);
      if (n == 0 || n > kMaxDim) return invalid("{}: dimension {} is absurd", what, n);
      tensor.shape.insert(tensor.shape.begin(), static_cast<int64_t>(n));
    }
    if (!read(type) || !read(offset)) return truncated(what);
    tensor.type = find_gguf_type(type);
    if (!tensor.type) {
      Error why{ErrorKind::unsupported,
                fmt::format("{}: {}: type {} cannot be read; F32 F16 BF16, Q4_0 to Q8_0, Q2_K to Q6_K, "
                            "IQ1_S to IQ4_XS, TQ1_0 TQ2_0, MXFP4 and NVFP4 can",
                            path_, what, gguf_type_name(type))};
      file_.unread.push_back({std::move(tensor.name), std::move(tensor.shape), std::move(why)});
      return {};
    }
    offsets.push_back(offset);
    file_.tensors.push_back(std::move(tensor));
    return {};
  }

  // Finds each tensor's bytes, and checks that they lie in the file and do not overlap another tensor's.
  Result<void> place(const std::vector<uint64_t>& offsets, uint64_t alignment) {
    const uint64_t start = (at_ + alignment - 1) / alignment * alignment;
    const auto data = start <= bytes_.size() ? bytes_.subspan(start) : std::span<const std::byte>();
    for (size_t i = 0; i < offsets.size(); i++) {
      GgufTensor& tensor = file_.tensors[i];
      const std::string what = "tensor \"" + shown(tensor.name) + "\"";
      if (tensor.shape.back() % tensor.type->block != 0)
        return invalid("{}: rows of {} are not whole blocks of {} ({})", what, tensor.shape.back(),
                       tensor.type->block, tensor.type->name);
      uint64_t size = tensor.shape.back() / tensor.type->block * tensor.type->bytes;
      for (size_t d = 0; d + 1 < tensor.shape.size(); d++)
        if (__builtin_mul_overflow(size, static_cast<uint64_t>(tensor.shape[d]), &size))
          return invalid("{}: shape {} overflows", what, shape_text(tensor.shape));
      if (offsets[i] % alignment != 0)
        return invalid("{}: offset {} is not a multiple of the alignment {}", what, offsets[i], alignment);
      if (offsets[i] > data.size() || size > data.size() - offsets[i])
        return invalid(
            "{}: {} bytes from {} do not lie in the {} of the data: truncated or damaged: download it again",
            what, size, offsets[i], data.size());
      tensor.data = data.subspan(offsets[i], size);
    }
    return check_apart();
  }

  Result<void> check_apart() {
    auto& tensors = file_.tensors;
    std::sort(tensors.begin(), tensors.end(),
              [](const auto& a, const auto& b) { return a.data.data() < b.data.data(); });
    for (size_t i = 1; i < tensors.size(); i++)
      if (tensors[i].data.data() < tensors[i - 1].data.data() + tensors[i - 1].data.size())
        return invalid("tensor \"{}\" overlaps \"{}\"", shown(tensors[i].name), shown(tensors[i - 1].name));
    std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    for (size_t i = 1; i < tensors.size(); i++)
      if (tensors[i].name == tensors[i - 1].name)
        return invalid("tensor \"{}\" is there twice", shown(tensors[i].name));
    return {};
  }

  std::span<const std::byte> bytes_;
  const std::string& path_;
  uint64_t at_ = 0, tensors_ = 0, keys_ = 0;
  uint64_t elements_ = 0;  // of arrays so far
  uint64_t header_end_ = 0;
  bool cut_ = false;
  GgufFile file_;
};

}  // namespace

Result<GgufFile> parse_gguf(std::span<const std::byte> bytes, const std::string& path) {
  return Parser(bytes, path).parse();
}

uint64_t gguf_header_bytes(std::span<const std::byte> first) {
  constexpr uint64_t kLeast = 4096, kMuch = 1 << 20;
  if (first.size() < 4) return kLeast;
  if (std::memcmp(first.data(), "GGUF", 4) != 0) return 0;
  const std::string path = "a header";
  Parser parser(first, path);
  const auto parsed = parser.parse();
  if (parser.is_cut()) return std::max(kLeast, first.size() * (first.size() < kMuch ? 4 : 2));
  return parsed.ok() || parser.header_end() > 0 ? parser.header_end() : first.size();
}

}  // namespace anabranch
