// A tokenizer as GGUF metadata: the inverse of Tokenizer::from_gguf.
#pragma once

#include <string>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

// Exports the tokenizer in a model's directory (Tokenizer::from_directory). The result gives the same tokens,
// which is tested on a text of many scripts. It uses llama.cpp's names. Errors: those of from_directory;
// unsupported (GGUF has no name for its pre-tokenizer, or no place for its rules).
Result<GgufVocab> export_gguf_vocab(const std::string& directory);

}  // namespace anabranch
