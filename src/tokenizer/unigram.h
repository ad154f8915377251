// Unigram language model tokens of one word: the split with the best sum of scores (Viterbi).
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "tokenizer/encode_limit.h"
#include "tokenizer/trie.h"
#include "tokenizer/vocab.h"

namespace anabranch {

class Unigram {
 public:
  Unigram() = default;
  // How scores are added up: as Hugging Face's tokenizers do it, or as SentencePiece does.
  enum class Sums { double_precision, single_precision };
  // scores by id. unk: id of the unknown token, or -1 (unknown text is then dropped). blocked (by id): tokens
  // that ordinary text must never become. The vocabulary must be complete.
  Unigram(const Vocab* vocab, std::vector<double> scores, int unk, bool byte_fallback,
          const std::vector<bool>& blocked, Sums sums = Sums::double_precision);
  // Appends the ids of a word of valid UTF-8. Linear in its length.
  void encode(std::string_view word, std::vector<int>& ids, EncodeLimit* limit = nullptr) const;
  // Whether all of a text becomes part of a token's text.
  bool keeps_all() const;

 private:
  void push_unknown(std::string_view text, std::vector<int>& ids) const;

  std::vector<double> scores_;
  double unk_score_ = 0;
  int unk_ = -1;
  bool byte_fallback_ = false;
  Sums sums_ = Sums::double_precision;
  std::array<int, 256> byte_ids_{};
  Trie trie_;
};

}  // namespace anabranch
