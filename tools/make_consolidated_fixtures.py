#!/usr/bin/env python3
"""Writes golden cases of tests/models/data once more in Mistral's own layout: consolidated.safetensors, whose queries
and keys have their rows in interleaved pairs, and params.json. The goldens are those of the Hugging Face form
(tools/make_golden_logits.py). The opposite of Transformers' convert_ministral3_weights_to_hf.py.

    tools/make_consolidated_fixtures.py        needs numpy"""

import json
import os
import shutil
import struct

import numpy as np

DATA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "models", "data")
TOP = {"model.embed_tokens": "tok_embeddings", "model.norm": "norm", "lm_head": "output"}
LAYER = {"self_attn.q_proj": "attention.wq", "self_attn.k_proj": "attention.wk", "self_attn.v_proj": "attention.wv",
         "self_attn.o_proj": "attention.wo", "input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm",
         "mlp.gate_proj": "feed_forward.w1", "mlp.down_proj": "feed_forward.w2", "mlp.up_proj": "feed_forward.w3",
         "mlp.gate": "feed_forward.gate", "block_sparse_moe.gate": "feed_forward.gate"}
KEYS = {"hidden_size": "dim", "num_hidden_layers": "n_layers", "intermediate_size": "hidden_dim",
        "num_attention_heads": "n_heads", "num_key_value_heads": "n_kv_heads", "rms_norm_eps": "norm_eps",
        "vocab_size": "vocab_size", "tie_word_embeddings": "tied_embeddings",
        "max_position_embeddings": "max_position_embeddings"}


def read_tensors(path):
    """name -> (dtype, shape, bytes)"""
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    out = {}
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        out[name] = (tensor["dtype"], tensor["shape"], data[8 + size + begin:8 + size + end])
    return out


def write_tensors(path, tensors):
    header, parts, at = {}, [], 0
    for name, (dtype, shape, data) in sorted(tensors.items()):
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        parts.append(data)
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(parts))


def own_name(name):
    module, kind = name.rsplit(".", 1)
    if module in TOP:
        return f"{TOP[module]}.{kind}"
    layer, part = module.removeprefix("model.layers.").split(".", 1)
    experts = ".experts."
    if experts in part:
        expert, projection = part.split(experts)[1].split(".")
        projection = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}.get(projection, projection)
        return f"layers.{layer}.feed_forward.experts.{expert}.{projection}.{kind}"
    return f"layers.{layer}.{LAYER[part]}.{kind}"


def split_experts(tensors):
    """Transformers 5 stores the experts of a layer as one tensor; Mistral stores each alone."""
    out = {}
    for name, (dtype, shape, data) in tensors.items():
        if not name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            out[name] = (dtype, shape, data)
            continue
        each = len(data) // shape[0]
        for e in range(shape[0]):
            own = data[e * each:(e + 1) * each]
            start = name.rsplit(".", 1)[0] + f".{e}."
            if name.endswith("down_proj"):
                out[start + "w2.weight"] = (dtype, shape[1:], own)
            else:
                half = [shape[1] // 2, shape[2]]
                out[start + "w1.weight"] = (dtype, half, own[:each // 2])
                out[start + "w3.weight"] = (dtype, half, own[each // 2:])
    return out


def in_pairs(tensor, heads):
    """Rows (head, p, i) become (head, i, p)."""
    dtype, shape, data = tensor
    rows = np.frombuffer(data, np.uint8).reshape(heads, 2, shape[0] // heads // 2, -1)
    return dtype, shape, np.ascontiguousarray(rows.transpose(0, 2, 1, 3)).tobytes()


def params_of(config):
    params = {own: config[key] for key, own in KEYS.items() if config.get(key) is not None}
    params["head_dim"] = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    rope = config.get("rope_parameters") or {}
    params["rope_theta"] = rope.get("rope_theta", config.get("rope_theta", 10000.0))
    if rope.get("rope_type", rope.get("type")) == "yarn":
        params["yarn"] = {"original_max_position_embeddings": rope["original_max_position_embeddings"],
                          "factor": rope["factor"], "beta": rope["beta_fast"], "alpha": rope["beta_slow"],
                          "apply_scale": rope.get("mscale", 0) != rope.get("mscale_all_dim", 1)}
        if rope.get("llama_4_scaling_beta"):
            params["llama_4_scaling"] = {"original_max_position_embeddings": rope["original_max_position_embeddings"],
                                         "beta": rope["llama_4_scaling_beta"]}
    if config.get("layer_types"):
        windows = [config["sliding_window"] if kind == "sliding_attention" else None for kind in config["layer_types"]]
        # The list repeats itself.
        params["sliding_window"] = next(windows[:n] for n in range(1, len(windows) + 1)
                                        if windows[:n] * (len(windows) // n) == windows)
    elif config.get("sliding_window"):
        params["sliding_window"] = config["sliding_window"]
    if config.get("num_local_experts"):
        params["moe"] = {"num_experts": config["num_local_experts"],
                         "num_experts_per_tok": config["num_experts_per_tok"]}
    return params


def main():
    for name in ("ministral3", "ministral_windows", "mixtral"):
        source, target = os.path.join(DATA, name), os.path.join(DATA, name + "_consolidated")
        config = json.load(open(os.path.join(source, "model", "config.json")))
        shutil.rmtree(target, ignore_errors=True)
        os.makedirs(os.path.join(target, "model"))
        tensors = {}
        for file in sorted(os.listdir(os.path.join(source, "model"))):
            if file.endswith(".safetensors"):
                tensors |= read_tensors(os.path.join(source, "model", file))
        out = {}
        for key, tensor in split_experts(tensors).items():
            if key.endswith("self_attn.q_proj.weight"):
                tensor = in_pairs(tensor, config["num_attention_heads"])
            if key.endswith("self_attn.k_proj.weight"):
                tensor = in_pairs(tensor, config["num_key_value_heads"])
            out[own_name(key)] = tensor
        if not config.get("tie_word_embeddings", False) and "output.weight" not in out:
            raise SystemExit(f"{name} has no head")
        # What belongs to images is left aside.
        out["vision_encoder.ln_pre.weight"] = ("F32", [1], struct.pack("<f", 1))
        write_tensors(os.path.join(target, "model", "consolidated.safetensors"), out)
        with open(os.path.join(target, "model", "params.json"), "w") as file:
            json.dump(params_of(config), file, indent=1)
        index = json.load(open(os.path.join(source, "index.json")))
        with open(os.path.join(target, "index.json"), "w") as file:
            json.dump(index | {"data": f"../{name}/{index['data']}"}, file)
            file.write("\n")


if __name__ == "__main__":
    main()
