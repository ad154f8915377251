// A tokenizer of bytes and a few marks, for tests without a model.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/encode_limit.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

inline constexpr int kEndToken = 256, kBosToken = 257, kFakeVocab = 300;

// The marks of thoughts and calls that a model's vocabulary has, as tokens from kFirstTag on.
struct FakeTags {
  std::vector<std::string> texts = {"<think>", "</think>", "<tool_call>"};
  bool special = false;
};
inline constexpr int kFirstTag = 258;

// Token id = byte value; 256 and above are special, but for tags that are not. What is spelled like a tag in
// a prompt is bytes.
class FakeTokenizer final : public Tokenizer {
 public:
  FakeTags tags;
  FakeTokenizer() {
    for (int i = 0; i < 256; ++i) bytes_[i] = static_cast<char>(i);
  }
  std::vector<int> encode(std::string_view text, bool, EncodeLimit* limit = nullptr) const override {
    std::vector<int> ids;
    try {
      for (unsigned char c : text) {
        ids.push_back(c);
        if (limit) limit->check(ids.size());
      }
    } catch (const EncodeLimit::Stopped&) {
    }
    return ids;
  }
  std::vector<int> encode(std::span<const PromptPiece> pieces, SegmentMemo*, std::string_view,
                          EncodeLimit* limit = nullptr) const override {
    return encode(join({pieces.begin(), pieces.end()}), true, limit);
  }
  std::string_view token_bytes(int id) const override {
    if (id == kEndToken) return "<|end|>";
    if (is_tag(id)) return tags.texts[static_cast<size_t>(id - kFirstTag)];
    if (id < 0 || id > 255) return "";
    return {&bytes_[id], 1};
  }
  bool is_special(int id) const override { return id >= 256 && (tags.special || !is_tag(id)); }
  std::optional<int> find(std::string_view content) const override {
    const auto found = std::ranges::find(tags.texts, content);
    if (found == tags.texts.end()) return std::nullopt;
    return kFirstTag + static_cast<int>(found - tags.texts.begin());
  }
  // What a model writes: tags are tokens.
  std::vector<int> tokens_of(std::string_view text) const {
    std::vector<int> ids;
    while (!text.empty()) {
      int id = static_cast<unsigned char>(text[0]);
      size_t size = 1;
      for (const std::string& tag : tags.texts)
        if (text.starts_with(tag)) id = *find(tag), size = tag.size();
      ids.push_back(id);
      text.remove_prefix(size);
    }
    return ids;
  }
  int vocab_size() const override { return kFakeVocab; }
  std::optional<int> bos() const override { return kBosToken; }
  std::optional<int> eos() const override { return kEndToken; }
  bool add_bos() const override { return true; }
  std::string decode(std::span<const int> ids, bool) const override {
    std::string text;
    for (int id : ids) text += token_bytes(id);
    return text;
  }

 private:
  bool is_tag(int id) const {
    return id >= kFirstTag && id < kFirstTag + static_cast<int>(tags.texts.size());
  }
  char bytes_[256];
};

}  // namespace anabranch
