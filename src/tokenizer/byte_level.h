// The steps around byte-level BPE, which GGUF, tekken.json and vocab.json with merges.txt share.
#pragma once

#include <span>
#include <string_view>

#include "tokenizer/tokenizer_impl.h"

namespace anabranch {

// Gives `parts` the normalizer, the pre-tokenizer and the decoder of byte-level BPE: words are cut by
// `patterns` one after another (empty ones are left out), and written in GPT-2's characters for bytes.
// Errors: those of Regex::compile.
Result<void> set_byte_level(std::span<const std::string_view> patterns, bool nfc, bool add_prefix_space,
                            TokenizerParts& parts);

}  // namespace anabranch
