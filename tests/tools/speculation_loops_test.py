"""What bench/speculation_loops.py calls a loop and a copy, and that the prompt sets in bench/prompts are well formed."""

import glob
import json
import os
import random
import sys

BENCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench")
sys.path.insert(0, BENCH)
from speculation_loops import copied_share, looping  # noqa: E402

TEXT = list(range(1000, 1200))  # no token twice


def test_text_without_repetition_is_no_loop():
    assert not looping([]) and not looping([7]) and not looping(TEXT)
    rng = random.Random(1)
    assert not any(looping([rng.randrange(50) for _ in range(256)]) for _ in range(50))


def test_a_block_loops_from_its_fourth_time_on_and_from_24_tokens_on():
    for period in (6, 7, 13, 64):
        block = list(range(period))
        assert looping(block * 4 + TEXT), period
        assert not looping((block * 4)[:-1] + TEXT), period
    assert not looping(list(range(65)) * 4 + TEXT)  # longer than what counts as a block
    assert looping([5, 6, 7] * 8) and looping([5, 6] * 12)


def test_one_token_again_and_again():
    assert looping([5] * 24) and not looping([5] * 13 + TEXT)
    assert looping([5] * 14 + TEXT)  # seven times the same eight


def test_a_loop_counts_wherever_it_stands():
    block = list(range(10))
    for tokens in (block * 4 + TEXT, TEXT[:50] + block * 4 + TEXT[50:], TEXT + block * 4, TEXT + block * 4 + block[:3]):
        assert looping(tokens)
    assert not looping(block * 3 + [99] + block * 3 + TEXT)  # three in a row, twice


def test_a_phrase_that_comes_back_too_often():
    phrase = list(range(8))
    scattered = [token for i in range(7) for token in phrase + [100 + i] * (1 + i % 3)]
    assert looping(scattered)
    assert not looping([token for i in range(6) for token in phrase + [100 + i]] + TEXT)
    assert not looping([token for i in range(7) for token in phrase[:7] + [100 + i]])


def test_long_blocks_loop_when_they_are_most_of_all():
    assert not looping(TEXT * 2) and looping(TEXT * 3) and looping((TEXT + [1]) * 3)


def test_the_share_that_stands_in_the_source():
    assert copied_share(TEXT, TEXT[20:60]) == 1 and copied_share(TEXT, list(range(40))) == 0
    assert copied_share(TEXT, TEXT[:8] + [1] * 8) == 0.5
    assert copied_share(TEXT, TEXT[:7] + [1] * 7) == 0  # too short a run
    assert copied_share(TEXT, TEXT[:9] + TEXT[100:111]) == 1
    assert copied_share(TEXT, []) == 0 and copied_share([], TEXT) == 0


def test_the_prompt_sets():
    paths = sorted(glob.glob(os.path.join(BENCH, "prompts", "*.jsonl")))
    assert [os.path.basename(path) for path in paths] == ["chat.jsonl", "code.jsonl", "copy.jsonl", "edits.jsonl", "tasks.jsonl"]
    for path in paths:
        name = os.path.basename(path)[:-len(".jsonl")]
        with open(path, encoding="utf-8") as file:
            prompts = [json.loads(line) for line in file]
        assert [prompt["id"] for prompt in prompts] == [f"{name}-{i + 1:02}" for i in range(len(prompts))], name
        assert len({prompt["prompt"] for prompt in prompts}) == len(prompts), name
        for prompt in prompts:
            assert prompt["prompt"].strip() and prompt.get("thinking", "off") in ("on", "off"), prompt["id"]
            marks = {"greedy_ok", "sampled_ok", "greedy_copied", "sampled_copied"}
            assert marks <= set(prompt) <= {"id", "prompt", "system", "thinking"} | marks, prompt["id"]
        for sampling in ("greedy", "sampled"):
            good = [prompt for prompt in prompts if prompt[f"{sampling}_ok"]]
            if name == "copy":
                good = [prompt for prompt in good if prompt[f"{sampling}_copied"] >= 0.75]
            assert len(good) >= 12, (name, sampling)
