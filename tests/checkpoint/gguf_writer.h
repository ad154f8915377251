// Builds GGUF files for tests, byte by byte, so that they can be wrong on purpose.
#pragma once

#include <cstdint>
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

class GgufWriter {
 public:
  GgufWriter& key(const std::string& name, uint32_t type, const std::string& value) {
    keys_ += gguf_string(name) + le(type) + value;
    key_count_++;
    return *this;
  }
  GgufWriter& u32(const std::string& name, uint32_t value) { return key(name, 4, le(value)); }
  GgufWriter& text(const std::string& name, const std::string& value) {
    return key(name, 8, gguf_string(value));
  }

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
  static GgufWriter llama() {
    GgufWriter w;
    w.text("general.architecture", "llama").u32("llama.block_count", 1).u32("llama.context_length", 64);
    w.u32("llama.embedding_length", 32)
        .u32("llama.feed_forward_length", 32)
        .u32("llama.attention.head_count", 2);
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
