#!/usr/bin/env python3
"""Tiny random checkpoints and what Hugging Face Transformers computes with them, for tests/models.

  python tools/make_golden_logits.py tests/models/data [case ...]

Needs torch (CPU), transformers >= 5.17, safetensors, numpy, ml_dtypes, gguf; for GGUF cases LLAMA_CPP in the
environment, llama.cpp's source (tools/llama_cpp_gguf.py). For each case it writes

  <case>/model/       config.json + safetensors, in one of the naming worlds the loader must understand
  <case>/golden.bin   float32 little endian: log-probs, one row of `vocab` values per listed position
  <case>/index.json   {model, vocab, data, runs: [{prompt, positions, offset, greedy, greedy_gap}]}

`offset` is in bytes into golden.bin; `greedy` is the 20-token continuation that Transformers makes one token at a
time from its own cache; `greedy_gap` is the smallest top-2 distance of log-probs on that way (so a test knows that
the continuation is no near-tie). Everything is computed in fp32 from the weights exactly as they are stored.
"""
import argparse
import copy
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType
from gguf.quants import dequantize, quantize as quantize_gguf
from safetensors.numpy import load_file, save_file
from transformers.conversion_mapping import get_model_conversion_mapping

from transformers.models.mistral4 import modeling_mistral4 as mistral4

from golden_cases import CASES
from golden_hybrids import HYBRID_CASES, is_hybrid, random_hybrid
from golden_more import MORE_CASES

HERE = pathlib.Path(__file__).parent
BF16 = ml_dtypes.bfloat16
GREEDY = 20
# Transformers knows it only as a part of Mistral 3.
transformers.AutoModelForCausalLM.register(mistral4.Mistral4Config, mistral4.Mistral4ForCausalLM, exist_ok=True)


# ---------------------------------------------------------------- weights
def is_qwen35(config):
    """A hybrid: Gated DeltaNet layers, gated attention, norms stored as w for 1 + w."""
    return config["model_type"] in ("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next")


def is_gemma(config):
    return config["model_type"].startswith("gemma")


def is_sparse(config, layer):
    if "num_local_experts" in config:
        return True
    return "num_experts" in config and layer not in config.get("mlp_only_layers", []) \
        and (layer + 1) % config.get("decoder_sparse_step", 1) == 0


def is_offset_norm(name):
    """Qwen3.5's norms that Hugging Face stores as w and applies as 1 + w; the gated norm of a mixer is plain."""
    return name.endswith("norm.weight") and ".linear_attn." not in name


def random_weights(config, rng):
    """name -> float32 array, flat Hugging Face names. Scales keep every sub-layer's output comparable with the
    residual stream, attention neither flat nor one-hot, and logits at a standard deviation of about 2."""
    if is_hybrid(config):
        return random_hybrid(config, rng)
    h, f, vocab = config["hidden_size"], config.get("intermediate_size"), config["vocab_size"]
    heads, kv = config["num_attention_heads"], config["num_key_value_heads"]
    dim = config.get("head_dim", h // heads)
    qwen35 = is_qwen35(config)
    centre = 0.0 if qwen35 or config["model_type"] in ("gemma2", "gemma3_text") else 1.0
    out = {}

    def matrix(name, rows, cols, gain=1.0):
        out[name + ".weight"] = rng.standard_normal((rows, cols)) * gain / math.sqrt(cols)

    def norm(name, n, centre=centre):
        out[name + ".weight"] = centre + 0.15 * rng.standard_normal(n)

    def attention(p):
        matrix(p + "q_proj", heads * dim * (2 if qwen35 else 1), h, 1.5)
        matrix(p + "k_proj", kv * dim, h, 1.5)
        matrix(p + "v_proj", kv * dim, h, 1.5)
        matrix(p + "o_proj", h, heads * dim, 1.5)
        sizes = [("q_proj", heads * dim * (2 if qwen35 else 1)), ("k_proj", kv * dim), ("v_proj", kv * dim), ("o_proj", h)]
        biases = sizes[:3] if config["model_type"] == "qwen2" else sizes if config.get("attention_bias") else []
        for name, n in biases:
            out[p + name + ".bias"] = rng.standard_normal(n) * 0.5
        if qwen35 or config["model_type"] in ("qwen3", "qwen3_moe"):
            norm(p + "q_norm", dim)
            norm(p + "k_norm", dim)

    def gated_delta(p):
        hk, hv = config["linear_num_key_heads"], config["linear_num_value_heads"]
        dk, dv = config["linear_key_head_dim"], config["linear_value_head_dim"]
        channels = 2 * hk * dk + hv * dv
        if config["model_type"] == "qwen3_next":
            matrix(p + "in_proj_qkvz", channels + hv * dv, h, 1.5)
            matrix(p + "in_proj_ba", 2 * hv, h, 1.5)
        else:
            matrix(p + "in_proj_qkv", channels, h, 1.5)
            matrix(p + "in_proj_z", hv * dv, h, 1.5)
            matrix(p + "in_proj_b", hv, h, 1.5)
            matrix(p + "in_proj_a", hv, h, 1.5)
        out[p + "conv1d.weight"] = rng.standard_normal((channels, 1, config["linear_conv_kernel_dim"])) * 0.6
        out[p + "A_log"] = np.log(rng.uniform(0.3, 8, hv))
        step = np.exp(rng.uniform(math.log(1e-3), math.log(1e-1), hv))
        out[p + "dt_bias"] = step + np.log(-np.expm1(-step))  # inverse softplus
        norm(p + "norm", dv, 1.0)
        matrix(p + "out_proj", h, hv * dv, 1.5)

    def experts(p):
        mixtral = config["model_type"] == "mixtral"
        count = config.get("num_experts", config.get("num_local_experts"))
        size = f if mixtral else config["moe_intermediate_size"]
        p += "block_sparse_moe." if mixtral else "mlp."
        matrix(p + "gate", count, h, 3)
        if config["model_type"] == "qwen3_5_moe_text":  # fused
            out[p + "experts.gate_up_proj"] = rng.standard_normal((count, 2 * size, h)) * 1.5 / math.sqrt(h)
            out[p + "experts.down_proj"] = rng.standard_normal((count, h, size)) * 1.5 / math.sqrt(size)
        else:
            names = ("w1", "w3", "w2") if mixtral else ("gate_proj", "up_proj", "down_proj")
            for e in range(count):
                for name, rows, cols in zip(names, (size, size, h), (h, h, size)):
                    matrix(f"{p}experts.{e}.{name}", rows, cols, 1.5)
        if shared := config.get("shared_expert_intermediate_size"):
            matrix(p + "shared_expert.gate_proj", shared, h, 1.5)
            matrix(p + "shared_expert.up_proj", shared, h, 1.5)
            matrix(p + "shared_expert.down_proj", h, shared, 1.5)
            matrix(p + "shared_expert_gate", 1, h, 1.5)

    def block(p, mixer, sparse):
        if mixer == "linear_attention":
            gated_delta(p + "linear_attn.")
        else:
            attention(p + "self_attn.")
        if sparse:
            experts(p)
        else:
            matrix(p + "mlp.gate_proj", f, h, 1.5)
            matrix(p + "mlp.up_proj", f, h, 1.5)
            matrix(p + "mlp.down_proj", h, f, 1.5)
            if config.get("mlp_bias"):
                for name, n in (("gate_proj", f), ("up_proj", f), ("down_proj", h)):
                    out[f"{p}mlp.{name}.bias"] = rng.standard_normal(n) * 0.5
        norm(p + "input_layernorm", h)
        norm(p + "post_attention_layernorm", h)

    def gemma_block(i):
        p, four, kinds = f"model.layers.{i}.", config["model_type"] == "gemma4_text", config.get("layer_types")
        full = four and kinds[i] == "full_attention"
        d, shared = config["global_head_dim"] if full else dim, i >= layers - config.get("num_kv_shared_layers", 0)
        gain = 0.6 if four else 1.5  # Gemma 4's scores are not scaled, norms bound them
        matrix(p + "self_attn.q_proj", heads * d, h, gain)
        matrix(p + "self_attn.o_proj", h, heads * d, 1.5)
        if config["model_type"] != "gemma2":
            norm(p + "self_attn.q_norm", d, 0.4 if four else centre)
        if not shared:
            count = config.get("num_global_key_value_heads", kv) if full else kv
            matrix(p + "self_attn.k_proj", count * d, h, gain)
            if not (full and config.get("attention_k_eq_v")):
                matrix(p + "self_attn.v_proj", count * d, h, 1.5)
            if config["model_type"] != "gemma2":
                norm(p + "self_attn.k_norm", d, 0.4 if four else centre)
        width = f * (2 if shared and config.get("use_double_wide_mlp") else 1)
        matrix(p + "mlp.gate_proj", width, h, 1.5)
        matrix(p + "mlp.up_proj", width, h, 1.5)
        matrix(p + "mlp.down_proj", h, width, 1.5)
        for name in ("input", "post_attention", "pre_feedforward", "post_feedforward"):
            norm(f"{p}{name}_layernorm", h)
        if not four:
            return
        out[p + "layer_scalar"] = rng.uniform(0.5, 1.2, 1)
        if size := config["hidden_size_per_layer_input"]:
            matrix(p + "per_layer_input_gate", size, h, 1.5)
            matrix(p + "per_layer_projection", h, size, 1.5)
            norm(p + "post_per_layer_input_norm", h)
        if config.get("enable_moe_block"):
            count, size = config["num_experts"], config["moe_intermediate_size"]
            matrix(p + "router.proj", count, h, 3 * math.sqrt(h))
            out[p + "router.scale"] = rng.uniform(0.5, 1.5, h)
            out[p + "router.per_expert_scale"] = rng.uniform(0.5, 1.5, count)
            out[p + "experts.gate_up_proj"] = rng.standard_normal((count, 2 * size, h)) * 1.5 / math.sqrt(h)
            out[p + "experts.down_proj"] = rng.standard_normal((count, h, size)) * 1.5 / math.sqrt(size)
            for name in ("post_feedforward_layernorm_1", "pre_feedforward_layernorm_2", "post_feedforward_layernorm_2"):
                norm(p + name, h)

    layers = config["num_hidden_layers"]
    out["model.embed_tokens.weight"] = rng.standard_normal((vocab, h)) * 2 / math.sqrt(h)
    if size := config.get("hidden_size_per_layer_input"):
        matrix("model.embed_tokens_per_layer", config["vocab_size_per_layer_input"], layers * size, math.sqrt(layers))
        matrix("model.per_layer_model_projection", layers * size, h, math.sqrt(h))
        norm("model.per_layer_projection_norm", size)
    if is_gemma(config):  # embeddings are scaled: small ones, or a token would only ask for itself
        out["model.embed_tokens.weight"] *= 0.1
        for i in range(layers):
            gemma_block(i)
        norm("model.norm", h, centre + (9 if config["tie_word_embeddings"] else 0))
        if not config["tie_word_embeddings"]:
            matrix("lm_head", vocab, h, 2.0)
        return {k: v.astype(np.float32) for k, v in out.items()}
    for i in range(config["num_hidden_layers"]):
        block(f"model.layers.{i}.", config.get("layer_types", ["full_attention"] * (i + 1))[i], is_sparse(config, i))
    norm("model.norm", h)
    if not config["tie_word_embeddings"]:
        matrix("lm_head", vocab, h, 2.0)
    if config.get("mtp_num_hidden_layers"):
        matrix("mtp.fc", h, 2 * h)
        for name in ("mtp.pre_fc_norm_embedding", "mtp.pre_fc_norm_hidden", "mtp.norm"):
            norm(name, h)
        block("mtp.layers.0.", "full_attention", is_sparse(config, 0))
    return {k: v.astype(np.float32) for k, v in out.items()}


def drawn_weights(config, rng):
    """Random values for every tensor that Transformers' own class of this config has, by what its name says it is."""
    outer = TOWERS.get(config["model_type"])
    kind = transformers.AutoConfig.for_model(**(nested_config(config) if outer else config))
    with torch.device("meta"):
        model = (transformers.AutoModelForImageTextToText if outer else transformers.AutoModelForCausalLM).from_config(kind)
    tied, out = config["tie_word_embeddings"], {}
    for name, tensor in model.state_dict().items():
        if outer and ".language_model." not in name and not name.startswith("lm_head."):
            continue
        name = name.replace("model.language_model.", "model.")
        shape, gain = tuple(tensor.shape), 1.5
        if not shape:  # of xIELU
            values = np.array(0.4 if name.endswith(".beta") else -0.05)
        elif name.endswith(("bias", ".sinks")):
            values = rng.standard_normal(shape) * (1.5 if name.endswith(".sinks") else 0.3)
        elif name.endswith(("experts.gate_up_proj", "experts.down_proj")) and config["model_type"] == "gpt_oss":
            # Transposed. Large gates, which are clamped now and then.
            values = rng.standard_normal(shape) * (4.5 if "gate_up" in name else 0.7) / math.sqrt(shape[1])
        elif len(shape) == 1 and config["model_type"] in ("gemma", "vaultgemma", "nemotron"):  # 1 is added to it
            values = rng.uniform(-0.5, 0.5, shape) + (4 if tied and name == "model.norm.weight" else 0)
        elif len(shape) == 1:  # of a norm; tied: a large one at the end, or a token would only ask for itself
            values = rng.uniform(0.5, 1.5, shape) + (4 if tied and name == "model.norm.weight" else 0)
            if config["model_type"] == "step3p5" or (config["model_type"] == "muse_glimmer_text" and name.endswith("layernorm.weight")):
                values = values - 1  # stored as w for 1 + w
        elif name == "model.embed_tokens.weight":
            values = rng.standard_normal(shape) * 2 / math.sqrt(shape[1]) / config.get("embedding_multiplier", 1)
            values /= math.sqrt(shape[1]) if config["model_type"] in ("gemma", "vaultgemma") else 1  # multiplies it
        elif name == "lm_head.weight":
            if tied:
                continue
            values = rng.standard_normal(shape) * 4 / math.sqrt(shape[1])
        else:
            values = rng.standard_normal(shape) * gain / math.sqrt(shape[-1])
        out[name] = values.astype(np.float32)
    return out


def on_q8_0_grid(w):
    """What GGUF's Q8_0 keeps of a matrix. Other tensors are f16 or f32 in such a file."""
    if w.ndim == 2 and w.shape[1] % 32 == 0 or w.ndim == 3 and w.shape[1] > 1 and w.shape[2] % 32 == 0:
        return dequantize(quantize_gguf(w, GGMLQuantizationType.Q8_0), GGMLQuantizationType.Q8_0)
    return w.astype(np.float16).astype(np.float32)


def stored(weights, dtype):
    """Rounds to the stored type; like released Qwen3.5 files, A_log and the gated norm stay f32. Whole numbers stay."""
    if dtype == "q8_0":
        return {k: on_q8_0_grid(v) for k, v in weights.items()}
    kind = {"f32": np.float32, "f16": np.float16, "bf16": BF16}[dtype]
    whole = lambda k, v: k.endswith(("A_log", "linear_attn.norm.weight")) or v.dtype == np.int64
    return {k: v if whole(k, v) else v.astype(kind) for k, v in weights.items()}


# ---------------------------------------------------------------- MLX affine quantisation
def quantise(w, bits, group):
    """[out, in] -> uint32 codes packed as MLX does (little-endian bit stream per row), bf16 scales and biases."""
    rows, cols = w.shape
    g = w.reshape(rows, cols // group, group)
    low, high = g.min(-1), g.max(-1)
    scales = np.maximum((high - low) / (2**bits - 1), 1e-7).astype(BF16)
    biases = low.astype(BF16)
    q = np.rint((g - biases.astype(np.float32)[..., None]) / scales.astype(np.float32)[..., None])
    q = np.clip(q, 0, 2**bits - 1).astype(np.uint8)
    exact = q * scales.astype(np.float32)[..., None] + biases.astype(np.float32)[..., None]
    stream = np.unpackbits(q.reshape(rows, cols, 1), axis=2, bitorder="little")[:, :, :bits].reshape(rows, -1)
    packed = np.packbits(stream, axis=1, bitorder="little").view(np.uint32)
    return packed, scales, biases, exact.reshape(rows, cols).astype(np.float32)


def quantise_all(weights, quant):
    """Splits matrices into weight / scales / biases; returns (tensors to store, dequantised weights for the oracle)."""
    tensors, exact = {}, {}

    def add(module, name, w):
        """Stores one module; returns its exact values."""
        rule = quant.get(module, quant)
        matrix = name.endswith("weight") and w.ndim >= 2 and not module.endswith(("in_proj_a", "in_proj_b", "conv1d"))
        if not matrix or rule is False:
            tensors[name] = w
            return w
        flat = w.astype(np.float32).reshape(-1, w.shape[-1])
        packed, scales, biases, values = quantise(flat, rule["bits"], rule["group_size"])
        parts = {name: packed, module + ".scales": scales, module + ".biases": biases}
        tensors.update({k: v.reshape(*w.shape[:-1], -1) for k, v in parts.items()})
        return values.reshape(w.shape)

    for name, w in weights.items():
        if name.endswith("experts.gate_up_proj"):  # MLX keeps them apart
            p, half = name.replace("experts.gate_up_proj", "switch_mlp."), w.shape[1] // 2
            exact[name] = np.concatenate([add(p + m, p + m + ".weight", part) for m, part in
                                          (("gate_proj", w[:, :half]), ("up_proj", w[:, half:]))], axis=1)
        elif name.endswith("experts.down_proj"):
            p = name.replace("experts.down_proj", "switch_mlp.down_proj")
            exact[name] = add(p, p + ".weight", w)
        else:
            exact[name] = add(name.removesuffix(".weight"), name, w)
    return tensors, exact


# ---------------------------------------------------------------- MXFP4, as gpt-oss' files have it
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def mxfp4(w):
    """[..., in] -> codes [..., in / 32, 16], the first of two inputs in the low half, scales [..., in / 32]; the exact values."""
    g = np.ascontiguousarray(w).reshape(*w.shape[:-1], -1, 32)
    exponent = np.clip(np.floor(np.log2(np.maximum(np.abs(g).max(-1), 1e-30))) - 2, -127, 127)
    scaled = g / np.exp2(exponent)[..., None]
    codes = np.abs(np.abs(scaled)[..., None] - E2M1).argmin(-1).astype(np.uint8)
    exact = np.copysign(E2M1[codes], scaled) * np.exp2(exponent)[..., None]
    codes |= np.signbit(scaled).astype(np.uint8) << 3
    return codes[..., ::2] | codes[..., 1::2] << 4, (exponent + 127).astype(np.uint8), exact.reshape(w.shape).astype(np.float32)


def mxfp4_experts(tensors):
    """The experts' matrices as NAME_blocks and NAME_scales; returns (tensors to store, values for the oracle)."""
    out, exact = {}, {}
    for name, w in tensors.items():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            out[name + "_blocks"], out[name + "_scales"], values = mxfp4(w.astype(np.float32).transpose(0, 2, 1))
            exact[name] = np.ascontiguousarray(values.transpose(0, 2, 1))
        else:
            out[name] = exact[name] = w
    return out, exact


# ---------------------------------------------------------------- writing a directory
def to_mlx_names(tensors, config):
    out = {}
    for name, v in tensors.items():
        if name.endswith("conv1d.weight"):
            v = np.ascontiguousarray(v.transpose(0, 2, 1))
        elif is_offset_norm(name):
            v = (v.astype(np.float32) + 1).astype(v.dtype)
        out["language_model." + name] = v
    return out


# Text models that Transformers knows only as a part of another model, with a tower that is not stored: that model's type,
# its class, and what else its config needs.
TOWERS = {
    "step3p5": {"model_type": "step3p7", "architectures": ["Step3p7ForConditionalGeneration"], "image_token_id": 1000,
                "vision_config": {"width": 16, "layers": 1, "heads": 1, "image_size": 28, "mlp_ratio": 1.0}},
    "muse_glimmer_text": {"model_type": "muse_glimmer", "architectures": ["MuseGlimmerForConditionalGeneration"],
                          "out_hidden_size": 64, "projector_hidden_size": 16, "image_token_id": 1000, "video_token_id": 1001,
                          "vision_config": {"hidden_size": 16, "num_attention_heads": 1, "num_hidden_layers": 1,
                                            "intermediate_size": 16, "pos_emb_height": 4, "pos_emb_width": 4,
                                            "max_position_embeddings": 16}},
}


def nested_config(text, **more):
    if tower := TOWERS.get(text["model_type"]):
        config = tower | {"tie_word_embeddings": text["tie_word_embeddings"], "text_config": text} | more
        return copy.deepcopy(config)  # Transformers changes what it is given
    if text["model_type"] in ("ministral3", "mistral4"):
        return {"architectures": ["Mistral3ForConditionalGeneration"], "model_type": "mistral3",
                "tie_word_embeddings": text["tie_word_embeddings"], "text_config": text,
                "vision_config": {"model_type": "pixtral", "hidden_size": 16, "intermediate_size": 16, "head_dim": 16,
                                  "num_attention_heads": 1, "num_hidden_layers": 1, "image_size": 28}} | more
    if is_gemma(text):
        kind = text["model_type"].removesuffix("_text")
        return {"architectures": [kind.capitalize() + "ForConditionalGeneration"], "model_type": kind,
                "tie_word_embeddings": text["tie_word_embeddings"], "text_config": text} | more
    moe = "Moe" if "num_experts" in text else ""
    return {"architectures": [f"Qwen3_5{moe}ForConditionalGeneration"],
            "model_type": "qwen3_5_moe" if moe else "qwen3_5",
            "tie_word_embeddings": text["tie_word_embeddings"], "text_config": text} | more


def write_model(path, case, tensors):
    if case.get("world") == "gguf":
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as tmp:
            plain = pathlib.Path(tmp) / "m"
            mixture = (case["config"].get("num_experts_per_tok") or case["config"].get("moe_topk")) and case.get("drawn") and not case.get("mxfp4")
            write_model(plain, {"config": case["config"], "world": "published" if mixture else "hf", "mxfp4": case.get("mxfp4")}, tensors)
            kind = case.get("dtype", "f16")
            subprocess.run([sys.executable, HERE / "llama_cpp_gguf.py", os.environ["LLAMA_CPP"], plain, path.with_suffix(".gguf"), kind],
                           check=True)
            return
    if case.get("world") == "published":  # under the names of published files
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as tmp:
            nested = case["config"]["model_type"] in TOWERS
            write_model(pathlib.Path(tmp) / "m", {"config": case["config"], "world": "nested" if nested else "hf"}, tensors)
            whole = all(v.dtype == np.float32 for v in tensors.values())
            model = load(pathlib.Path(tmp) / "m").to(torch.float32 if whole else torch.bfloat16)
            model._weight_conversions = get_model_conversion_mapping(model)
            model.save_pretrained(path)
            (path / "generation_config.json").unlink(missing_ok=True)
            return
    path.mkdir(parents=True)
    config, world = case["config"], case.get("world", "hf")
    metadata = {"format": "pt"}
    if case.get("mxfp4"):
        config = config | {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}}
    if world == "nested":
        tensors = {"model.language_model." + k.removeprefix("model.") if k.startswith("model.") else k: v
                   for k, v in tensors.items()}
        config = nested_config(config)
    elif world in ("mlx", "mlxq"):
        tensors, metadata = to_mlx_names(tensors, config), {"format": "mlx"}
        config = nested_config(config)
        if world == "mlxq":
            config["quantization"] = {k if "." not in k else "language_model." + k: v
                                      for k, v in case["quant"].items()}
    (path / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    shards = case.get("shards", 1)
    if shards == 1:
        save_file(tensors, path / "model.safetensors", metadata=metadata)
        return
    names, where = sorted(tensors), {}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = {k: tensors[k] for k in names[i::shards]}
        save_file(part, path / file, metadata=metadata)
        where |= {k: file for k in part}
    index = {"metadata": {"total_size": sum(v.nbytes for v in tensors.values())}, "weight_map": where}
    (path / "model.safetensors.index.json").write_text(json.dumps(index) + "\n")


# ---------------------------------------------------------------- the oracle
def load(path):
    vision = json.loads((path / "config.json").read_text())["model_type"] in ("mistral3", "step3p7", "muse_glimmer")
    kind = transformers.AutoModelForImageTextToText if vision else transformers.AutoModelForCausalLM
    model, info = kind.from_pretrained(
        path, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    missing = [k for k in info["missing_keys"] if ".vision_" not in k and ".multi_modal_projector." not in k]
    bad = [k for k in info["unexpected_keys"] if not k.startswith("mtp.")] + missing
    bad += list(info["mismatched_keys"])
    if bad:
        raise SystemExit(f"{path}: Transformers did not load {bad}")
    model.set_experts_implementation("eager")  # the others refuse odd sizes
    return model.eval()


def log_probs(logits):
    return torch.log_softmax(logits.float(), -1)


@torch.no_grad()
def run(model, prompt, positions, stepwise=False):
    """Log-probs at `positions` from one pass or, stepwise, one token at a time; greedy continuation from the cache."""
    out = model(torch.tensor([prompt[:1] if stepwise else prompt]), use_cache=True)
    rows = log_probs(out.logits[0])
    for token in prompt[1:] if stepwise else []:
        out = model(torch.tensor([[token]]), past_key_values=out.past_key_values, use_cache=True)
        rows = torch.cat([rows, log_probs(out.logits[0])])
    cache, last, greedy, gaps = out.past_key_values, rows[-1], [], []
    for _ in range(GREEDY):
        top = last.topk(2)
        greedy.append(int(top.indices[0]))
        gaps.append(float(top.values[0] - top.values[1]))
        out = model(torch.tensor([[greedy[-1]]]), past_key_values=cache, use_cache=True)
        cache, last = out.past_key_values, log_probs(out.logits[0])[-1]
    whole = log_probs(model(torch.tensor([prompt + greedy])).logits[0])
    drift = float((whole[-1] - last).abs().max())
    if drift > 2e-4 and not stepwise:
        raise SystemExit(f"the oracle disagrees with itself, whole against step by step: {drift}")
    return rows[positions].numpy(), greedy, min(gaps), float(out.logits.std())


@torch.no_grad()
def run_whole(model, prompt, positions):
    """As run(), without a cache: with one, some hybrids' forward() is wrong when their first layer is recurrent."""
    whole = lambda tokens: log_probs(model(torch.tensor([tokens]), use_cache=False).logits[0])
    rows, tokens, gaps = whole(prompt), list(prompt), []
    for _ in range(GREEDY):
        top = whole(tokens)[-1].topk(2)
        tokens.append(int(top.indices[0]))
        gaps.append(float(top.values[0] - top.values[1]))
    return rows[positions].numpy(), tokens[len(prompt):], min(gaps), float(rows.std())


def make(case, seed):
    """(tensors to store, runs) for one seed."""
    config = case["config"]
    rng = np.random.default_rng(seed)
    draw = drawn_weights if case.get("drawn") else random_weights
    tensors = stored(draw(config, rng), case.get("dtype", "bf16"))
    if case.get("world") in ("mlx", "mlxq"):  # 1 + w is what gets rounded to bf16 there
        for k in filter(is_offset_norm, tensors):
            tensors[k] = ((tensors[k].astype(np.float32) + 1).astype(BF16).astype(np.float32) - 1).astype(BF16)
    exact = tensors
    if "quant" in case:
        tensors, exact = quantise_all(tensors, case["quant"])
    if case.get("mxfp4"):
        tensors, exact = mxfp4_experts(tensors)
    lengths = [1, 7, 70] + [300] * case.get("long", False)
    prompts = [rng.integers(3, config["vocab_size"], n).tolist() for n in lengths]
    if case.get("ends"):  # texts that end within the prompts
        for prompt in prompts:
            prompt[5::37] = [config["eos_token_id"][0]] * len(prompt[5::37])
    with tempfile.TemporaryDirectory() as tmp:
        plain = pathlib.Path(tmp) / "m"
        write_model(plain, {"config": config, "world": "nested" if config["model_type"] in TOWERS else "hf"}, exact)
        model = load(plain)
    runs = []
    for prompt in prompts:
        n = len(prompt)
        positions = list(range(n)) if n < 10 else sorted({*range(0, n, 5), n - 1})
        way = run_whole(model, prompt, positions) if is_hybrid(config) else \
            run(model, prompt, positions, case.get("stepwise", False))
        runs.append((prompt, positions, *way))
    return tensors, runs


def good(runs):
    """Neither near-ties nor a continuation that sticks to a few tokens."""
    return all(gap > 0.02 and len(set(greedy)) >= 8 for _, _, _, greedy, gap, _ in runs)


def write_case(root, name, case):
    for seed in range(1, 400):
        tensors, runs = make(case, seed)
        if good(runs):
            break
    else:
        raise SystemExit(f"{name}: no seed gives a continuation without near-ties")
    path = root / name
    shutil.rmtree(path, ignore_errors=True)
    write_model(path / "model", case, tensors)
    if case.get("world", "hf") == "nested":  # Transformers must read this world the same way
        again = run(load(path / "model"), runs[1][0], runs[1][1])
        assert np.array_equal(again[0], runs[1][2])
    entries, offset, data = [], 0, b""
    for prompt, positions, rows, greedy, gap, _ in runs:
        entries.append({"prompt": prompt, "positions": positions, "offset": offset, "greedy": greedy,
                        "greedy_gap": round(gap, 4)})
        data += rows.astype("<f4").tobytes()
        offset = len(data)
    (path / "golden.bin").write_bytes(data)
    index = {"model": "model.gguf" if case.get("world") == "gguf" else "model", "vocab": case["config"]["vocab_size"], "data": "golden.bin",
             "oracle": f"transformers {transformers.__version__}, torch {torch.__version__}, fp32", "seed": seed,
             "runs": entries}
    text = json.dumps(index, indent=1)
    (path / "index.json").write_text(compact(text) + "\n")
    size = sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
    print(f"{name}: seed {seed}, logits std {runs[-1][5]:.2f}, {size / 1024:.0f} KB", flush=True)


def compact(text):
    """Number lists on one line."""
    return re.sub(r"\[\s+([\d\s,]+?)\s+\]", lambda m: "[" + re.sub(r"\s+", " ", m.group(1)) + "]", text)


def write_cases(doc, cases, write):
    """The command line of a maker of goldens."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("case", nargs="*", help="only these")
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    for name in args.case or cases:
        write(args.out, name, cases[name])


if __name__ == "__main__":
    write_cases(__doc__, CASES | MORE_CASES | HYBRID_CASES, write_case)
