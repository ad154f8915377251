// The settings in the small files beside a vocabulary (tokenizer_config.json, special_tokens_map.json,
// added_tokens.json, config.json), for vocabularies that are not tokenizer.json.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/tokenizer_impl.h"

namespace anabranch {

struct TokenizerSettings {
  std::optional<std::string> bos, eos;  // contents; "": the file says that there is none
  std::vector<std::string> special;     // contents of all tokens that a file gives a role ("pad_token", ...)
  std::optional<bool> add_bos;
  std::optional<bool> legacy;  // SentencePiece: the dummy prefix stands before each stretch of text
  bool add_prefix_space = false;
  std::string tokenizer_class;    // without "Fast"; "": not stated
  std::string model_type;         // of config.json; "": not stated
  std::vector<AddedToken> added;  // tokens with ids
};

// The texts of those files; "": there is no such file.
struct TokenizerSideFiles {
  std::string tokenizer_config, special_tokens_map, added_tokens, config;
};

// As Transformers reads them: with added_tokens_decoder in tokenizer_config.json the two older files do not
// count. Errors: invalid (not JSON, a field of the wrong type; the message names the file), exhausted (too
// many tokens).
Result<TokenizerSettings> read_tokenizer_settings(const TokenizerSideFiles& files);

// Gives `parts`, whose vocabulary is complete, the added tokens, BOS and EOS of the settings. A token without
// an id gets the next free one, special tokens of the settings are special. Errors: invalid (an id or a text
// that means two tokens), exhausted (ids beyond Vocab::kMaxId).
Result<void> apply_tokenizer_settings(const TokenizerSettings& settings, TokenizerParts& parts);

}  // namespace anabranch
