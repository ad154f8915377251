// Tokenizers from vocabularies that are not tokenizer.json. Each reader takes the file's content and the
// settings of the small files beside it.
//
// Errors: invalid (damaged; what and where), exhausted (a limit), unsupported.
#pragma once

#include <span>
#include <string_view>

#include "base/result.h"
#include "tokenizer/tokenizer_impl.h"
#include "tokenizer/tokenizer_settings.h"

namespace anabranch {

// SentencePiece's tokenizer.model, BPE or Unigram. The ids of a plain text are those of SentencePiece itself.
Result<TokenizerParts> read_sentencepiece_tokenizer(std::string_view bytes, TokenizerSettings settings);

// Mistral's tekken.json, which needs no other file.
Result<TokenizerParts> read_tekken_tokenizer(std::string_view json);

// tiktoken's own files, which hold ranks only. How a text is cut into words, and special tokens that no file
// names, stand in the Python code of their models, which the name of the file tells.
std::span<const std::string_view> tiktoken_files();
// name: one of these. Error (unsupported): the settings name another class of tokenizers.
Result<TokenizerParts> read_tiktoken_tokenizer(std::string_view name, std::string_view text,
                                               const TokenizerSettings& settings);

// GPT-2's vocab.json and merges.txt. The class in the settings decides how a text is cut into words.
Result<TokenizerParts> read_merges_tokenizer(std::string_view vocab, std::string_view merges,
                                             const TokenizerSettings& settings);

}  // namespace anabranch
