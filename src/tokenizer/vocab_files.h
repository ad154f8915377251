// Tokenizers from vocabularies that are not tokenizer.json. Each reader takes the file's content and the
// settings of the small files beside it.
//
// Errors: invalid (damaged; what and where), exhausted (a limit), unsupported.
#pragma once

#include <string_view>

#include "base/result.h"
#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/tokenizer_settings.h"

namespace anabranch {

// SentencePiece's tokenizer.model, BPE or Unigram. The ids of a plain text are those of SentencePiece itself.
Result<TokenizerParts> read_sentencepiece_tokenizer(std::string_view bytes, TokenizerSettings settings);

// Mistral's tekken.json, which needs no other file.
Result<TokenizerParts> read_tekken_tokenizer(std::string_view json);

// tiktoken's own file. `pre` says how a text is cut into words, as GGUF names it; the settings name the
// special tokens.
Result<TokenizerParts> read_tiktoken_tokenizer(std::string_view file, std::string_view pre,
                                               const TokenizerSettings& settings);

// GPT-2's vocab.json and merges.txt. The class in the settings decides how a text is cut into words.
Result<TokenizerParts> read_merges_tokenizer(std::string_view vocab, std::string_view merges,
                                             const TokenizerSettings& settings);

}  // namespace anabranch
