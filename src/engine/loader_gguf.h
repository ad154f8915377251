// What a GGUF file's metadata say beside the weights.
#pragma once

#include <map>
#include <string>

#include "checkpoint/checkpoint.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

bool is_gguf(const Checkpoint& checkpoint);

Result<GgufVocab> read_gguf_vocab(const Checkpoint& checkpoint);

// The same in Hugging Face's files, by name: tokenizer.json, tokenizer_config.json, generation_config.json
// (ids of BOS, of the tokens that end a turn, and of padding), and chat_template.jinja where there is a
// template. Errors: as tokenizer_files().
Result<std::map<std::string, std::string>> gguf_side_files(const Checkpoint& checkpoint);

}  // namespace anabranch
