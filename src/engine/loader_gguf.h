// Reads a tokenizer, a chat template and settings from the metadata of a GGUF file.
#pragma once

#include <map>
#include <string>

#include "checkpoint/checkpoint.h"
#include "tokenizer/tokenizer.h"

namespace anabranch {

bool is_gguf(const Checkpoint& checkpoint);

Result<GgufVocab> read_gguf_vocab(const Checkpoint& checkpoint);

// The same data as Hugging Face files, by name: tokenizer.json, tokenizer_config.json, generation_config.json
// (ids of BOS, of the tokens that end a turn, and of padding), and chat_template.jinja if there is a
// template. Errors: see tokenizer_files().
Result<std::map<std::string, std::string>> gguf_side_files(const Checkpoint& checkpoint);

}  // namespace anabranch
