#include "tokenizer/unigram.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "tokenizer/utf8.h"

namespace anabranch {

Unigram::Unigram(const Vocab* vocab, std::vector<double> scores, int unk, bool byte_fallback,
                 const std::vector<bool>& blocked, Sums sums)
    : scores_(std::move(scores)), unk_(unk), byte_fallback_(byte_fallback), sums_(sums) {
  std::vector<std::pair<std::string_view, int>> entries;
  for (size_t id = 0; id < scores_.size(); ++id) {
    const bool usable = id >= blocked.size() || !blocked[id];
    // If several tokens have the same text, the vocabulary decides, as for every lookup.
    if (usable)
      entries.emplace_back(vocab->text(static_cast<int>(id)),
                           vocab->lookup(vocab->text(static_cast<int>(id))));
  }
  trie_ = Trie(std::move(entries));
  // SentencePiece's penalty for unknown characters.
  unk_score_ = (scores_.empty() ? 0 : *std::min_element(scores_.begin(), scores_.end())) - 10.0;
  for (int b = 0; b < 256; ++b) byte_ids_[b] = vocab->lookup(fmt::format("<0x{:02X}>", b));
}

bool Unigram::keeps_all() const {
  return byte_fallback_ && std::all_of(byte_ids_.begin(), byte_ids_.end(), [](int id) { return id >= 0; });
}

void Unigram::encode(std::string_view word, std::vector<int>& ids, EncodeLimit* limit) const {
  struct Node {
    double score = 0;
    int id = -1;         // -1: unknown character
    int64_t begin = -1;  // -1: not reached
  };
  std::vector<Node> best(word.size() + 1);
  const auto offer = [&](size_t begin, size_t end, int id, double score) {
    Node& node = best[end];
    double total = best[begin].score + score;
    if (sums_ == Sums::single_precision) total = static_cast<float>(total);
    if (node.begin < 0 || total > node.score) node = {total, id, static_cast<int64_t>(begin)};
  };
  for (size_t pos = 0; pos < word.size();) {
    if (limit) limit->check(0);
    const size_t length = decode_utf8(word, pos).length;
    bool single = false;
    trie_.prefixes(word, pos, [&](size_t size, int id) {
      offer(pos, pos + size, id, scores_[id]);
      single |= size == length;
    });
    if (!single) offer(pos, pos + length, -1, unk_score_);
    pos += length;
  }

  const size_t first = ids.size();
  // Walk from the end: ids are appended backwards and reversed at the end. Neighbouring unknown characters
  // are fused.
  for (size_t end = word.size(); end > 0;) {
    size_t begin = best[end].begin;
    if (best[end].id >= 0 && best[end].id != unk_) {
      ids.push_back(best[end].id);
    } else {
      while (begin > 0 && (best[begin].id < 0 || best[begin].id == unk_)) begin = best[begin].begin;
      push_unknown(word.substr(begin, end - begin), ids);
    }
    end = begin;
  }
  std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end());
}

// Appends the ids for text that no token covers, in reverse order.
void Unigram::push_unknown(std::string_view text, std::vector<int>& ids) const {
  const auto has_byte = [&](char byte) { return byte_ids_[static_cast<uint8_t>(byte)] >= 0; };
  if (byte_fallback_ && std::all_of(text.begin(), text.end(), has_byte)) {
    for (size_t i = text.size(); i > 0; --i) ids.push_back(byte_ids_[static_cast<uint8_t>(text[i - 1])]);
  } else if (unk_ >= 0) {
    ids.push_back(unk_);
  }
}

}  // namespace anabranch
