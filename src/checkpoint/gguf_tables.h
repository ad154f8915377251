// Decoding of the GGUF types whose weights are table codes (IQ types, MXFP4, NVFP4), and of the ternary TQ
// types. The functions are those in GgufType: they decode one block to codes and scales.
#pragma once

#include <span>

#include "checkpoint/gguf_blocks.h"

namespace anabranch {

std::span<const GgufType> gguf_table_types();

}  // namespace anabranch
