"""mlx-lm's speed on the CPU, from token ids alone (no tokenizer): run by run.py with the Python that has mlx-lm.

    python mlx_lm_bench.py MODEL_DIRECTORY PROMPT_TOKENS DECODE_TOKENS

Prints one JSON object. Nothing warms up: at a token a second it would change nothing but the waiting."""

import json
import sys
import time
from pathlib import Path

import mlx.core as mx
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.utils import load_model


def main():
    folder, prompt_tokens, decode_tokens = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    mx.set_default_device(mx.cpu)
    model, _ = load_model(folder)
    cache = make_prompt_cache(model)

    def step(tokens):
        best = mx.argmax(model(mx.array([tokens]), cache=cache)[0, -1])
        return best.item()

    start = time.perf_counter()
    token = step([100 + 7 * i for i in range(prompt_tokens)])
    prefilled = time.perf_counter()
    for _ in range(decode_tokens):
        token = step([token])
    done = time.perf_counter()
    print(json.dumps({"prefill_tok_s": prompt_tokens / (prefilled - start),
                      "decode_tok_s": decode_tokens / (done - prefilled)}))


main()
