"""mlx-lm's speed on the card, on the shapes that gpu_bench has: run by run.py with the Python that has mlx-lm.

    python mlx_lm_gpu.py 9b|0.8b

Random weights, 4 bits, group 64, bf16. Prints one JSON object: name of the work -> tokens a second (medians)."""

import json
import statistics
import sys
import time

import mlx.core as mx
import mlx.nn as nn
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.models.qwen3_5 import Model, ModelArgs

SHAPES = {  # of Qwen3.5
    "9b": {"hidden_size": 4096, "num_hidden_layers": 32, "intermediate_size": 12288, "num_attention_heads": 16,
           "num_key_value_heads": 4, "linear_num_value_heads": 32, "tie_word_embeddings": False},
    "0.8b": {"hidden_size": 1024, "num_hidden_layers": 24, "intermediate_size": 3584, "num_attention_heads": 8,
             "num_key_value_heads": 2, "linear_num_value_heads": 16, "tie_word_embeddings": True},
}
COMMON = {"model_type": "qwen3_5_text", "vocab_size": 248320, "head_dim": 256, "linear_num_key_heads": 16,
          "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
          "full_attention_interval": 4, "max_position_embeddings": 262144,
          "rope_parameters": {"type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25,
                              "mrope_section": [11, 11, 10]}}
DECODED, REPETITIONS, STEPS = 128, 3, 12


def make_model(shape):
    model = Model(ModelArgs.from_dict({"model_type": "qwen3_5", "text_config": {**COMMON, **shape}}))
    model.set_dtype(mx.bfloat16)
    nn.quantize(model, group_size=64, bits=4)
    mx.eval(model.parameters())
    return model.language_model


def prompt_of(tokens):
    return mx.array([(7919 * i) % 200000 for i in range(tokens)])


def answer(model, tokens):
    """-> (prompt tokens a second, decoded tokens a second), as mlx-lm generates"""
    start = time.perf_counter()
    steps = generate_step(prompt_of(tokens), model, max_tokens=DECODED + 1, sampler=lambda p: mx.argmax(p, axis=-1))
    next(steps)
    first = time.perf_counter()
    for _ in steps:
        pass
    return tokens / (first - start), DECODED / (time.perf_counter() - first)


def step_seconds(model, rows, streams):
    """Of a pass over `rows` tokens of each of `streams` sequences, 512 tokens long."""
    cache = make_prompt_cache(model)
    mx.eval(model(mx.broadcast_to(prompt_of(512)[None], (streams, 512)), cache=cache)[:, -1])
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        mx.eval(mx.argmax(model(mx.full((streams, rows), 17), cache=cache), axis=-1))
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def main():
    model = make_model(SHAPES[sys.argv[1]])
    out = {}
    for tokens in (512, 4096):
        turns = [answer(model, tokens) for _ in range(REPETITIONS)]
        out[f"prefill {tokens}"] = statistics.median(turn[0] for turn in turns)
        out[f"decode, prompt {tokens}"] = statistics.median(turn[1] for turn in turns)
    for rows in (1, 4):
        out[f"{rows} rows"] = rows / step_seconds(model, rows, 1)
    out["32 streams"] = 32 / step_seconds(model, 1, 32)
    print(json.dumps(out))


main()
