#!/usr/bin/env python3
"""Our speed beside llama.cpp's, in one run, turn by turn: A B A B ...

  python bench/peers/llama_cpp.py --llama-bench PATH [--reps 5] [--pp 512] [--tg 128] [--json OUT]
         NAME=OURS:THEIRS [NAME=OURS:THEIRS ...]

OURS: a directory or file for `anabranch bench --model`; THEIRS: a GGUF file. Each turn of each program measures every
work once, in a process of its own; the table shows medians over the turns, the spread, and the ratio. llama-bench is
run with and without flash attention and the better median counts. Both use --threads threads (default: all cores).
"""
import argparse, json, os, statistics, subprocess, sys, time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(f"failed: {' '.join(command)}\n{result.stderr[-2000:]}")
    return result.stdout


def ours(args, model):
    out = json.loads(run([args.anabranch, "bench", "--model", model, "--threads", str(args.threads), "--reps", "1",
                          "--pp", str(args.pp), "--tg", str(args.tg), "--json"]))
    speeds = {"pp" if row["work"].startswith("pp") else "tg": row["tok_s"] for row in out["results"]}
    return speeds, {"read_mb_per_token": out["read_mb_per_token"], "limits": out["limits"], "kernels": out["kernels"]}


def theirs(args, model, flash):
    lines = run([args.llama_bench, "-m", model, "-t", str(args.threads), "-p", str(args.pp), "-n", str(args.tg), "-r", "1",
                 "-fa", flash, "-o", "jsonl"]).splitlines()
    rows = [json.loads(line) for line in lines if line.startswith("{")]
    return {"pp" if row["n_prompt"] else "tg": row["avg_ts"] for row in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anabranch", default=os.path.join(ROOT, "build", "anabranch"))
    parser.add_argument("--llama-bench", required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--pp", type=int, default=512)
    parser.add_argument("--tg", type=int, default=128)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("models", nargs="+")
    args = parser.parse_args()

    pairs = []
    for entry in args.models:
        name, _, files = entry.partition("=")
        left, _, right = files.partition(":")
        if not right:
            sys.exit(f"'{entry}': NAME=OURS:THEIRS was expected")
        pairs.append((name, left, right))

    report = {"date": time.strftime("%Y-%m-%d"), "threads": args.threads, "reps": args.reps, "rows": []}
    print(f"{'model':24s} {'work':7s} {'ours':>8s} {'min - max':>17s} {'llama.cpp':>10s} {'min - max':>17s} {'ratio':>7s}")
    for name, left, right in pairs:
        mine, other, about = {"pp": [], "tg": []}, {f: {"pp": [], "tg": []} for f in ("0", "1")}, None
        for _ in range(args.reps):
            speeds, about = ours(args, left)
            for key, value in speeds.items():
                mine[key].append(value)
            for flash in other:
                for key, value in theirs(args, right, flash).items():
                    other[flash][key].append(value)
        for key, tokens in (("pp", args.pp), ("tg", args.tg)):
            flash = max(other, key=lambda f: statistics.median(other[f][key]))
            a, b = mine[key], other[flash][key]
            ratio = statistics.median(a) / statistics.median(b)
            print(f"{name:24s} {key + str(tokens):7s} {statistics.median(a):8.1f} {min(a):8.1f}-{max(a):8.1f} "
                  f"{statistics.median(b):10.1f} {min(b):8.1f}-{max(b):8.1f} {ratio:6.2f}x", flush=True)
            report["rows"].append({"model": name, "work": f"{key}{tokens}", "ours": a, "llama_cpp": b,
                                   "flash_attention": flash, "ratio": ratio, "ours_about": about})
    if args.json:
        with open(args.json, "w") as f:
            json.dump(report, f, indent=1)


if __name__ == "__main__":
    main()
