// A GGUF tokenizer in Hugging Face's files.
#pragma once

#include <string>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

struct TokenizerFiles {
  std::string tokenizer;  // tokenizer.json
  std::string config;     // tokenizer_config.json, without a chat template
};

// Files that give the tokens of Tokenizer::from_gguf(vocab). The merges of a SentencePiece vocabulary are
// derived from its scores as Transformers derives them. Errors: those of from_gguf; invalid (a token is not
// UTF-8), exhausted (too many merges).
Result<TokenizerFiles> tokenizer_files(const GgufVocab& vocab);

}  // namespace anabranch
