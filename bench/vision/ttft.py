#!/usr/bin/env python3
"""Time to the first token of a prompt with one picture, over HTTP, beside llama.cpp's mtmd with the same files.

    python3 bench/vision/ttft.py PROGRAM MODEL.gguf MMPROJ.gguf LLAMA_MTMD_CLI [--side 1024] [--turns 5] [--threads 2] [--json FILE]

The two alternate, and each turn has a picture of its own, so nothing is cached. Ours is the time of a whole request with one
token, with reading the PNG file; llama.cpp's is what it calls the prompt's evaluation, without loading. MODEL and
MMPROJ: tools/make_rand_qwen35.py --gguf and tools/random_vision.py --gguf make random ones of true shape.
"""

import argparse
import base64
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/server"))
from exactness_test import Server  # noqa: E402
from pictures import drawing  # noqa: E402

QUESTION = "What is this?"
TEMPLATE = ("{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}{%- if m.content is string %}{{- m.content }}{%- else %}"
            "{%- for p in m.content %}{%- if p.type == 'image' %}{{- '<|vision_start|><|image_pad|><|vision_end|>' }}{%- else %}"
            "{{- p.text }}{%- endif %}{%- endfor %}{%- endif %}{{- '<|im_end|>\\n' }}{%- endfor %}"
            "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}")


def ask(server, png):
    url = "data:image/png;base64," + base64.b64encode(png).decode()
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": QUESTION}]
    begun = time.monotonic()
    answer = server.send("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], "max_tokens": 1,
                                                  "temperature": 0, "ignore_eos": True})
    return time.monotonic() - begun, answer["usage"]["prompt_tokens"]


def ask_llama(options, path):
    log = subprocess.run([options.llama, "-m", options.model, "--mmproj", options.mmproj, "--image", path, "-p", QUESTION, "-n", "1",
                          "-t", str(options.threads), "--temp", "0", "-c", "4096", "--no-warmup", "-v"],
                         capture_output=True, text=True, errors="replace")
    found = re.search(r"prompt eval time = *([0-9.]+) ms / *(\d+) tokens", log.stdout + log.stderr)
    if not found:
        raise RuntimeError("llama-mtmd-cli: " + (log.stderr or log.stdout)[-500:])
    encoded = re.search(r"encoding done in (\d+) ms", log.stdout + log.stderr)
    return float(found[1]) / 1000, int(found[2]), int(encoded[1]) / 1000 if encoded else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("program", "model", "mmproj", "llama"):
        parser.add_argument(name)
    parser.add_argument("--side", type=int, default=1024)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json")
    options = parser.parse_args()
    ours, theirs, encodings = [], [], []
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        (directory / "model.gguf").symlink_to(os.path.abspath(options.model))
        (directory / "mmproj.gguf").symlink_to(os.path.abspath(options.mmproj))
        (directory / "template.jinja").write_text(TEMPLATE)
        with Server(options.program, str(directory / "model.gguf"), "--no-cache", "--threads", str(options.threads),
                    "--chat-template-file", str(directory / "template.jinja")) as server:
            for turn in range(options.turns):
                png = drawing(turn, options.side, options.side)
                (directory / "picture.png").write_bytes(png)
                seconds, tokens = ask(server, png)
                ours.append(seconds)
                server.process.send_signal(signal.SIGSTOP)
                seconds, their_tokens, encoding = ask_llama(options, str(directory / "picture.png"))
                server.process.send_signal(signal.SIGCONT)
                theirs.append(seconds)
                encodings.append(encoding)
                print(f"turn {turn + 1}: {ours[-1]:.2f} s for {tokens} tokens; llama.cpp {seconds:.2f} s for {their_tokens} tokens, "
                      f"{encoding} s of them the tower", flush=True)
    a, b = statistics.median(ours), statistics.median(theirs)
    print(f"\n| | median of {options.turns} |\n|---|---|\n| Anabranch | {a:.2f} s |\n| llama.cpp | {b:.2f} s |\n| ratio | {b / a:.2f} |")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"side": options.side, "threads": options.threads, "ours_s": ours, "llama_cpp_s": theirs,
                                                          "llama_cpp_tower_s": encodings, "ratio": b / a}, indent=1) + "\n")


if __name__ == "__main__":
    main()
