#include "decode/ngram.h"

#include <algorithm>
#include <utility>

namespace anabranch {
namespace {

// The most earlier positions to compare, and the most tokens to compare at each. More would find little
// better.
constexpr int kMaxPositions = 64, kMaxLength = 64;

uint64_t key_at(std::span<const int> tokens, int end) {
  return static_cast<uint64_t>(static_cast<uint32_t>(tokens[end - 1])) << 32 |
         static_cast<uint32_t>(tokens[end]);
}

int equal_length(std::span<const int> tokens, int end) {
  const int last = static_cast<int>(tokens.size()) - 1, limit = std::min(kMaxLength, end + 1);
  int n = 0;
  while (n < limit && tokens[end - n] == tokens[last - n]) n++;
  return n;
}

}  // namespace

NgramIndex::Match NgramIndex::match(std::span<const int> tokens) {
  for (int end = static_cast<int>(before_.size()); end < static_cast<int>(tokens.size()); end++) {
    before_.push_back(-1);
    if (end == 0) continue;
    const auto [it, fresh] = last_.try_emplace(key_at(tokens, end), end);
    if (!fresh) before_[end] = std::exchange(it->second, end);
  }
  Match best;
  if (tokens.empty()) return best;
  int position = before_.back();
  for (int i = 0; i < kMaxPositions && position >= 0; i++, position = before_[position]) {
    const int length = equal_length(tokens, position);
    if (length > best.length) best = {position, length};
    if (length == kMaxLength) break;
  }
  return best;
}

std::vector<int> NgramIndex::follow(std::span<const int> tokens, const Match& match, int count) {
  std::vector<int> out;
  const int known = static_cast<int>(tokens.size());
  for (int i = match.end + 1; match.length > 0 && static_cast<int>(out.size()) < count; i++)
    out.push_back(i < known ? tokens[i] : out[i - known]);
  return out;
}

}  // namespace anabranch
