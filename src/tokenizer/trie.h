// A byte trie in one array. One walk finds all strings of a fixed set that start at a position of a text.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace anabranch {

class Trie {
 public:
  Trie() { root_.fill(-1); }
  // Empty strings are left out; of equal strings the first value counts.
  explicit Trie(std::vector<std::pair<std::string_view, int>> entries);

  // Calls visit(length, value) for each entry that text starts with at pos, shortest first.
  template <class Visit>
  void prefixes(std::string_view text, size_t pos, Visit visit) const {
    if (pos >= text.size()) return;
    int node = root_[static_cast<uint8_t>(text[pos])];
    for (size_t at = pos + 1; node >= 0; ++at) {
      if (nodes_[node].value >= 0) visit(at - pos, nodes_[node].value);
      if (at >= text.size()) return;
      node = child(node, text[at]);
    }
  }
  bool starts(char first) const { return root_[static_cast<uint8_t>(first)] >= 0; }
  bool empty() const { return nodes_.empty(); }

 private:
  struct Node {
    int32_t value = -1;
    int32_t first = 0;  // its children lie side by side, sorted by byte
    uint16_t count = 0;
    uint8_t byte = 0;
  };
  int child(int node, char byte) const;
  std::array<int32_t, 256> root_;
  std::vector<Node> nodes_;
};

}  // namespace anabranch
