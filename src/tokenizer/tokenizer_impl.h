// The parts that loaders (tokenizer.json, GGUF) pass to the tokenizer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "tokenizer/added_tokens.h"
#include "tokenizer/bpe.h"
#include "tokenizer/decoder.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pre_tokenizer.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unigram.h"
#include "tokenizer/vocab.h"

namespace anabranch {

// The limit for one token in a file.
constexpr size_t kMaxTokenBytes = 4096;

struct TokenizerParts {
  std::unique_ptr<Vocab> vocab = std::make_unique<Vocab>();  // the model points to it
  std::vector<AddedToken> added;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::variant<Bpe, Unigram> model;
  Decoder decoder;
  std::string bos, eos;  // contents; empty: none
  bool add_bos = false;
};

// By id: the control tokens among `added`, which the model itself must never produce.
std::vector<bool> control_ids(const std::vector<AddedToken>& added);
// Parses the contents of tokenizer.json and of tokenizer_config.json (may be empty).
Result<TokenizerParts> read_tokenizer_json(std::string_view json, std::string_view config);
Result<std::shared_ptr<const Tokenizer>> parse_tokenizer_json(std::string_view json, std::string_view config);
std::shared_ptr<const Tokenizer> make_tokenizer(TokenizerParts parts);
// The parts from which Tokenizer::from_file and Tokenizer::from_directory make a tokenizer.
Result<TokenizerParts> read_tokenizer_file(const std::string& tokenizer_json);
Result<TokenizerParts> read_tokenizer_directory(const std::string& directory);

}  // namespace anabranch
