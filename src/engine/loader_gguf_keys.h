// What a GGUF file that is to be written says about tokenizer and chat template.
#pragma once

#include "checkpoint/checkpoint.h"
#include "checkpoint/gguf_keys.h"

namespace anabranch {

// Of the files beside the model's weights; of a GGUF file its own metadata of the tokenizer, and those that
// name the model and its authors, as they are. Empty: there is no vocabulary. Errors: as export_gguf_vocab's;
// invalid (a vocabulary smaller than the embedding table of added tokens, files that are no JSON).
Result<GgufKeys> gguf_keys_of(const Checkpoint& source);

}  // namespace anabranch
