#!/usr/bin/env python3
"""The CUDA backend on this machine's card: built, checked and timed, beside mlx-lm if there is one.

    python3 bench/gpu/run.py [--mlx PYTHON]

Builds the program and its tests, runs the tests of the CUDA ops, then gpu_bench: models of Qwen3.5's true shapes with
random 4-bit weights, and each kernel alone; then, with a trained hybrid, whether answers depend on how they are made
(exactness.py) and what speculation brings. With --mlx, a Python that has mlx-lm for CUDA (`pip install
"mlx-lm[cuda13]==0.32.2"`), mlx-lm runs on the same shapes in the same run, and a table compares both. --sanitize runs
NVIDIA's compute-sanitizer (memcheck, synccheck) over the tests, with fewer cases. Exit status: 0, or 1 when something
failed."""

import argparse
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MODELS = {"9b": "9B", "0.8b": "0.8B"}
WORKS = {  # as gpu_bench names them: as mlx_lm_gpu.py does
    "decode, prompt 512": "decode, prompt 512",
    "decode, prompt 4096": "decode, prompt 4096",
    "prefill 512, chunks of 512": "prefill 512",
    "prefill 4096, chunks of 4096": "prefill 4096",
}
LINE = re.compile(r"  (\S.*?)(?:: [\d.]+x of one)? +([\d.]+) tok/s")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mlx", metavar="PYTHON", help="a Python with mlx-lm for CUDA")
    parser.add_argument("--sanitize", action="store_true", help="compute-sanitizer over the tests, too")
    parser.add_argument("--models", default="9b,0.8b", help="default: %(default)s")
    parser.add_argument("--trained", metavar="DIR", default=os.path.join(ROOT, "models", "hybrid-146m"),
                        help="a trained hybrid with an MTP head; default: models/hybrid-146m")
    parser.add_argument("--binaries", metavar="DIR", help="the programs from here; nothing is built")
    return parser.parse_args()


def run(command, **kept):
    print("+", *command, flush=True)
    return subprocess.run(command, check=True, cwd=ROOT, **kept)


def build():
    run(["script/build", "--tests"])
    run(["ninja", "-C", "build", "gpu_bench"])
    return {name: os.path.join(ROOT, "build", *path, name)
            for name, path in {"anabranch": (), "gpu_bench": (), "test_ops": ("tests",)}.items()}


def in_folder(folder):
    return {name: os.path.join(os.path.abspath(folder), name) for name in ("anabranch", "gpu_bench", "test_ops")}


def ours(program, model):
    """gpu_bench's output is shown; -> name of the work: tokens a second"""
    text = run([program, model], stdout=subprocess.PIPE, text=True).stdout
    print(text, flush=True)
    return {m[1]: float(m[2]) for m in map(LINE.match, text.splitlines()) if m}


def theirs(python, model):
    out = run([python, os.path.join(ROOT, "bench", "gpu", "mlx_lm_gpu.py"), model], stdout=subprocess.PIPE, text=True)
    figures = json.loads(out.stdout.splitlines()[-1])
    print("mlx-lm, tok/s:", figures, flush=True)
    return figures


def trained(program, model):
    """Exactness, and speculation's speed-up: bench's lines, a set at a time"""
    run([sys.executable, os.path.join("bench", "gpu", "exactness.py"), program, model])
    prompts = ",".join(os.path.join("bench", "prompts", name + ".jsonl") for name in ("chat", "code", "copy"))
    run([program, "bench", "--model", model, "--device", "cuda", "--prompts", prompts, "--spec", "off,mtp,ngram,auto",
         "--temp", "0", "--tg", "128", "--reps", "2"])


def print_table(figures):
    print("| work | mlx-lm | ours | |\n|---|---|---|---|")
    for model, (mine, peer) in figures.items():
        for work, name in WORKS.items():
            if work in mine and name in peer:
                print(f"| {MODELS[model]}, {name} | {peer[name]:,.0f} tok/s | {mine[work]:,.0f} | "
                      f"{mine[work] / peer[name]:.1f}x |")
        if "1 rows" in peer and "4 rows" in peer:
            print(f"| {MODELS[model]}, 4 rows against 1, time | {4 * peer['1 rows'] / peer['4 rows']:.2f}x | "
                  f"{4 * mine['decode, prompt 512'] / mine['4 rows']:.2f}x | |")


def main():
    args = arguments()
    programs = in_folder(args.binaries) if args.binaries else build()
    tests = [programs["test_ops"], "--gtest_filter=Cuda.*", "--gtest_brief=1"]
    run(tests)
    figures = {}
    for model in args.models.split(","):
        peer = theirs(args.mlx, model) if args.mlx else {}
        figures[model] = ours(programs["gpu_bench"], model), peer
    ours(programs["gpu_bench"], "kernels")
    if args.mlx:
        print_table(figures)
    print(json.dumps({MODELS[m]: {"ours": mine, "mlx-lm": peer} for m, (mine, peer) in figures.items()}))
    trained(programs["anabranch"], os.path.abspath(args.trained))
    if args.sanitize:
        for tool in ("memcheck", "synccheck"):
            run(["compute-sanitizer", "--tool", tool, "--error-exitcode", "1", *tests],
                env={**os.environ, "ANABRANCH_FEW_CASES": "1"})


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"run.py: {error}")
