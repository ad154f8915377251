#!/usr/bin/env python3
"""Writes tests/checkpoint/data: make_checkpoint_fixtures.py [OUT]. Needs numpy, gguf 0.19 and ml_dtypes.

quants.gguf          a tensor of every GGUF type we read ("Q4_K.weight"), and beside each what gguf-py dequantises it
                     to ("Q4_K.expected", F32)
table_quants.gguf    the same for types of table codes and ternary ones, which gguf-py decodes only: random bytes with
                     sensible scales; and a matrix of NVFP4 with a factor beside it
llama/, llama.gguf   the same tiny Llama as a Hugging Face directory and as GGUF (rotary rows permuted)
qwen35/, qwen35.gguf the same tiny Qwen3.5 with 2 key and 4 value heads and an MTP head, likewise (norms + 1,
                     -exp(A_log), value heads reordered, recurrent output projection in Q8_0)
"""
import json
import pathlib
import struct
import sys

import gguf
import ml_dtypes
import numpy as np
from gguf.quants import dequantize, quantize

out = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/checkpoint/data")
out.mkdir(parents=True, exist_ok=True)
rng = np.random.default_rng(20261121)
Q = gguf.GGMLQuantizationType
VOCAB, HIDDEN, FFN = 8, 32, 48


def writer(name, arch, **extra):
    w = gguf.GGUFWriter(out / name, arch)
    w.add_block_count(extra.get("layers", 1))
    w.add_context_length(128)
    w.add_embedding_length(HIDDEN)
    w.add_feed_forward_length(FFN)
    w.add_head_count(extra.get("heads", 2))
    w.add_head_count_kv(extra.get("kv_heads", 1))
    w.add_layer_norm_rms_eps(1e-6)
    w.add_rope_freq_base(extra.get("theta", 1e5))
    w.add_tokenizer_model("gpt2")
    w.add_token_list([f"t{i}" for i in range(VOCAB)])
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    return w


def close(w):
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def add(w, name, values, kind=Q.F32):
    if kind == Q.F32:
        w.add_tensor(name, np.ascontiguousarray(values, np.float32))
    else:
        w.add_tensor(name, quantize(np.ascontiguousarray(values, np.float32), kind), raw_dtype=kind)


# ---------------------------------------------------------------- every type

# Bytes of a block, and where its halves lie: K-quants are random bytes with sensible halves, since gguf-py cannot
# make them.
K_QUANTS = {Q.Q2_K: (84, (80, 82)), Q.Q3_K: (110, (108,)), Q.Q4_K: (144, (0, 2)), Q.Q5_K: (176, (0, 2)), Q.Q6_K: (210, (208,))}


def all_types():
    w = writer("quants.gguf", "llama")
    add(w, "token_embd.weight", np.zeros((VOCAB, HIDDEN)))
    for kind in (Q.F16, Q.BF16, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0):
        raw = quantize(rng.standard_normal((3, 64)).astype(np.float32), kind)
        w.add_tensor(f"{kind.name}.weight", raw, raw_dtype=kind)
        add(w, f"{kind.name}.expected", dequantize(raw, kind))
    for kind, (size, halves) in K_QUANTS.items():
        raw = rng.integers(0, 256, (2, 2 * size), np.uint8)
        for block in (0, size):
            for at in halves:
                d = rng.uniform(-0.02, 0.02, 2).astype(np.float16)
                raw[:, block + at : block + at + 2] = d.view(np.uint8).reshape(2, 2)
        w.add_tensor(f"{kind.name}.weight", raw, raw_dtype=kind)
        add(w, f"{kind.name}.expected", dequantize(raw, kind))
    close(w)


# Bytes of a block of 256, 64 or 32 weights, and where its halves lie.
TABLES = {Q.IQ1_S: (50, 0), Q.IQ1_M: (56, None), Q.IQ2_XXS: (66, 0), Q.IQ2_XS: (74, 0), Q.IQ2_S: (82, 0),
          Q.IQ3_XXS: (98, 0), Q.IQ3_S: (110, 0), Q.IQ4_NL: (18, 0), Q.IQ4_XS: (136, 0), Q.TQ1_0: (54, 52),
          Q.TQ2_0: (66, 64), Q.MXFP4: (17, None), Q.NVFP4: (36, None)}


def table_types():
    own = np.random.default_rng(20261125)
    w = writer("table_quants.gguf", "llama")
    add(w, "token_embd.weight", np.zeros((VOCAB, HIDDEN)))
    for kind, (size, at) in TABLES.items():
        raw = own.integers(0, 256, (3, 2 * size), np.uint8)
        for block in (0, size):
            if at is not None:
                d = own.uniform(-0.02, 0.02, 3).astype(np.float16)
                raw[:, block + at : block + at + 2] = d.view(np.uint8).reshape(3, 2)
            if kind == Q.IQ1_M:  # the halves' upper bits: an exponent of about 2^-8
                raw[:, block + 55] = raw[:, block + 55] & 0x8F | 0x10
            if kind == Q.MXFP4:
                raw[:, block] = own.integers(110, 125, 3)
            if kind == Q.NVFP4:
                raw[:, block : block + 4] &= 0x7F
        w.add_tensor(f"{kind.name}.weight", raw, raw_dtype=kind)
        add(w, f"{kind.name}.expected", dequantize(raw, kind))
    w.add_tensor("blk.0.attn_v.weight", raw, raw_dtype=Q.NVFP4)
    add(w, "blk.0.attn_v.scale", np.array([3.0]))
    add(w, "blk.0.attn_v.input_scale", np.array([0.5]))
    w.add_tensor("blk.0.ffn_up_exps.weight", raw.reshape(3, 1, -1), raw_dtype=Q.NVFP4)
    add(w, "blk.0.ffn_up_exps.scale", np.array([1.0, 3.0, 5.0]))
    close(w)


# ---------------------------------------------------------------- the same model twice


def bf16(values):
    return np.asarray(values, np.float32).astype(ml_dtypes.bfloat16)


def save_hf(name, config, tensors):
    directory = out / name
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for key, value in tensors.items():
        raw = bf16(value).tobytes()
        header[key] = {"dtype": "BF16", "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    (directory / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def matrix(*shape):
    return bf16(rng.standard_normal(shape) * 0.05).astype(np.float32)


def vector(n, centre=0.0):
    return bf16(centre + rng.standard_normal(n) * 0.1).astype(np.float32)


def attention(p, heads, kv_heads, dim, gate=False, norms=True, bias=False):
    t = {
        p + "self_attn.q_proj.weight": matrix(heads * dim * (2 if gate else 1), HIDDEN),
        p + "self_attn.k_proj.weight": matrix(kv_heads * dim, HIDDEN),
        p + "self_attn.v_proj.weight": matrix(kv_heads * dim, HIDDEN),
        p + "self_attn.o_proj.weight": matrix(HIDDEN, heads * dim),
    }
    if norms:
        t |= {p + "self_attn.q_norm.weight": vector(dim), p + "self_attn.k_norm.weight": vector(dim)}
    if bias:
        t |= {p + "self_attn.q_proj.bias": vector(heads * dim), p + "self_attn.k_proj.bias": vector(kv_heads * dim)}
    return t


def mlp_and_norms(p, centre):
    return {
        p + "mlp.gate_proj.weight": matrix(FFN, HIDDEN),
        p + "mlp.up_proj.weight": matrix(FFN, HIDDEN),
        p + "mlp.down_proj.weight": matrix(HIDDEN, FFN),
        p + "input_layernorm.weight": vector(HIDDEN, centre),
        p + "post_attention_layernorm.weight": vector(HIDDEN, centre),
    }


GGUF_NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "linear_attn.in_proj_qkv": "attn_qkv", "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_b": "ssm_beta", "linear_attn.in_proj_a": "ssm_alpha", "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.norm": "ssm_norm", "linear_attn.out_proj": "ssm_out",
}


def llama():
    heads, kv_heads, dim = 2, 1, 16
    t = {"model.embed_tokens.weight": matrix(VOCAB, HIDDEN), "lm_head.weight": matrix(VOCAB, HIDDEN),
         "model.norm.weight": vector(HIDDEN, 1)}
    p = "model.layers.0."
    t |= attention(p, heads, kv_heads, dim, norms=False, bias=True) | mlp_and_norms(p, 1)
    save_hf("llama", dict(
        architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=HIDDEN, num_hidden_layers=1,
        intermediate_size=FFN, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=dim,
        max_position_embeddings=128, rms_norm_eps=1e-6, vocab_size=VOCAB, tie_word_embeddings=False,
        attention_bias=True, hidden_act="silu", rope_theta=1e5, bos_token_id=1, eos_token_id=2), t)
    w = writer("llama.gguf", "llama", heads=heads, kv_heads=kv_heads)
    w.add_rope_dimension_count(dim)
    add(w, "rope_freqs.weight", np.ones(dim // 2))
    for name, value in t.items():
        if name == "model.embed_tokens.weight": add(w, "token_embd.weight", value, Q.BF16)
        elif name == "lm_head.weight": add(w, "output.weight", value, Q.F16)
        elif name == "model.norm.weight": add(w, "output_norm.weight", value)
        else:
            stem, suffix = name.removeprefix(p).rsplit(".", 1)
            if stem in ("self_attn.q_proj", "self_attn.k_proj"):  # as llama.cpp's converter permutes
                n = heads if "q_proj" in stem else kv_heads
                value = value.reshape(n, 2, value.shape[0] // n // 2, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)
            stem = "ffn_norm" if stem == "post_attention_layernorm" else GGUF_NAMES[stem]
            add(w, f"blk.0.{stem}.{suffix}", value, Q.BF16 if value.ndim == 2 else Q.F32)
    close(w)


def qwen35():
    heads, kv_heads, dim, lk, lv, ld, layers = 2, 1, 16, 2, 4, 32, 2
    keys, values = lk * ld, lv * ld
    t = {"model.language_model.embed_tokens.weight": matrix(VOCAB, HIDDEN), "model.language_model.norm.weight": vector(HIDDEN)}
    p, q = "model.language_model.layers.0.", "model.language_model.layers.0.linear_attn."
    out_proj = dequantize(quantize(matrix(HIDDEN, values), Q.Q8_0), Q.Q8_0)
    t |= {
        q + "in_proj_qkv.weight": matrix(2 * keys + values, HIDDEN), q + "in_proj_z.weight": matrix(values, HIDDEN),
        q + "in_proj_b.weight": matrix(lv, HIDDEN), q + "in_proj_a.weight": matrix(lv, HIDDEN),
        q + "conv1d.weight": matrix(2 * keys + values, 1, 4), q + "A_log": bf16(np.log(rng.uniform(1, 16, lv))).astype(np.float32),
        q + "dt_bias": vector(lv), q + "norm.weight": vector(ld, 1), q + "out_proj.weight": out_proj,
    }
    t |= mlp_and_norms(p, 0)
    p = "model.language_model.layers.1."
    t |= attention(p, heads, kv_heads, dim, gate=True) | mlp_and_norms(p, 0)
    t |= {"mtp.fc.weight": matrix(HIDDEN, 2 * HIDDEN), "mtp.pre_fc_norm_embedding.weight": vector(HIDDEN),
          "mtp.pre_fc_norm_hidden.weight": vector(HIDDEN), "mtp.norm.weight": vector(HIDDEN)}
    t |= attention("mtp.layers.0.", heads, kv_heads, dim, gate=True) | mlp_and_norms("mtp.layers.0.", 0)
    text = dict(
        model_type="qwen3_5_text", hidden_size=HIDDEN, num_hidden_layers=layers, intermediate_size=FFN,
        num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=dim, max_position_embeddings=128,
        rms_norm_eps=1e-6, vocab_size=VOCAB, tie_word_embeddings=True, attention_bias=False, attn_output_gate=True,
        hidden_act="silu", layer_types=["linear_attention", "full_attention"], full_attention_interval=2,
        linear_conv_kernel_dim=4, linear_key_head_dim=ld, linear_value_head_dim=ld, linear_num_key_heads=lk,
        linear_num_value_heads=lv, mamba_ssm_dtype="float32", mtp_num_hidden_layers=1, bos_token_id=1, eos_token_id=2,
        rope_parameters=dict(rope_type="default", rope_theta=1e5, partial_rotary_factor=0.5, mrope_section=[2, 1, 1],
                             mrope_interleaved=True))
    save_hf("qwen35", dict(architectures=["Qwen3_5ForConditionalGeneration"], model_type="qwen3_5",
                           tie_word_embeddings=True, text_config=text), t)

    def by_value_head(a, axis, width):  # (key head, j) -> (j, key head), as llama.cpp's converter
        shape = list(a.shape)
        split = a.reshape(shape[:axis] + [lk, lv // lk, width] + shape[axis + 1 :])
        return np.ascontiguousarray(np.swapaxes(split, axis, axis + 1)).reshape(shape)

    w = writer("qwen35.gguf", "qwen35", layers=layers + 1, heads=heads, kv_heads=kv_heads)
    w.add_key_length(dim), w.add_value_length(dim), w.add_rope_dimension_count(dim // 2)
    w.add_rope_dimension_sections([2, 1, 1, 0])
    w.add_ssm_conv_kernel(4), w.add_ssm_state_size(ld), w.add_ssm_group_count(lk), w.add_ssm_time_step_rank(lv)
    w.add_ssm_inner_size(values), w.add_full_attention_interval(2), w.add_nextn_predict_layers(1)
    top = {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight",
           "mtp.fc.weight": "blk.2.nextn.eh_proj.weight", "mtp.norm.weight": "blk.2.nextn.shared_head_norm.weight",
           "mtp.pre_fc_norm_embedding.weight": "blk.2.nextn.enorm.weight",
           "mtp.pre_fc_norm_hidden.weight": "blk.2.nextn.hnorm.weight"}
    for name, value in t.items():
        short = name.removeprefix("model.language_model.").replace("mtp.layers.0.", "layers.2.")
        if "norm" in short and "linear_attn" not in short: value = value + 1
        kind = Q.BF16 if value.ndim == 2 else Q.F32
        if short in top:
            add(w, top[short], value, kind)
            continue
        _, layer, rest = short.split(".", 2)
        stem, _, suffix = rest.rpartition(".")
        if stem == "linear_attn.in_proj_qkv": value = np.concatenate([value[: 2 * keys], by_value_head(value[2 * keys :], 0, ld)])
        elif stem == "linear_attn.conv1d":
            value = value[:, 0]
            value, kind = np.concatenate([value[: 2 * keys], by_value_head(value[2 * keys :], 0, ld)]), Q.F32
        elif stem == "linear_attn.in_proj_z": value = by_value_head(value, 0, ld)
        elif stem in ("linear_attn.in_proj_b", "linear_attn.in_proj_a"): value = by_value_head(value, 0, 1)
        elif stem == "linear_attn.out_proj": value, kind = by_value_head(value, 1, ld), Q.Q8_0
        if suffix == "A_log": gguf_name = "ssm_a"; value = by_value_head(-np.exp(value), 0, 1)
        elif suffix == "dt_bias": gguf_name = "ssm_dt.bias"; value = by_value_head(value, 0, 1)
        else: gguf_name = ("post_attention_norm" if stem == "post_attention_layernorm" else GGUF_NAMES[stem]) + ".weight"
        add(w, f"blk.{layer}.{gguf_name}", value, kind)
    close(w)


all_types()
table_types()
llama()
qwen35()
