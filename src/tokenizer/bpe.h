// Byte pair encoding of one word: symbols are merged, best pair first, in O(n log n).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "tokenizer/encode_limit.h"
#include "tokenizer/vocab.h"

namespace anabranch {

class Bpe {
 public:
  struct Options {
    int unk = -1;  // token id for characters that the vocabulary lacks; -1: dropped, as Hugging Face does
    bool fuse_unk = false;       // neighbours become one unknown token
    bool byte_fallback = false;  // <0xHH> tokens before unk
    bool ignore_merges = false;  // a word that is a token stays whole
  };
  Bpe() = default;
  // The vocabulary must be complete and outlive the model.
  Bpe(const Vocab* vocab, Options options);

  // Merge number `rank` (0 first): the pair becomes the token of their joined text. Errors: invalid, naming
  // the token that the vocabulary lacks.
  Result<void> add_merge(std::string_view left, std::string_view right, uint32_t rank);
  void reserve_merges(size_t count);
  // Instead of merges: any two neighbours whose joined text is a token may merge, the highest score first
  // (SentencePiece; scores by id). Pairs of equal scores are ordered as in SentencePiece (the
  // leftmost first), or as in the merge list that Transformers derives from such a vocabulary.
  enum class Ties { leftmost, derived_merges };
  void merge_by_score(const std::vector<float>& scores, Ties ties);
  void merge_by_id();  // the lowest id first, as tiktoken does
  // Tokens (by id) that ordinary text must never become: control markers. Call before adding merges.
  void set_blocked(std::vector<bool> blocked) { blocked_ = std::move(blocked); }

  const Options& options() const { return options_; }
  // The ids of the two tokens of each merge, the first merge first.
  std::vector<std::pair<int, int>> merges() const;
  // Ranks by id, 0 for the best score; empty unless it merges by score.
  const std::vector<uint32_t>& score_ranks() const { return score_rank_; }

  // Appends the ids of a word of valid UTF-8.
  void encode(std::string_view word, std::vector<int>& ids, EncodeLimit* limit = nullptr) const;
  // Whether this byte of a text always becomes part of a token's text. byte_level: words are written in
  // GPT-2's characters for bytes.
  bool keeps(uint8_t byte, bool byte_level) const;

 private:
  struct Merge {
    uint64_t pair = UINT64_MAX;
    uint32_t rank = 0;
    int32_t id = -1;
  };
  struct Symbol {
    int id = 0;
    uint32_t begin = 0, size = 0;  // bytes of the word; size 0: merged into its left neighbour
    uint32_t chars = 0;            // 0: a fallback byte or unknown, which never merges by score
    int prev = -1, next = -1;
  };
  // The order of a merge: the smallest goes first, then the leftmost.
  struct Candidate {
    uint64_t order = 0;
    int left = 0;
    int id = 0;
  };

  bool blocked(int id) const { return static_cast<size_t>(id) < blocked_.size() && blocked_[id]; }
  const Merge* find_merge(int left, int right) const;
  void split(std::string_view word, std::vector<Symbol>& symbols) const;
  bool candidate(std::string_view word, const std::vector<Symbol>& symbols, int left, Candidate& out) const;
  void merge_short(std::string_view word, std::vector<Symbol>& symbols) const;
  void merge_long(std::string_view word, std::vector<Symbol>& symbols, std::vector<Candidate>& heap,
                  EncodeLimit* limit) const;

  const Vocab* vocab_ = nullptr;
  Options options_;
  std::array<int, 256> byte_ids_{};
  std::vector<Merge> merges_;
  size_t merge_count_ = 0;
  int last_merged_ = -1;
  std::vector<bool> blocked_;
  std::vector<uint32_t> score_rank_;  // by id: 0 = the best score; empty unless merge_by_score
  Ties ties_ = Ties::derived_merges;
};

}  // namespace anabranch
