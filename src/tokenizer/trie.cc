#include "tokenizer/trie.h"

#include <algorithm>

namespace anabranch {

Trie::Trie(std::vector<std::pair<std::string_view, int>> entries) {
  root_.fill(-1);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  entries.erase(std::unique(entries.begin(), entries.end(),
                            [](const auto& a, const auto& b) { return a.first == b.first; }),
                entries.end());
  if (!entries.empty() && entries.front().first.empty()) entries.erase(entries.begin());

  // Breadth first, so that siblings are neighbours. A range holds the entries that share their first `depth`
  // bytes.
  struct Range {
    size_t begin, end, depth;
    int node;  // -1: the root
  };
  std::vector<Range> queue = {{0, entries.size(), 0, -1}};
  for (size_t q = 0; q < queue.size(); ++q) {
    Range r = queue[q];
    if (r.node >= 0) {
      if (r.begin < r.end && entries[r.begin].first.size() == r.depth)
        nodes_[r.node].value = entries[r.begin++].second;
      nodes_[r.node].first = static_cast<int32_t>(nodes_.size());
    }
    while (r.begin < r.end) {
      const char byte = entries[r.begin].first[r.depth];
      size_t end = r.begin + 1;
      while (end < r.end && entries[end].first[r.depth] == byte) ++end;
      const int node = static_cast<int>(nodes_.size());
      nodes_.push_back({-1, 0, 0, static_cast<uint8_t>(byte)});
      if (r.node >= 0)
        ++nodes_[r.node].count;
      else
        root_[static_cast<uint8_t>(byte)] = node;
      queue.push_back({r.begin, end, r.depth + 1, node});
      r.begin = end;
    }
  }
}

int Trie::child(int node, char byte) const {
  const Node& n = nodes_[node];
  const auto want = static_cast<uint8_t>(byte);
  const auto begin = nodes_.begin() + n.first, end = begin + n.count;
  const auto it = std::lower_bound(begin, end, want, [](const Node& c, uint8_t b) { return c.byte < b; });
  return it != end && it->byte == want ? static_cast<int>(it - nodes_.begin()) : -1;
}

}  // namespace anabranch
