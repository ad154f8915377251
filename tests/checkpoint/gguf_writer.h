// Builds GGUF files for tests, byte by byte, so that they can be wrong on purpose.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace anabranch::testing {

template <class T>
std::string le(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(T));
}

inline std::string gguf_string(const std::string& text) {
  return le<uint64_t>(text.size()) + text;
}

// A GGUF file with further metadata, whose text GgufWriter::keys() gives.
inline std::string with_metadata(std::string file, std::string keys, uint64_t count) {
  constexpr size_t kCountAt = 16, kKeysAt = 24, kAlignment = 32;
  const size_t head = gguf_string("padding").size() + sizeof(uint32_t) + sizeof(uint64_t);
  const size_t fill = (2 * kAlignment - (keys.size() + head) % kAlignment) % kAlignment;
  keys += gguf_string("padding") + le<uint32_t>(8) + gguf_string(std::string(fill, ' '));
  uint64_t before = 0;
  std::memcpy(&before, file.data() + kCountAt, sizeof(before));
  file.replace(kCountAt, sizeof(before), le(before + count + 1));
  return file.insert(kKeysAt, keys);  // a multiple of the alignment: the tensors' offsets stay true
}

class GgufWriter {
 public:
  GgufWriter& key(const std::string& name, uint32_t type, const std::string& value) {
    keys_ += gguf_string(name) + le(type) + value;
    key_count_++;
    return *this;
  }
  GgufWriter& u32(const std::string& name, uint32_t value) { return key(name, 4, le(value)); }
  GgufWriter& u64(const std::string& name, uint64_t value) { return key(name, 10, le(value)); }
  GgufWriter& f32(const std::string& name, float value) { return key(name, 6, le(value)); }
  GgufWriter& text(const std::string& name, const std::string& value) {
    return key(name, 8, gguf_string(value));
  }

  GgufWriter& texts(const std::string& name, const std::vector<std::string>& values) {
    std::string list = le<uint32_t>(8) + le<uint64_t>(values.size());
    for (const auto& value : values) list += gguf_string(value);
    return key(name, 9, list);
  }
  GgufWriter& numbers(const std::string& name, const std::vector<int32_t>& values) {
    std::string list = le<uint32_t>(5) + le<uint64_t>(values.size());
    for (const int32_t value : values) list += le(value);
    return key(name, 9, list);
  }
  const std::string& keys() const { return keys_; }
  uint64_t key_count() const { return key_count_; }

  // dims: fastest first, as in the file. `offset`: where the data is said to lie (default: where it does).
  GgufWriter& tensor(const std::string& name, const std::vector<uint64_t>& dims, uint32_t type,
                     const std::string& data, int64_t offset = -1) {
    while (data_.size() % 32 != 0) data_ += '\0';
    infos_ += gguf_string(name) + le<uint32_t>(dims.size());
    for (uint64_t n : dims) infos_ += le(n);
    infos_ += le(type) + le<uint64_t>(offset < 0 ? data_.size() : static_cast<uint64_t>(offset));
    data_ += data;
    tensor_count_++;
    return *this;
  }

  // What a Llama needs: 1 layer, width 32, 2 heads.
  static GgufWriter llama(uint32_t layers = 1) {
    GgufWriter w;
    w.text("general.architecture", "llama").u32("llama.block_count", layers).u32("llama.context_length", 64);
    w.u32("llama.embedding_length", 32)
        .u32("llama.feed_forward_length", 32)
        .u32("llama.attention.head_count", 2)
        .f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
    w.tensor("token_embd.weight", {32, 1}, 0, std::string(128, '\0'));
    return w;
  }

  uint32_t version = 3;
  std::string magic = "GGUF";

  std::string bytes() const {
    std::string out = magic + le(version) + le(tensor_count_) + le(key_count_) + keys_ + infos_;
    while (out.size() % 32 != 0) out += '\0';
    return out + data_;
  }

 private:
  uint64_t tensor_count_ = 0, key_count_ = 0;
  std::string keys_, infos_, data_;
};

}  // namespace anabranch::testing
