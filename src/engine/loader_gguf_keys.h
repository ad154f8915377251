// Metadata about tokenizer and chat template for a GGUF file to be written.
#pragma once

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_keys.h"

namespace anabranch {

// Makes this metadata from the files beside the model's weights. If the source is a GGUF file, copies its
// metadata about the tokenizer and about the model's name and authors. The result is empty if there is no
// vocabulary. Errors: see export_gguf_vocab; invalid (a vocabulary smaller than the embedding table of added
// tokens, files that are not JSON).
Result<GgufKeys> gguf_keys_of(const Checkpoint& source);

}  // namespace anabranch
