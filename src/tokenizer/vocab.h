// Token text <-> id: one arena of bytes, an index by id and an open-addressing hash table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace anabranch {

class Vocab {
 public:
  static constexpr int kMaxId = (1 << 22) - 1;

  void reserve(size_t tokens);
  // Gives id (0..kMaxId) the text. For a text that exists already, find() still returns its first id. False
  // if the id has another text.
  bool add(std::string_view text, int id);

  std::optional<int> find(std::string_view text) const {
    const int id = lookup(text);
    return id < 0 ? std::nullopt : std::optional<int>(id);
  }
  int lookup(std::string_view text) const;  // -1: not there
  // Empty for an id without a token.
  std::string_view text(int id) const {
    if (id < 0 || static_cast<size_t>(id) >= ranges_.size()) return {};
    return std::string_view(arena_).substr(ranges_[id].begin, ranges_[id].size);
  }
  bool has(int id) const { return id >= 0 && static_cast<size_t>(id) < ranges_.size() && ranges_[id].used; }
  int size() const { return static_cast<int>(ranges_.size()); }  // largest id + 1

 private:
  struct TextRange {
    uint32_t begin = 0;
    uint32_t size : 31 = 0;
    uint32_t used : 1 = 0;
  };
  // The range is repeated here: a look-up touches the slot and the text, and nothing else.
  struct Slot {
    uint32_t tag = 0;
    int32_t id = -1;
    uint32_t begin = 0, size = 0;
  };
  bool holds(const Slot& slot, uint32_t tag, std::string_view text) const {
    return slot.tag == tag && slot.size == text.size() &&
           std::string_view(arena_).substr(slot.begin, slot.size) == text;
  }
  void grow();
  std::string arena_;
  std::vector<TextRange> ranges_;
  std::vector<Slot> slots_;
  size_t count_ = 0;
};

}  // namespace anabranch
