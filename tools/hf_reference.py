"""Loads any checkpoint the engine reads into Hugging Face Transformers, in fp32 with exactly the stored weights.

MLX-quantised directories are dequantised here (w = q * scale + bias per group), GGUF files by gguf-py. Used by
eval_model.py and quantise_study.py as the reference the engine is compared with.
Needs torch, transformers >= 5.17, safetensors, numpy, ml_dtypes; for GGUF also gguf.
"""
import json
import pathlib

import ml_dtypes  # noqa: F401  (lets numpy hold bfloat16)
import numpy as np
import torch
import transformers
from safetensors import safe_open

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()


def load_tensors(path):
    """All tensors of a directory's model*.safetensors: name -> numpy array as stored."""
    out = {}
    for file in sorted(pathlib.Path(path).glob("model*.safetensors")):
        with safe_open(file, "np") as f:
            out |= {k: f.get_tensor(k) for k in f.keys()}
    return out


def unpack_codes(w, bits):
    """uint32 [rows, cols * bits / 32], a little-endian bit stream per row -> uint8 [rows, cols]."""
    rows = w.shape[0]
    stream = np.unpackbits(np.ascontiguousarray(w).view(np.uint8).reshape(rows, -1), axis=1, bitorder="little")
    return np.packbits(stream.reshape(rows, -1, bits), axis=2, bitorder="little")[:, :, 0]


def dequantise(w, scales, biases, bits, group):
    q = unpack_codes(w, bits).astype(np.float32).reshape(w.shape[0], -1, group)
    scales, biases = scales.astype(np.float32), biases.astype(np.float32)
    return (q * scales[..., None] + biases[..., None]).reshape(w.shape[0], -1)


def read_mlx(path):
    """A directory in mlx-lm's convention -> (text config, name -> float32), names and norms as Hugging Face's."""
    path = pathlib.Path(path)
    config = json.loads((path / "config.json").read_text())
    quant = config.get("quantization") or {}
    raw, out = load_tensors(path), {}
    stores_1_plus_w = any(name.endswith("conv1d.weight") for name in raw)  # of Qwen3.5's norms
    for name, v in raw.items():
        if name.endswith((".scales", ".biases")):
            continue
        module = name.removesuffix(".weight")
        if v.dtype == np.uint32:
            rule = quant.get(module, quant)
            v = dequantise(v, raw[module + ".scales"], raw[module + ".biases"], rule["bits"], rule["group_size"])
        v = v.astype(np.float32)
        if name.endswith("conv1d.weight"):
            v = np.ascontiguousarray(v.transpose(0, 2, 1))
        elif stores_1_plus_w and name.endswith("norm.weight") and ".linear_attn." not in name:
            v = v - 1
        out[name.removeprefix("language_model.")] = v
    return config.get("text_config", config), out


def from_state(config, tensors):
    """A Qwen3.5 model with these weights; anything missing or left over is an error."""
    config = transformers.Qwen3_5TextConfig(**config)
    with torch.device("meta"):
        model = transformers.Qwen3_5ForCausalLM._from_config(config, attn_implementation="eager", dtype=torch.float32)
    model = model.to_empty(device="cpu")
    state = {k: torch.from_numpy(v) for k, v in tensors.items() if not k.startswith("mtp.")}
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True, assign=True)
    if config.tie_word_embeddings:
        model.lm_head.weight = model.model.embed_tokens.weight  # one parameter, also after a move to a GPU
    rotary = type(model.model.rotary_emb)
    model.model.rotary_emb = rotary(config=config)  # its buffers are not in the state dict
    return model.eval().requires_grad_(False)


def from_quantised(path):
    """A model of the Llama family in mlx-lm's convention. Mixtures of experts have other names there: an error."""
    config, tensors = read_mlx(path)
    config = {k: v for k, v in config.items() if k not in ("quantization", "quantization_config", "dtype", "torch_dtype")}
    model = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(**config), attn_implementation="eager", dtype=torch.float32)
    state = {k: torch.from_numpy(v) for k, v in tensors.items()}
    if model.config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, strict=True)
    return model.eval().requires_grad_(False)


def load(path):
    path = pathlib.Path(path)
    if path.suffix == ".gguf":
        return transformers.AutoModelForCausalLM.from_pretrained(
            path.parent, gguf_file=path.name, dtype=torch.float32, attn_implementation="eager").eval()
    if any(".conv1d.weight" in k and v.shape[2] == 1 for k, v in load_tensors(path).items()):
        return from_state(*read_mlx(path))
    if json.loads((path / "config.json").read_text()).get("quantization"):
        return from_quantised(path)
    return transformers.AutoModelForCausalLM.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager").eval()
