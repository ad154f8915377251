#!/usr/bin/env python3
"""A random vision tower with the true shape of one of Qwen3.5's, for measurements beside llama.cpp.

  python tools/random_vision.py SHAPE --hf DIRECTORY [--gguf FILE]

--hf     adds the tower to a directory (model-vision.safetensors in bf16, preprocessor_config.json, and what
         config.json says of it; a directory without config.json gets one that holds no text model but its width)
--gguf   writes the same tower as llama.cpp's mtmd reads it: name it mmproj*.gguf and put it beside the model's file

Needs numpy, and for --gguf gguf-py. The weights are N(0, 1 / inputs), so that sizes stay as they are from layer to
layer; what the tower sees is noise.
"""
import argparse
import json
import math
import pathlib
import struct

import numpy as np

SHAPES = {
    "0.8b": dict(depth=12, hidden_size=768, intermediate_size=3072, num_heads=12, out_hidden_size=1024),
    "2b": dict(depth=24, hidden_size=1024, intermediate_size=4096, num_heads=16, out_hidden_size=2048),
    "4b": dict(depth=24, hidden_size=1024, intermediate_size=4096, num_heads=16, out_hidden_size=2560),
    "9b": dict(depth=27, hidden_size=1152, intermediate_size=4304, num_heads=16, out_hidden_size=4096),
    "27b": dict(depth=27, hidden_size=1152, intermediate_size=4304, num_heads=16, out_hidden_size=5120),
}
PATCH, TIME, MERGE, POSITIONS = 16, 2, 2, 2304
IMAGE, START, END, VIDEO = 248056, 248053, 248054, 248057


def tensors(s):
    """(name behind "model.visual.", shape, llama.cpp's name)"""
    h, f, merged = s["hidden_size"], s["intermediate_size"], s["hidden_size"] * MERGE**2
    yield "patch_embed.proj.weight", (h, 3, TIME, PATCH, PATCH), "v.patch_embd.weight"
    yield "patch_embed.proj.bias", (h,), "v.patch_embd.bias"
    yield "pos_embed.weight", (POSITIONS, h), "v.position_embd.weight"
    for i in range(s["depth"]):
        for name, rows, cols, other in (("attn.qkv", 3 * h, h, "attn_qkv"), ("attn.proj", h, h, "attn_out"),
                                        ("mlp.linear_fc1", f, h, "ffn_up"), ("mlp.linear_fc2", h, f, "ffn_down")):
            yield f"blocks.{i}.{name}.weight", (rows, cols), f"v.blk.{i}.{other}.weight"
            yield f"blocks.{i}.{name}.bias", (rows,), f"v.blk.{i}.{other}.bias"
        for name, other in (("norm1", "ln1"), ("norm2", "ln2")):
            for end in ("weight", "bias"):
                yield f"blocks.{i}.{name}.{end}", (h,), f"v.blk.{i}.{other}.{end}"
    for end in ("weight", "bias"):
        yield f"merger.norm.{end}", (h,), f"v.post_ln.{end}"
    for name, rows, other in (("linear_fc1", merged, "mm.0"), ("linear_fc2", s["out_hidden_size"], "mm.2")):
        yield f"merger.{name}.weight", (rows, merged), other + ".weight"
        yield f"merger.{name}.bias", (rows,), other + ".bias"


def numbers(name, shape, rng):
    if len(shape) == 1:
        return (1.0 if "norm" in name and name.endswith("weight") else 0.0) + 0.02 * rng.standard_normal(shape, np.float32)
    return rng.standard_normal(shape, np.float32) / math.sqrt(np.prod(shape[1:]))


def to_bf16(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def vision_config(s):
    return s | {"model_type": "qwen3_5_vision", "hidden_act": "gelu_pytorch_tanh", "in_channels": 3, "patch_size": PATCH,
                "spatial_merge_size": MERGE, "temporal_patch_size": TIME, "num_position_embeddings": POSITIONS,
                "deepstack_visual_indexes": []}


def write_directory(path, s, made):
    path.mkdir(parents=True, exist_ok=True)
    file = path / "config.json"
    config = json.loads(file.read_text()) if file.exists() else {"text_config": {"hidden_size": s["out_hidden_size"]}}
    if "text_config" not in config:
        config = {"text_config": config, "tie_word_embeddings": config.get("tie_word_embeddings", True)}
    config |= {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5", "image_token_id": IMAGE,
               "vision_start_token_id": START, "vision_end_token_id": END, "video_token_id": VIDEO,
               "vision_config": vision_config(s)}
    file.write_text(json.dumps(config, indent=1) + "\n")
    (path / "preprocessor_config.json").write_text(json.dumps({
        "image_processor_type": "Qwen2VLImageProcessorFast", "patch_size": PATCH, "merge_size": MERGE,
        "temporal_patch_size": TIME, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
        "size": {"shortest_edge": 65536, "longest_edge": 16777216}}, indent=1) + "\n")
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, x, _ in made:
        header["model.visual." + name] = {"dtype": "BF16", "shape": list(x.shape), "data_offsets": [at, at + 2 * x.size]}
        at += 2 * x.size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path / "model-vision.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, x, _ in made:
            out.write(to_bf16(x).tobytes())


def write_gguf(path, s, made):
    import gguf
    writer = gguf.GGUFWriter(path, "clip")
    writer.add_type("mmproj")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "qwen3vl_merger")
    writer.add_bool("clip.use_gelu", True)
    for key, value in {"image_size": int(POSITIONS**0.5) * PATCH, "patch_size": PATCH, "embedding_length": s["hidden_size"],
                       "feed_forward_length": s["intermediate_size"], "projection_dim": s["out_hidden_size"],
                       "block_count": s["depth"], "attention.head_count": s["num_heads"],
                       "spatial_merge_size": MERGE}.items():
        writer.add_uint32("clip.vision." + key, value)
    for key in ("image_mean", "image_std"):
        writer.add_array("clip.vision." + key, [0.5] * 3)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-6)
    writer.add_array("clip.vision.is_deepstack_layers", [False] * s["depth"])
    for name, x, other in made:
        plain = x.ndim == 1 or name.startswith("pos_embed")
        parts = {other + ".1" * t: np.ascontiguousarray(x[:, :, t]) for t in range(TIME)} if x.ndim == 5 else {other: x}
        for part, values in parts.items():
            writer.add_tensor(part, values.astype(np.float32 if plain or x.ndim == 5 else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--hf", type=pathlib.Path)
    parser.add_argument("--gguf", type=pathlib.Path)
    args = parser.parse_args()
    s, rng = SHAPES[args.shape], np.random.default_rng(0)
    made = [(name, numbers(name, shape, rng), other) for name, shape, other in tensors(s)]
    if args.hf:
        write_directory(args.hf, s, made)
    if args.gguf:
        write_gguf(args.gguf, s, made)


if __name__ == "__main__":
    main()
