// A SentencePiece model file (tokenizer.model) as plain data.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace anabranch {

struct SentencePieceModel {
  enum PieceType { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };
  struct Piece {
    std::string text;  // UTF-8; "▁" stands for a space
    float score = 0;
    PieceType type = kNormal;
  };
  std::vector<Piece> pieces;  // by id
  bool unigram = true;        // else BPE
  bool byte_fallback = false;
  int unk = 0, bos = 1, eos = 2;  // -1: none
  // Normalizer: changes to a text before it is split into pieces.
  std::string charsmap;  // see Charsmap; empty: every character stays as it is
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool escape_whitespaces = true;
};

// Parses the protocol buffer. Every score is finite, every piece has a text of 1 to kMaxTokenBytes bytes of
// UTF-8, and unk, bos and eos are ids of pieces or -1.
// Errors: invalid (damaged, or another format such as tiktoken's), exhausted (too many or too long pieces),
// unsupported (word and character models, white space as a suffix).
Result<SentencePieceModel> parse_sentencepiece(std::string_view bytes);

}  // namespace anabranch
