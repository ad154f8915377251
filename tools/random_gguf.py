#!/usr/bin/env python3
"""A GGUF file of a hybrid model with random 4-bit weights, for measurements beside llama.cpp.

    python3 tools/random_gguf.py SHAPE FILE [--vocab N] [--layers N]

The shapes are those of qwen35 and qwen35moe; matrices are Q4_0, routers and vectors F32. The text that such a model
writes is noise. The file is written as fast as the disk takes it, and needs Python alone: the random numbers repeat
after some million weights."""

import argparse
import os
import struct
import sys

# Layers, hidden size, attention heads, KV heads, key heads, value heads, then either the feed-forward's size or experts,
# chosen ones and the size of each (and of the shared expert).
SHAPES = {
    "27b": dict(layers=64, hidden=5120, heads=24, kv_heads=4, key_heads=16, value_heads=48, ffn=17408, vocab=248320),
    "9b": dict(layers=32, hidden=4096, heads=16, kv_heads=4, key_heads=16, value_heads=32, ffn=12288, vocab=248320),
    "35b-a3b": dict(layers=40, hidden=2048, heads=16, kv_heads=2, key_heads=16, value_heads=32, experts=256, top_k=8,
                    ffn=512, vocab=248320),
    "8b-a1b": dict(layers=24, hidden=1536, heads=12, kv_heads=2, key_heads=16, value_heads=16, experts=128, top_k=8,
                   ffn=512, vocab=151936),
    "tiny-moe": dict(layers=4, hidden=256, heads=2, kv_heads=1, key_heads=2, value_heads=4, experts=16, top_k=4, ffn=64,
                     vocab=1024),
}
HEAD, DELTA_HEAD, TAPS, CONTEXT = 256, 128, 4, 262144
F32, Q4_0 = 0, 2
UINT32, FLOAT32, STRING, ARRAY, INT32 = 4, 6, 8, 9, 5


def blocks(count):
    """Random blocks of Q4_0: a scale near +-0.0045 in f16, then 32 codes."""
    out = bytearray(18 * count)
    out[0::18] = os.urandom(count)
    out[1::18] = os.urandom(count).translate(bytes((b & 0x80) | 0x1C for b in range(256)))
    for i in range(2, 18):
        out[i::18] = os.urandom(count)
    return bytes(out)


def layer_tensors(s, i):
    """(name, shape as GGUF has it: inputs first, type)"""
    h, keys, values = s["hidden"], s["key_heads"] * DELTA_HEAD, s["value_heads"] * DELTA_HEAD
    b = f"blk.{i}."
    yield b + "attn_norm.weight", (h,), F32
    yield b + "post_attention_norm.weight", (h,), F32
    if (i + 1) % 4 == 0:
        for name, rows in (("q", 2 * HEAD * s["heads"]), ("k", HEAD * s["kv_heads"]), ("v", HEAD * s["kv_heads"])):
            yield f"{b}attn_{name}.weight", (h, rows), Q4_0
        yield b + "attn_output.weight", (HEAD * s["heads"], h), Q4_0
        yield b + "attn_q_norm.weight", (HEAD,), F32
        yield b + "attn_k_norm.weight", (HEAD,), F32
    else:
        yield b + "attn_qkv.weight", (h, 2 * keys + values), Q4_0
        yield b + "attn_gate.weight", (h, values), Q4_0
        yield b + "ssm_beta.weight", (h, s["value_heads"]), Q4_0
        yield b + "ssm_alpha.weight", (h, s["value_heads"]), Q4_0
        yield b + "ssm_conv1d.weight", (TAPS, 2 * keys + values), F32
        yield b + "ssm_dt.bias", (s["value_heads"],), F32
        yield b + "ssm_a", (s["value_heads"],), F32
        yield b + "ssm_norm.weight", (DELTA_HEAD,), F32
        yield b + "ssm_out.weight", (values, h), Q4_0
    kinds = [""]
    if "experts" in s:
        yield b + "ffn_gate_inp.weight", (h, s["experts"]), F32
        yield b + "ffn_gate_inp_shexp.weight", (h,), F32
        kinds = ["_exps", "_shexp"]
    for kind in kinds:
        count = (s["experts"],) if kind == "_exps" else ()
        for name, shape in (("gate", (h, s["ffn"])), ("up", (h, s["ffn"])), ("down", (s["ffn"], h))):
            yield f"{b}ffn_{name}{kind}.weight", shape + count, Q4_0


def tensors(s):
    yield "token_embd.weight", (s["hidden"], s["vocab"]), Q4_0
    yield "output_norm.weight", (s["hidden"],), F32
    yield "output.weight", (s["hidden"], s["vocab"]), Q4_0
    for i in range(s["layers"]):
        yield from layer_tensors(s, i)


def byte_tokens():
    """GPT-2's printable characters for all bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return [chr(b) if b in plain else chr(256 + others.index(b)) for b in range(256)]


def metadata(s):
    arch = "qwen35moe" if "experts" in s else "qwen35"
    vocab = byte_tokens() + ["th", "in", "<|im_start|>", "<|im_end|>"]
    special = len(vocab) - 2
    types = [1] * special + [3, 3] + [1] * (s["vocab"] - len(vocab))  # unused ones (5) would have no text
    vocab += [f"[unused{i}]" for i in range(s["vocab"] - len(vocab))]
    model = {
        "block_count": s["layers"], "context_length": CONTEXT, "embedding_length": s["hidden"],
        "feed_forward_length": s["ffn"], "attention.head_count": s["heads"], "attention.head_count_kv": s["kv_heads"],
        "attention.key_length": HEAD, "attention.value_length": HEAD, "rope.dimension_count": HEAD // 4,
        "rope.dimension_sections": [11, 11, 10, 0], "rope.freq_base": 1e7, "attention.layer_norm_rms_epsilon": 1e-6,
        "ssm.conv_kernel": TAPS, "ssm.state_size": DELTA_HEAD, "ssm.group_count": s["key_heads"],
        "ssm.time_step_rank": s["value_heads"], "ssm.inner_size": DELTA_HEAD * s["value_heads"],
        "full_attention_interval": 4}
    if "experts" in s:
        model |= {"expert_count": s["experts"], "expert_used_count": s["top_k"], "expert_feed_forward_length": s["ffn"],
                  "expert_shared_feed_forward_length": s["ffn"]}
    return {
        "general.architecture": arch, "general.name": "random", "general.file_type": 2,
        **{f"{arch}.{k}": v for k, v in model.items()},
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen35", "tokenizer.ggml.tokens": vocab,
        "tokenizer.ggml.token_type": types, "tokenizer.ggml.merges": ["t h", "i n"],
        "tokenizer.ggml.eos_token_id": special + 1,
        "tokenizer.chat_template": "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content + "
                                   "'<|im_end|>\n' }}{%- endfor %}{{- '<|im_start|>assistant\n' }}"}


def string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def value(x):
    kind, data = ((UINT32, struct.pack("<I", x)) if isinstance(x, int) else
                  (FLOAT32, struct.pack("<f", x)) if isinstance(x, float) else
                  (STRING, string(x)) if isinstance(x, str) else (ARRAY, None))
    if kind == ARRAY:
        of = STRING if isinstance(x[0], str) else INT32
        items = b"".join(map(string, x)) if of == STRING else struct.pack(f"<{len(x)}i", *x)
        data = struct.pack("<IQ", of, len(x)) + items
    return struct.pack("<I", kind) + data


def size_of(shape, kind):
    count = 1
    for n in shape:
        count *= n
    return count * 4 if kind == F32 else count // 32 * 18


def vector(name, count):
    if name.endswith("ssm_a"):
        numbers = [-0.05 - 0.4 * i / count for i in range(count)]
    elif "norm" in name:
        numbers = [1.0] * count
    else:  # routers, convolutions, biases
        state, numbers = len(name), []
        for _ in range(count):
            state = (state * 1103515245 + 12345) % (1 << 31)
            numbers.append((state / (1 << 31) - 0.5) * (0.6 if "conv1d" in name else 0.08))
    return struct.pack(f"<{count}f", *numbers)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("file")
    parser.add_argument("--vocab", type=int)
    parser.add_argument("--layers", type=int)
    arguments = parser.parse_args()
    s = dict(SHAPES[arguments.shape])
    s["vocab"], s["layers"] = arguments.vocab or s["vocab"], arguments.layers or s["layers"]

    kv, listed = metadata(s), list(tensors(s))
    pool = blocks(1_000_003) * 4
    pad = lambda n: -n % 32  # noqa: E731
    with open(arguments.file, "wb") as f:
        f.write(struct.pack("<IIQQ", 0x46554747, 3, len(listed), len(kv)))
        for k, v in kv.items():
            f.write(string(k) + value(v))
        at = 0
        for name, shape, kind in listed:
            f.write(string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, at))
            at += size_of(shape, kind) + pad(size_of(shape, kind))
        f.write(bytes(pad(f.tell())))
        begin = 0
        for name, shape, kind in listed:
            left = size_of(shape, kind)
            end = pad(left)
            if kind == F32:
                f.write(vector(name, left // 4))
                left = 0
            while left > 0:
                part = min(left, len(pool) - begin)
                f.write(memoryview(pool)[begin:begin + part])
                begin, left = (begin + part) % len(pool), left - part
            f.write(bytes(end))
    print(f"{arguments.file}: {os.path.getsize(arguments.file) / 1e9:.2f} GB", file=sys.stderr)


main()
