#!/usr/bin/env python3
"""Writes src/checkpoint/gguf_grids.cc: make_gguf_grids.py > FILE. The codebooks of GGUF's IQ types are part of the file
format; the numbers come from the `gguf` package (0.19), which holds them packed in the same way."""
import gguf.quants as q

GRIDS = [("kGridIq2Xxs", q.IQ2_XXS), ("kGridIq2Xs", q.IQ2_XS), ("kGridIq2S", q.IQ2_S), ("kGridIq3Xxs", q.IQ3_XXS),
         ("kGridIq3S", q.IQ3_S), ("kGridIq1", q.IQ1_S)]

print("// Made by tools/make_gguf_grids.py.\n#include \"checkpoint/gguf_grids.h\"\n\nnamespace anabranch {\n\n// clang-format off")
for name, kind in GRIDS:
    raw = bytes.fromhex(kind.grid_hex.decode())
    words = [raw[i] | raw[i + 1] << 8 for i in range(0, len(raw), 2)]
    assert len(words) == kind.grid_shape[0]
    print(f"const uint16_t {name}[{len(words)}] = {{")
    for i in range(0, len(words), 16):
        print("".join(f"{w}," for w in words[i : i + 16]))
    print("};")
print("// clang-format on\n\n}  // namespace anabranch")
