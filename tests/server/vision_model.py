"""A model that reads pictures, for tests: the default model with a random vision tower beside it. What it says of a
picture means nothing, but every path is the same as with a trained one.

    python vision_model.py MODEL DIRECTORY    makes it
"""

import json
import os
import struct
import sys

import numpy as np

HIDDEN, HEADS, INTERMEDIATE, DEPTH, PATCH, MERGE, TABLE = 64, 2, 128, 2, 16, 2, 16
# Special tokens of the default model that its conversations never use become those of pictures.
RENAMED = {"<jupyter_start>": "<|image_pad|>", "<gh_stars>": "<|vision_start|>", "<issue_start>": "<|vision_end|>"}


def write_safetensors(path, tensors):
    head, at = {}, 0
    for name, values in tensors.items():
        head[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(head).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in tensors.values():
            file.write(values.tobytes())


def tower(out, seed=11):
    random = np.random.default_rng(seed)
    tensors = {}

    def linear(name, rows, columns, gain=1.0):
        tensors[f"vision_tower.{name}.weight"] = (random.standard_normal((rows, columns)) * gain / columns**0.5).astype(np.float32)
        tensors[f"vision_tower.{name}.bias"] = (random.standard_normal(rows) * 0.02).astype(np.float32)

    def norm(name, size):
        tensors[f"vision_tower.{name}.weight"] = np.ones(size, np.float32)
        tensors[f"vision_tower.{name}.bias"] = np.zeros(size, np.float32)

    linear("patch_embed.proj", HIDDEN, 3 * 2 * PATCH * PATCH)
    name = "vision_tower.patch_embed.proj.weight"
    tensors[name] = tensors[name].reshape(HIDDEN, 3, 2, PATCH, PATCH)
    tensors["vision_tower.pos_embed.weight"] = (random.standard_normal((TABLE * TABLE, HIDDEN)) * 0.1).astype(np.float32)
    for i in range(DEPTH):
        norm(f"blocks.{i}.norm1", HIDDEN)
        norm(f"blocks.{i}.norm2", HIDDEN)
        linear(f"blocks.{i}.attn.qkv", 3 * HIDDEN, HIDDEN)
        linear(f"blocks.{i}.attn.proj", HIDDEN, HIDDEN)
        linear(f"blocks.{i}.mlp.linear_fc1", INTERMEDIATE, HIDDEN)
        linear(f"blocks.{i}.mlp.linear_fc2", HIDDEN, INTERMEDIATE)
    norm("merger.norm", HIDDEN)
    linear("merger.linear_fc1", HIDDEN * MERGE**2, HIDDEN * MERGE**2)
    linear("merger.linear_fc2", out, HIDDEN * MERGE**2, 0.5)
    return tensors


def make(model, directory):
    os.makedirs(directory, exist_ok=True)
    written = {"config.json", "tokenizer.json", "chat_template.jinja"}
    for name in os.listdir(model):
        target = os.path.join(directory, name)
        if name not in written and not os.path.lexists(target):
            os.symlink(os.path.abspath(os.path.join(model, name)), target)
    with open(os.path.join(model, "config.json")) as file:
        config = json.load(file)
    config["vision_config"] = {
        "model_type": "qwen3_5", "depth": DEPTH, "hidden_size": HIDDEN, "num_heads": HEADS, "intermediate_size": INTERMEDIATE,
        "patch_size": PATCH, "temporal_patch_size": 2, "spatial_merge_size": MERGE, "in_channels": 3,
        "num_position_embeddings": TABLE * TABLE, "out_hidden_size": config["text_config"]["hidden_size"],
        "hidden_act": "gelu_pytorch_tanh", "deepstack_visual_indexes": []}
    with open(os.path.join(directory, "config.json"), "w") as file:
        json.dump(config, file)
    with open(os.path.join(directory, "preprocessor_config.json"), "w") as file:
        json.dump({"image_processor_type": "Qwen2VLImageProcessorFast", "patch_size": PATCH, "temporal_patch_size": 2,
                   "merge_size": MERGE, "size": {"shortest_edge": 64 * 64, "longest_edge": 512 * 512},
                   "image_mean": [0.5] * 3, "image_std": [0.5] * 3}, file)
    with open(os.path.join(model, "tokenizer.json")) as file:
        tokenizer = file.read()
    for old, new in RENAMED.items():
        assert f'"{old}"' in tokenizer, old
        tokenizer = tokenizer.replace(f'"{old}"', f'"{new}"')
    with open(os.path.join(directory, "tokenizer.json"), "w") as file:
        file.write(tokenizer)
    with open(os.path.join(model, "chat_template.jinja")) as file:
        template = file.read()
    text = "{%- if item is mapping and 'text' in item -%}"
    assert text in template
    template = template.replace(text, "{%- if item is mapping and item.type == 'image' -%}"
                                "{{- '<|vision_start|><|image_pad|><|vision_end|>' -}}{%- elif item is mapping and 'text' in item -%}")
    with open(os.path.join(directory, "chat_template.jinja"), "w") as file:
        file.write(template)
    write_safetensors(os.path.join(directory, "vision.safetensors"), tower(config["text_config"]["hidden_size"]))
    return directory


if __name__ == "__main__":
    make(*sys.argv[1:3])
