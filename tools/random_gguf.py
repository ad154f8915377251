#!/usr/bin/env python3
"""A GGUF file of a hybrid model with random 4-bit weights, for measurements beside llama.cpp.

    python3 tools/random_gguf.py SHAPE FILE [--type TYPE] [--vocab N] [--layers N] [--lora RANK]

The shapes are those of qwen35 and qwen35moe; matrices are Q4_0, IQ4_NL or MXFP4, routers and vectors F32. The text that such a model
writes is noise. The file is written as fast as the disk takes it, and needs Python alone: the random numbers repeat
after some million weights. --lora: not the model, but a LoRA adapter of this rank for all of its layers' matrices but those of
experts."""

import argparse
import array
import os
import random
import struct
import sys

# Layers, hidden size, attention heads, KV heads, key heads, value heads, then either the feed-forward's size or experts,
# chosen ones and the size of each (and of the shared expert).
SHAPES = {
    "27b": dict(layers=64, hidden=5120, heads=24, kv_heads=4, key_heads=16, value_heads=48, ffn=17408, vocab=248320),
    "0.8b": dict(layers=24, hidden=1024, heads=8, kv_heads=2, key_heads=16, value_heads=16, ffn=3584, vocab=248320),
    "9b": dict(layers=32, hidden=4096, heads=16, kv_heads=4, key_heads=16, value_heads=32, ffn=12288, vocab=248320),
    "35b-a3b": dict(layers=40, hidden=2048, heads=16, kv_heads=2, key_heads=16, value_heads=32, experts=256, top_k=8,
                    ffn=512, vocab=248320),
    "8b-a1b": dict(layers=24, hidden=1536, heads=12, kv_heads=2, key_heads=16, value_heads=16, experts=128, top_k=8,
                   ffn=512, vocab=151936),
    "tiny-moe": dict(layers=4, hidden=256, heads=2, kv_heads=1, key_heads=2, value_heads=4, experts=16, top_k=4, ffn=64,
                     vocab=1024),
}
HEAD, DELTA_HEAD, TAPS, CONTEXT = 256, 128, 4, 262144
F32 = 0
# Number, and the bytes before 16 bytes of codes: for each its fixed bits, and which others are random.
TYPES = {"q4_0": (2, ((0, 0xFF), (0x1C, 0x80))), "iq4_nl": (20, ((0, 0xFF), (0x0C, 0x80))), "mxfp4": (39, ((0x76, 3),))}
UINT32, FLOAT32, STRING, ARRAY, INT32 = 4, 6, 8, 9, 5


def blocks(scale, count):
    """Random blocks: a scale that makes weights of about 0.02, then 32 codes."""
    size = len(scale) + 16
    out = bytearray(size * count)
    for i, (fixed, random) in enumerate(scale):
        out[i::size] = os.urandom(count).translate(bytes((b & random) | fixed for b in range(256)))
    for i in range(len(scale), size):
        out[i::size] = os.urandom(count)
    return bytes(out)


def layer_tensors(s, i):
    """(name, shape as GGUF has it: inputs first, whether its type is F32)"""
    h, keys, values = s["hidden"], s["key_heads"] * DELTA_HEAD, s["value_heads"] * DELTA_HEAD
    b = f"blk.{i}."
    yield b + "attn_norm.weight", (h,), True
    yield b + "post_attention_norm.weight", (h,), True
    if (i + 1) % 4 == 0:
        for name, rows in (("q", 2 * HEAD * s["heads"]), ("k", HEAD * s["kv_heads"]), ("v", HEAD * s["kv_heads"])):
            yield f"{b}attn_{name}.weight", (h, rows), False
        yield b + "attn_output.weight", (HEAD * s["heads"], h), False
        yield b + "attn_q_norm.weight", (HEAD,), True
        yield b + "attn_k_norm.weight", (HEAD,), True
    else:
        yield b + "attn_qkv.weight", (h, 2 * keys + values), False
        yield b + "attn_gate.weight", (h, values), False
        yield b + "ssm_beta.weight", (h, s["value_heads"]), False
        yield b + "ssm_alpha.weight", (h, s["value_heads"]), False
        yield b + "ssm_conv1d.weight", (TAPS, 2 * keys + values), True
        yield b + "ssm_dt.bias", (s["value_heads"],), True
        yield b + "ssm_a", (s["value_heads"],), True
        yield b + "ssm_norm.weight", (DELTA_HEAD,), True
        yield b + "ssm_out.weight", (values, h), False
    kinds = [""]
    if "experts" in s:
        yield b + "ffn_gate_inp.weight", (h, s["experts"]), True
        yield b + "ffn_gate_inp_shexp.weight", (h,), True
        kinds = ["_exps", "_shexp"]
    for kind in kinds:
        count = (s["experts"],) if kind == "_exps" else ()
        for name, shape in (("gate", (h, s["ffn"])), ("up", (h, s["ffn"])), ("down", (s["ffn"], h))):
            yield f"{b}ffn_{name}{kind}.weight", shape + count, False


def tensors(s):
    yield "token_embd.weight", (s["hidden"], s["vocab"]), False
    yield "output_norm.weight", (s["hidden"],), True
    yield "output.weight", (s["hidden"], s["vocab"]), False
    for i in range(s["layers"]):
        yield from layer_tensors(s, i)


def adapter_tensors(s, rank):
    for i in range(s["layers"]):
        for name, shape, plain in layer_tensors(s, i):
            if not plain and not name.endswith(("_exps.weight", "_shexp.weight")):
                yield name + ".lora_a", (shape[0], rank), True
                yield name + ".lora_b", (rank, shape[1]), True


def adapter_metadata(s, rank):
    return {"general.type": "adapter", "general.architecture": "qwen35moe" if "experts" in s else "qwen35",
            "adapter.type": "lora", "adapter.lora.alpha": float(rank)}


def byte_tokens():
    """GPT-2's printable characters for all bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return [chr(b) if b in plain else chr(256 + others.index(b)) for b in range(256)]


def metadata(s):
    arch = "qwen35moe" if "experts" in s else "qwen35"
    vocab = byte_tokens() + ["th", "in", "<|im_start|>", "<|im_end|>", "<think>", "</think>"]
    special = len(vocab) - 4
    types = [1] * special + [3, 3, 4, 4] + [1] * (s["vocab"] - len(vocab))  # unused ones (5) would have no text
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


def size_of(shape, plain, block):
    count = 1
    for n in shape:
        count *= n
    return count * 4 if plain else count // 32 * block


def vector(name, count, pool=array.array("f")):
    if ".lora_" in name:
        if not pool:
            pool.extend(random.gauss(0, 0.05) for _ in range(1_000_003))
        at = random.randrange(len(pool))
        copies = pool * (count // len(pool) + 2)
        return copies[at:at + count].tobytes()
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
    parser.add_argument("--type", choices=TYPES, default="q4_0")
    parser.add_argument("--vocab", type=int)
    parser.add_argument("--layers", type=int)
    parser.add_argument("--lora", type=int, metavar="RANK")
    arguments = parser.parse_args()
    s = dict(SHAPES[arguments.shape])
    s["vocab"], s["layers"] = arguments.vocab or s["vocab"], arguments.layers or s["layers"]

    kv, listed = metadata(s), list(tensors(s))
    if arguments.lora:
        kv, listed = adapter_metadata(s, arguments.lora), list(adapter_tensors(s, arguments.lora))
    number, scale = TYPES[arguments.type]
    block = len(scale) + 16
    pool = blocks(scale, 1_000_003) * 4
    pad = lambda n: -n % 32  # noqa: E731
    with open(arguments.file, "wb") as f:
        f.write(struct.pack("<IIQQ", 0x46554747, 3, len(listed), len(kv)))
        for k, v in kv.items():
            f.write(string(k) + value(v))
        at = 0
        for name, shape, plain in listed:
            f.write(string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, F32 if plain else number, at))
            at += size_of(shape, plain, block) + pad(size_of(shape, plain, block))
        f.write(bytes(pad(f.tell())))
        begin = 0
        for name, shape, plain in listed:
            left = size_of(shape, plain, block)
            end = pad(left)
            if plain:
                f.write(vector(name, left // 4))
                left = 0
            while left > 0:
                part = min(left, len(pool) - begin)
                f.write(memoryview(pool)[begin:begin + part])
                begin, left = (begin + part) % len(pool), left - part
            f.write(bytes(end))
    print(f"{arguments.file}: {os.path.getsize(arguments.file) / 1e9:.2f} GB", file=sys.stderr)


main()
