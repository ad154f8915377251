// A GgufVocab in the plain binary form that tools/tokenizer_oracle.py writes: little-endian uint32 counts and
// lengths, then the items.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

class DumpReader {
 public:
  explicit DumpReader(std::string_view bytes) : bytes_(bytes) {}
  bool ok() const { return ok_; }

  template <class T>
  T number() {
    T value{};
    if (bytes_.size() < sizeof(T)) return fail(), value;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    bytes_.remove_prefix(sizeof(T));
    return value;
  }
  std::string string() {
    const auto size = number<uint32_t>();
    if (bytes_.size() < size) return fail(), std::string();
    std::string s(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return s;
  }
  template <class T, class Read>
  std::vector<T> list(Read read) {
    std::vector<T> items;
    for (auto left = number<uint32_t>(); ok_ && left > 0; --left) items.push_back(read());
    return items;
  }

 private:
  void fail() {
    ok_ = false;
    bytes_ = {};
  }
  std::string_view bytes_;
  bool ok_ = true;
};

inline Result<GgufVocab> read_gguf_dump(std::string_view bytes) {
  DumpReader in(bytes);
  if (in.string() != "gguf vocabulary") return make_error(ErrorKind::invalid, "not a vocabulary dump");
  GgufVocab v;
  v.model = in.string();
  v.pre = in.string();
  v.tokens = in.list<std::string>([&] { return in.string(); });
  v.scores = in.list<float>([&] { return in.number<float>(); });
  v.types = in.list<int32_t>([&] { return in.number<int32_t>(); });
  v.merges = in.list<std::string>([&] { return in.string(); });
  for (int* id : {&v.bos, &v.eos, &v.unk, &v.pad}) *id = in.number<int32_t>();
  for (auto* flag : {&v.add_bos, &v.add_space_prefix}) {
    const auto value = in.number<int32_t>();
    if (value >= 0) *flag = value != 0;
  }
  if (!in.ok()) return make_error(ErrorKind::invalid, "vocabulary dump is cut short");
  return v;
}

}  // namespace anabranch
