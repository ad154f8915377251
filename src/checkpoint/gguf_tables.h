// Decoding of the GGUF types whose weights are table codes (IQ types, MXFP4, NVFP4), and of the ternary TQ
// types. Functions are those of GgufType: one block to codes and scales.
#pragma once

#include <span>

#include "checkpoint/gguf_blocks.h"

namespace anabranch {

std::span<const GgufType> gguf_table_types();

}  // namespace anabranch
