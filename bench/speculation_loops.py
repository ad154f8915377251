#!/usr/bin/env python3
"""Which prompts give answers fit for measuring speculation: a model stuck in a loop is too easy to predict.

As a program, answers every prompt of the given files greedily and sampled, writes what it found into the files as
"greedy_ok" and "sampled_ok" (true: no loop within 256 tokens) and "greedy_copied" and "sampled_copied" (the share of
the answer that stands in the prompt, in runs of 8 tokens or more), and prints a table:

    bench/speculation_loops.py build/anabranch models/hybrid-146m bench/prompts/*.jsonl
"""

import argparse
import collections
import json
import statistics
import subprocess
import sys

MAX_PERIOD = 64
REPEATS, COVERED = 4, 24  # a block this many times in a row, over at least this many tokens, is a loop
GRAM, GRAM_TIMES = 8, 6   # so is a run of GRAM tokens that occurs more often than this
MOSTLY = 0.5              # and an answer with more than this share of such runs said before (loops of long blocks)
MAX_TOKENS = 256
SAMPLINGS = {"greedy": ["--temp", "0"], "sampled": ["--seed", "1", "--temp", "0.7", "--top-p", "0.9"]}


def looping(token_ids):
    """Whether the tokens repeat themselves: back to back anywhere, one phrase again and again, or most of all."""
    for period in range(1, MAX_PERIOD + 1):
        needed = max(REPEATS * period, COVERED) - period
        run = 0  # tokens in a row that equal the one a period before
        for before, token in zip(token_ids, token_ids[period:]):
            run = run + 1 if before == token else 0
            if run >= needed:
                return True
    times = collections.Counter(grams(token_ids, GRAM))
    repeated = times.total() - len(times)
    return repeated > MOSTLY * times.total() or any(count > GRAM_TIMES for count in times.values())


def copied_share(source, token_ids, at_least=GRAM):
    """The share of the tokens that lie in runs of `at_least` or more which also stand in `source`."""
    known = set(grams(source, at_least))
    copied = set()
    for start, gram in enumerate(grams(token_ids, at_least)):
        if gram in known:
            copied.update(range(start, start + at_least))
    return len(copied) / len(token_ids) if token_ids else 0.0


def grams(token_ids, length):
    return [tuple(token_ids[i:i + length]) for i in range(len(token_ids) - length + 1)]


def answer(binary, model, prompt, sampling):
    """The JSON object of one `generate` run."""
    command = [binary, "generate", "-m", model, "--threads", "1", "--json", "-n", str(MAX_TOKENS), *sampling,
               "--thinking", prompt.get("thinking", "off")]
    if "system" in prompt:
        command += ["--system", prompt["system"]]
    done = subprocess.run(command, input=prompt["prompt"], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def mark_file(path, binary, model, encode):
    """Answers the file's prompts, rewrites the file with the marks, and prints its rows of the table."""
    with open(path, encoding="utf-8") as file:
        prompts = [json.loads(line) for line in file if line.strip()]
    for name, sampling in SAMPLINGS.items():
        lengths = []
        for prompt in prompts:
            ids = answer(binary, model, prompt, sampling)["token_ids"]
            prompt[f"{name}_ok"] = not looping(ids)
            prompt[f"{name}_copied"] = round(copied_share(encode(prompt["prompt"]), ids), 2)
            lengths.append(len(ids))
        good = [i for i, prompt in enumerate(prompts) if prompt[f"{name}_ok"]]
        tokens = statistics.mean(lengths[i] for i in good) if good else 0
        copied = statistics.mean(prompts[i][f"{name}_copied"] for i in good) if good else 0
        print(f"| {path} | {name} | {len(good)} of {len(prompts)} | {tokens:.0f} | {copied:.2f} |", flush=True)
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(prompt, ensure_ascii=False) + "\n" for prompt in prompts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary")
    parser.add_argument("model")
    parser.add_argument("files", nargs="+")
    arguments = parser.parse_args()
    from tokenizers import Tokenizer  # only for the share of copied tokens; .deps/test-venv has it
    tokenizer = Tokenizer.from_file(f"{arguments.model}/tokenizer.json")
    print("| file | sampling | loop-free | their mean tokens | and share copied |\n|---|---|---|---|---|")
    for path in arguments.files:
        mark_file(path, arguments.binary, arguments.model,
                  lambda text: tokenizer.encode(text, add_special_tokens=False).ids)


if __name__ == "__main__":
    sys.exit(main())
