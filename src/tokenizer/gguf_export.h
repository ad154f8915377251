// A tokenizer as GGUF metadata: the way back from Tokenizer::from_gguf.
#pragma once

#include <string>

#include "base/result.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

// Of the tokenizer in a model's directory (Tokenizer::from_directory). The result gives the same tokens,
// which is tried out on a text of many scripts. Its names are those that llama.cpp knows. Errors: as
// from_directory's; unsupported (GGUF has no name for how it cuts a text, or no place for its rules).
Result<GgufVocab> export_gguf_vocab(const std::string& directory);

}  // namespace anabranch
