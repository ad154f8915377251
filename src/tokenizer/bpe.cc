#include "tokenizer/bpe.h"

#include <algorithm>
#include <string>

#include "base/outside_text.h"
#include "tokenizer/bpe_bytes.h"
#include "tokenizer/utf8.h"

namespace anabranch {
namespace {

constexpr size_t kShortWord = 48;  // symbols; up to here looking at every pair beats a heap
constexpr uint64_t kNever = UINT64_MAX;

uint64_t pair_key(int left, int right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
}
size_t slot_of(uint64_t key, size_t mask) {
  return (key * 0x9E3779B97F4A7C15u >> 20) & mask;
}

}  // namespace

Bpe::Bpe(const Vocab* vocab, Options options) : vocab_(vocab), options_(options) {
  for (int b = 0; b < 256; ++b) byte_ids_[b] = vocab->lookup(fmt::format("<0x{:02X}>", b));
}

std::vector<std::pair<int, int>> Bpe::merges() const {
  std::vector<Merge> in_order;
  for (const Merge& merge : merges_)
    if (merge.id >= 0) in_order.push_back(merge);
  std::ranges::sort(in_order, {}, &Merge::rank);
  std::vector<std::pair<int, int>> out;
  for (const Merge& merge : in_order)
    out.emplace_back(static_cast<int>(merge.pair >> 32), static_cast<int>(merge.pair & 0xffffffffu));
  return out;
}

void Bpe::reserve_merges(size_t count) {
  size_t capacity = 64;
  while (capacity < count * 2) capacity *= 2;
  CHECK(merge_count_ == 0);
  merges_.assign(capacity, {});
}

Result<void> Bpe::add_merge(std::string_view left, std::string_view right, uint32_t rank) {
  const int l = vocab_->lookup(left), r = vocab_->lookup(right);
  std::string joined(left);
  joined += right;
  // Merges mostly come in the order of their tokens, which saves the slowest look-up of the three.
  const bool in_order = vocab_->text(last_merged_ + 1) == joined;
  const int id = in_order ? last_merged_ + 1 : vocab_->lookup(joined);
  last_merged_ = id;
  if (l < 0 || r < 0 || id < 0) {
    return make_error(ErrorKind::invalid, "merge {} ('{}' + '{}'): token '{}' is not in the vocabulary", rank,
                      shown(left), shown(right),
                      shown(l < 0   ? left
                            : r < 0 ? right
                                    : joined));
  }
  if (blocked(id)) return {};
  CHECK((merge_count_ + 1) * 2 <= merges_.size(), "reserve_merges() came first with fewer");
  const uint64_t key = pair_key(l, r);
  const size_t mask = merges_.size() - 1;
  size_t i = slot_of(key, mask);
  while (merges_[i].id >= 0 && merges_[i].pair != key) i = (i + 1) & mask;
  if (merges_[i].id < 0) ++merge_count_;
  merges_[i] = {key, rank, id};  // if a pair is repeated, the last one counts
  return {};
}

const Bpe::Merge* Bpe::find_merge(int left, int right) const {
  if (merges_.empty()) return nullptr;
  const uint64_t key = pair_key(left, right);
  const size_t mask = merges_.size() - 1;
  for (size_t i = slot_of(key, mask); merges_[i].id >= 0; i = (i + 1) & mask) {
    if (merges_[i].pair == key) return &merges_[i];
  }
  return nullptr;
}

void Bpe::merge_by_score(const std::vector<float>& scores, Ties ties) {
  ties_ = ties;
  std::vector<float> sorted = scores;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  score_rank_.resize(scores.size());
  for (size_t id = 0; id < scores.size(); ++id) {
    const auto it = std::lower_bound(sorted.begin(), sorted.end(), scores[id], std::greater<>());
    score_rank_[id] = static_cast<uint32_t>(it - sorted.begin());
  }
}

void Bpe::merge_by_id() {
  std::vector<float> scores;  // exact: ids are below 2^24
  for (int id = 0; id < vocab_->size(); ++id) scores.push_back(static_cast<float>(-id));
  merge_by_score(scores, Ties::leftmost);
}

// The merge of symbol `left` with the next one, if there is one.
bool Bpe::candidate(std::string_view word, const std::vector<Symbol>& symbols, int left,
                    Candidate& out) const {
  const Symbol& a = symbols[left];
  if (a.next < 0) return false;
  const Symbol& b = symbols[a.next];
  if (score_rank_.empty()) {
    const Merge* merge = find_merge(a.id, b.id);
    if (!merge) return false;
    out = {merge->rank, left, merge->id};
    return true;
  }
  if (a.chars == 0 || b.chars == 0) return false;
  const int id = vocab_->lookup(word.substr(a.begin, a.size + b.size));
  if (id < 0 || static_cast<size_t>(id) >= score_rank_.size() || blocked(id)) return false;
  if (ties_ == Ties::leftmost) {
    out = {score_rank_[id], left, id};
    return true;
  }
  // Equal scores: the longer left part, then the longer right part, then the smaller id goes first.
  const uint64_t left_chars = 1023 - std::min(a.chars, 1023u), right_chars = 1023 - std::min(b.chars, 1023u);
  out = {static_cast<uint64_t>(score_rank_[id]) << 42 | left_chars << 32 | right_chars << 22 |
             static_cast<uint32_t>(id),
         left, id};
  return true;
}

// Splits a word into the tokens of its characters, with <0xHH> or unknown tokens for characters that the
// vocabulary lacks.
void Bpe::split(std::string_view word, std::vector<Symbol>& symbols) const {
  const auto push = [&](int id, size_t begin, size_t size, uint32_t chars) {
    const int index = static_cast<int>(symbols.size());
    symbols.push_back({id, static_cast<uint32_t>(begin), static_cast<uint32_t>(size), chars, index - 1, -1});
    if (index > 0) symbols[index - 1].next = index;
  };
  size_t unk_begin = 0, unk_size = 0;  // a pending unknown token
  const auto flush = [&] {
    if (unk_size > 0) push(options_.unk, unk_begin, unk_size, 0);
    unk_size = 0;
  };
  for (size_t pos = 0; pos < word.size();) {
    const size_t length = decode_utf8(word, pos).length;
    const std::string_view text = word.substr(pos, length);
    const int id = vocab_->lookup(text);
    const auto has_byte = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)] >= 0; };
    if (id >= 0) {
      flush();
      push(id, pos, length, 1);
    } else if (options_.byte_fallback && std::all_of(text.begin(), text.end(), has_byte)) {
      for (size_t i = 0; i < length; ++i) push(byte_ids_[static_cast<uint8_t>(text[i])], pos + i, 1, 0);
    } else if (options_.unk >= 0) {
      if (!options_.fuse_unk) flush();
      if (unk_size == 0) unk_begin = pos;
      unk_size += length;
    }
    pos += length;
  }
  flush();
}

void Bpe::merge_short(std::string_view word, std::vector<Symbol>& symbols) const {
  const int count = static_cast<int>(symbols.size());
  std::array<Candidate, kShortWord> best;
  for (int i = 0; i < count; ++i) {
    if (!candidate(word, symbols, i, best[i])) best[i].order = kNever;
  }
  for (;;) {
    int at = -1;
    uint64_t order = kNever;
    for (int i = 0; i >= 0; i = symbols[i].next) {
      if (best[i].order < order) order = best[at = i].order;
    }
    if (at < 0) return;
    Symbol& left = symbols[at];
    Symbol& right = symbols[left.next];
    left.id = best[at].id;
    left.size += right.size;
    left.chars += right.chars;
    left.next = right.next;
    right.size = 0;
    if (left.next >= 0) symbols[left.next].prev = at;
    if (!candidate(word, symbols, at, best[at])) best[at].order = kNever;
    if (left.prev >= 0 && !candidate(word, symbols, left.prev, best[left.prev]))
      best[left.prev].order = kNever;
  }
}

void Bpe::merge_long(std::string_view word, std::vector<Symbol>& symbols, std::vector<Candidate>& heap,
                     EncodeLimit* limit) const {
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.order != b.order ? a.order > b.order : a.left > b.left;
  };
  heap.clear();
  Candidate c;
  for (size_t i = 0; i < symbols.size(); ++i) {
    if (candidate(word, symbols, static_cast<int>(i), c)) heap.push_back(c);
  }
  std::make_heap(heap.begin(), heap.end(), later);
  const auto offer = [&](int left) {
    if (left < 0 || !candidate(word, symbols, left, c)) return;
    heap.push_back(c);
    std::push_heap(heap.begin(), heap.end(), later);
  };
  while (!heap.empty()) {
    if (limit) limit->check(0);
    std::pop_heap(heap.begin(), heap.end(), later);
    const Candidate top = heap.back();
    heap.pop_back();
    // Skip an outdated entry: if one of the symbols has merged since, the pair no longer exists.
    if (symbols[top.left].size == 0 || !candidate(word, symbols, top.left, c) || c.id != top.id) continue;
    Symbol& left = symbols[top.left];
    Symbol& right = symbols[left.next];
    left.id = top.id;
    left.size += right.size;
    left.chars += right.chars;
    left.next = right.next;
    right.size = 0;
    if (left.next >= 0) symbols[left.next].prev = top.left;
    offer(left.prev);
    offer(top.left);
  }
}

bool Bpe::keeps(uint8_t byte, bool byte_level) const {
  if (options_.unk >= 0) return !options_.fuse_unk;
  if (options_.byte_fallback)
    return std::all_of(byte_ids_.begin(), byte_ids_.end(), [](int id) { return id >= 0; });
  return byte_level && vocab_->lookup(byte_to_char(byte)) >= 0;
}

void Bpe::encode(std::string_view word, std::vector<int>& ids, EncodeLimit* limit) const {
  if (word.empty()) return;
  if (options_.ignore_merges) {
    const int id = vocab_->lookup(word);
    if (id >= 0 && !blocked(id)) {
      ids.push_back(id);
      return;
    }
  }
  // Reused between words of a thread; a huge word's memory is given back.
  thread_local std::vector<Symbol> symbols;
  thread_local std::vector<Candidate> heap;
  symbols.clear();
  split(word, symbols);
  if (symbols.empty()) return;
  if (symbols.size() <= kShortWord)
    merge_short(word, symbols);
  else
    merge_long(word, symbols, heap, limit);
  for (int i = 0; i >= 0; i = symbols[i].next) ids.push_back(symbols[i].id);
  if (symbols.capacity() > (1u << 16)) {
    std::vector<Symbol>().swap(symbols);  // `= {}` would keep the memory
    std::vector<Candidate>().swap(heap);
  }
}

}  // namespace anabranch
