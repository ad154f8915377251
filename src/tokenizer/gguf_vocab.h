// Helpers that both readers of a GgufVocab need: Tokenizer::from_gguf and the writer of tokenizer.json.
#pragma once

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/utf8.h"

namespace anabranch {

enum GgufTokenType { kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5, kByte = 6 };

// The meaning of a name in tokenizer.ggml.pre.
struct GgufPreTokenizer {
  std::string_view name;
  std::array<std::string_view, 6> patterns;  // applied one after another, all isolated; empty: unused
  bool nfc = false;
  bool ignore_merges = false;
  bool add_bos = false;  // when the file does not say
  bool ranked = false;   // a file without merges merges by id
};

// All of them. Among names with the same meaning, the one in llama.cpp's own files comes first.
std::span<const GgufPreTokenizer> gguf_pre_tokenizers();
// Error (unsupported): lists the names that are known.
Result<const GgufPreTokenizer*> find_gguf_pre_tokenizer(std::string_view name);
// The pre-tokenizer of a byte-level vocabulary. If the file does not name one, it is chosen by the model's
// architecture and a token that only one family has. Error (unsupported): an unknown name, or no name and no
// such token.
Result<const GgufPreTokenizer*> gguf_pre_tokenizer(const GgufVocab& vocab);

// SentencePiece's vocabularies ("llama") merge by score. Gemma 4's are like them, but have a list of merges.
bool is_sentencepiece(const GgufVocab& vocab);
bool has_listed_merges(const GgufVocab& vocab);

// A token's GgufTokenType, or 1 (normal). Gemma 4's control tokens for thoughts and calls are kControl here.
// llama.cpp's converter marks them user-defined, so that its output shows them.
int gguf_token_type(const GgufVocab& vocab, size_t id);

std::string gguf_token_text(const GgufVocab& vocab, size_t id);

// "a b" -> "a", "b". Error (invalid): not two tokens.
Result<std::pair<std::string_view, std::string_view>> split_gguf_merge(std::string_view merge, size_t rank);

}  // namespace anabranch
