#include "decode/suffix_index.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace anabranch {
namespace {

size_t room_for(size_t tokens) {
  return std::max(size_t{16}, std::bit_ceil(tokens));
}

// The hash of the last tokens up to `end`, as an index of a table whose size is a power of two.
size_t hash_of(std::span<const int> tokens, size_t end, int order, size_t table) {
  uint64_t h = static_cast<uint64_t>(order);
  for (size_t i = end + 1 - static_cast<size_t>(order); i <= end; i++)
    h = (h ^ static_cast<uint32_t>(tokens[i])) * 0x9e3779b97f4a7c15u;
  return (h ^ h >> 32) & (table - 1);
}

// The number of tokens before `next` in `tokens`, from `first` on, that equal the context's last ones.
int equal_length(std::span<const int> tokens, size_t first, size_t next, std::span<const int> context) {
  const size_t limit = std::min({next - first, context.size(), size_t{SuffixIndex::kMostLength}});
  size_t n = 0;
  while (n < limit && tokens[next - 1 - n] == context[context.size() - 1 - n]) n++;
  return static_cast<int>(n);
}

// The most frequent token. Among equally frequent ones the first wins, which is the latest match's.
struct Vote {
  int token = SuffixIndex::kEnd, count = 0;
};
Vote most_frequent(std::span<const int> tokens) {
  Vote best;
  for (const int token : tokens) {
    if (token == SuffixIndex::kEnd || token == best.token) continue;
    const auto n = static_cast<int>(std::count(tokens.begin(), tokens.end(), token));
    if (n > best.count) best = {token, n};
  }
  return best;
}

}  // namespace

void SuffixIndex::append(std::span<const int> tokens) {
  if (tokens_.size() + tokens.size() > room_) rebuild(room_for(size() + tokens.size()));
  const size_t from = tokens_.size();
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  link(from);
}

// Makes tables of the new size for the tokens that are not forgotten. Frees the old tables first, so that
// both never exist at once.
void SuffixIndex::rebuild(size_t room) {
  room_ = 0;  // stays 0 if an allocation below fails
  chains_ = {};
  std::vector<int> kept;
  kept.reserve(room);
  kept.assign(text().begin(), text().end());
  tokens_ = std::move(kept);
  first_ = 0;
  for (Chains& chains : chains_) {
    chains.last.assign(room, -1);
    chains.before.reserve(room);
  }
  room_ = room;
  link(0);
}

// Enters the positions from `from` on into the chains.
void SuffixIndex::link(size_t from) {
  for (size_t k = 0; k < kOrders.size(); k++) {
    const auto order = static_cast<size_t>(kOrders[k]);
    Chains& chains = chains_[k];
    chains.before.resize(tokens_.size(), -1);
    for (size_t end = std::max(from, order - 1); end < tokens_.size(); end++) {
      int32_t& last = chains.last[hash_of(tokens_, end, kOrders[k], chains.last.size())];
      chains.before[end] = last;
      last = static_cast<int32_t>(end);
    }
  }
}

void SuffixIndex::drop_front(size_t tokens) {
  first_ += std::min(tokens, size());
  if (first_ > tokens_.size() / 4) rebuild(room_for(size()));
}

// The longest matches, the latest first.
std::vector<SuffixIndex::Match> SuffixIndex::matches(std::span<const int> context) const {
  std::vector<Match> found;
  for (size_t k = kOrders.size(); k-- > 0 && found.empty();) {
    const int order = kOrders[k];
    const Chains& chains = chains_[k];
    if (context.size() < static_cast<size_t>(order) || chains.last.empty()) continue;
    int32_t end = chains.last[hash_of(context, context.size() - 1, order, chains.last.size())];
    int seen = 0;
    for (int step = 0; step < kMostSteps && seen < kMostMatches; step++, end = chains.before[end]) {
      if (end < static_cast<int32_t>(first_)) break;
      const size_t next = static_cast<size_t>(end) + 1;
      if (next == tokens_.size()) continue;  // nothing follows; if `own`, it is the context itself
      const int match = equal_length(tokens_, first_, next, context);
      if (match < order) continue;
      seen++;
      if (!found.empty() && match > found.front().match) found.clear();
      if (found.empty() || match == found.front().match) found.push_back({static_cast<int>(next), match});
    }
  }
  return found;
}

SuffixIndex::Proposal SuffixIndex::propose(std::span<const int> context, int count, bool own) const {
  Proposal proposal;
  std::vector<Match> alive = matches(context);
  if (alive.empty()) return proposal;
  proposal.match = alive.front().match;
  proposal.matches = static_cast<int>(alive.size());
  const auto token_at = [&](const Match& match, size_t i) {
    const size_t at = static_cast<size_t>(match.next) + i;
    if (at < tokens_.size()) return tokens_[at];
    return own ? proposal.tokens[at - tokens_.size()] : kEnd;
  };
  std::vector<int> nexts;
  for (size_t i = 0; i < static_cast<size_t>(count); i++) {
    nexts.clear();
    for (const Match& match : alive) nexts.push_back(token_at(match, i));
    const Vote vote = most_frequent(nexts);
    // Four of five matches must agree. The caller judges the first token.
    if (vote.count == 0 || (i > 0 && 5 * vote.count < 4 * static_cast<int>(alive.size()))) break;
    if (i == 0) proposal.agree = vote.count;
    std::erase_if(alive, [&](const Match& match) { return token_at(match, i) != vote.token; });
    proposal.tokens.push_back(vote.token);
  }
  if (proposal.tokens.empty()) proposal = {};
  return proposal;
}

size_t SuffixIndex::bytes_for(size_t room) {
  return sizeof(SuffixIndex) + room * (sizeof(int) + 2 * kOrders.size() * sizeof(int32_t));
}

size_t SuffixIndex::bytes_with(size_t tokens) const {
  return tokens_.size() + tokens > room_ ? bytes_for(room_for(size() + tokens)) : bytes();
}

}  // namespace anabranch
