#!/usr/bin/env python3
"""Time to the first token of a prompt with one picture, over HTTP, beside llama.cpp's server with the same files.

    python3 bench/vision/ttft.py PROGRAM MODEL.gguf MMPROJ.gguf LLAMA_SERVER [--device cuda] [--side 1024] [--turns 5]
                                 [--threads 2] [--json FILE]

The two alternate; while one answers the other is stopped. Each turn has a picture of its own, so no picture is cached, and
one before the first warms both up. MODEL and MMPROJ: tools/make_rand_qwen35.py --gguf and tools/random_vision.py --gguf
make random ones of true shape.
"""

import argparse
import base64
import json
import os
import pathlib
import signal
import statistics
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
for folder in ("bench/peers", "bench/cache", "tests/server"):
    sys.path.insert(0, str(ROOT / folder))
import servers  # noqa: E402
from pictures import drawing  # noqa: E402

QUESTION = "What is this?"
TEMPLATE = ("{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}{%- if m.content is string %}{{- m.content }}{%- else %}"
            "{%- for p in m.content %}{%- if p.type == 'image' %}{{- '<|vision_start|><|image_pad|><|vision_end|>' }}{%- else %}"
            "{{- p.text }}{%- endif %}{%- endfor %}{%- endif %}{{- '<|im_end|>\\n' }}{%- endfor %}"
            "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}")

def body_of(png):
    url = "data:image/png;base64," + base64.b64encode(png).decode()
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": QUESTION}]
    return {"messages": [{"role": "user", "content": content}], "max_tokens": 1, "temperature": 0, "ignore_eos": True}


def start(name, flags, options, directory):
    port = servers.free_port()
    command = flags + ["-m", str(directory / "model.gguf"), "--port", str(port), "--threads", str(options.threads),
                       "--chat-template-file", str(directory / "template.jinja")]
    return servers.Server(name, command, port, str(directory / f"{name}.log"))


def start_ours(options, directory):
    return start("anabranch", [options.program, "-q", "serve", "--no-cache", "--device", options.device], options, directory)


def start_llama(options, directory):
    on = ["-ngl", "99"] if options.device == "cuda" else ["-ngl", "0", "--no-mmproj-offload"]
    return start("llama-server", [options.llama, "--mmproj", str(directory / "mmproj.gguf"), "-c", "8192", "-np", "1", "--jinja", *on],
                 options, directory)


def ask(server, png):
    """-> seconds, tokens of the prompt"""
    body = body_of(png)
    server.process.send_signal(signal.SIGCONT)
    reply = server.ask(body)
    server.process.send_signal(signal.SIGSTOP)
    return reply.ttft_s, reply.prompt_tokens


def measure(options, directory):
    """-> [(ours, theirs)], each (seconds, tokens), of each turn"""
    with start_ours(options, directory) as server, start_llama(options, directory) as llama:
        try:
            turns = []
            for turn in range(options.turns + 1):
                png = drawing(turn, options.side, options.side)
                turns.append((ask(server, png), ask(llama, png)))
                (ours, tokens), (theirs, their_tokens) = turns[-1]
                print(f"{f'turn {turn}' if turn else 'warm-up'}: {ours:.3f} s for {tokens} tokens; llama.cpp {theirs:.3f} s for "
                      f"{their_tokens} tokens", flush=True)
            return turns[1:]
        finally:
            for one in (server, llama):
                one.process.send_signal(signal.SIGCONT)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("program", "model", "mmproj", "llama"):
        parser.add_argument(name)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--side", type=int, default=1024)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        directory = pathlib.Path(directory)
        (directory / "model.gguf").symlink_to(os.path.abspath(options.model))
        (directory / "mmproj.gguf").symlink_to(os.path.abspath(options.mmproj))
        (directory / "template.jinja").write_text(TEMPLATE)
        turns = measure(options, directory)
    ours, theirs = ([turn[who][0] for turn in turns] for who in (0, 1))
    a, b = statistics.median(ours), statistics.median(theirs)
    print(f"\n| | median of {options.turns} |\n|---|---|\n| Anabranch | {a:.3f} s |\n| llama.cpp | {b:.3f} s |\n| ratio | {b / a:.2f} |")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"device": options.device, "side": options.side, "threads": options.threads,
                                                          "ours_s": ours, "llama_cpp_s": theirs, "ratio": b / a}, indent=1) + "\n")


if __name__ == "__main__":
    main()
