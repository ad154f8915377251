#!/usr/bin/env python3
"""What each format of `convert` costs: perplexity, and how far its predictions are from the original's.

    script/build && python3 bench/quality/quantisation.py --source ORIGINAL [--json bench/results/quantisation.json]

ORIGINAL is a model directory, as exact as there is. Every kind is written with `anabranch convert`, read with
`anabranch eval --against ORIGINAL --precise` on the text, and removed. The text is the beginning of tests/models/data/heldout.txt
(a novel), the one of calibration four pages of docs/. --kinds takes names of the table, with * and ?.

Prints a Markdown table, and writes the figures to --json after each kind; kinds that are there already, of the same source
and texts, are not measured again."""

import argparse
import fnmatch
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CALIBRATION = ["docs/api.md", "docs/speculation.md", "docs/gpu.md", "docs/scheduling.md"]

# Name, arguments of convert, whether it is calibrated.
KINDS = [(f"MLX {bits} bits, group {group}", ["--bits", str(bits), "--group", str(group)], calibrated)
         for bits, group, calibrated in [
             (8, 64, False), (6, 64, False), (5, 64, False), (4, 32, False), (4, 64, False), (4, 64, True),
             (3, 64, False), (3, 64, True), (2, 32, False), (2, 32, True)]]
KINDS += [("FP8", ["--format", "fp8"], False)]
KINDS += [(f"GGUF {name}", ["--format", flag], calibrated)
          for name, flag, calibrated in [("F16", "f16", False), ("Q8_0", "q8_0", False), ("Q4_K_M", "q4_k_m", False),
                                         ("Q4_K_M", "q4_k_m", True), ("IQ4_XS", "iq4_xs", False),
                                         ("IQ4_XS", "iq4_xs", True)]]


def title(kind):
    return kind[0] + (", calibrated" if kind[2] else "")


def size_of(path):
    files = [path] if path.is_file() else path.glob("*.safetensors")
    return sum(file.stat().st_size for file in files)


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(str(part) for part in command)}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def measure(args, kind, text, calibration, folder):
    out = pathlib.Path(folder) / ("model.gguf" if kind[0].startswith("GGUF") else "model")
    began = time.monotonic()
    run(args.binary, "convert", args.source, out, *kind[1], *(["--calibration", calibration] if kind[2] else []))
    seconds = time.monotonic() - began
    found = json.loads(run(args.binary, "eval", "-m", out, "--against", args.source, "--text", text, "--precise", "--json"))
    against = found["against"]
    return {"kind": title(kind), "mb": round(size_of(out) / 1e6, 1), "convert_s": round(seconds, 1),
            "predicted": found["predicted"], "perplexity": found["perplexity"], "original_perplexity": against["perplexity"],
            **{key: against[key] for key in ("kl_mean", "kl_p99", "kl_max", "same_top")}}


def table(rows):
    lines = ["| kind | MB | perplexity | KL mean | KL 99 % | same top token |", "|---|---|---|---|---|---|"]
    if rows:
        lines.append(f"| original | | {rows[0]['original_perplexity']:.2f} | 0 | 0 | 100 % |")
    lines += [f"| {row['kind']} | {row['mb']:.1f} | {row['perplexity']:.2f} | {row['kl_mean']:.4f} | {row['kl_p99']:.3f} | "
              f"{100 * row['same_top']:.1f} % |" for row in rows]
    return "\n".join(lines)


def digest(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()[:16]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", required=True, help="directory of the original")
    parser.add_argument("--binary", default=ROOT / "build/anabranch")
    parser.add_argument("--text", default=ROOT / "tests/models/data/heldout.txt")
    parser.add_argument("--bytes", type=int, default=24000, help="of the text, from its beginning")
    parser.add_argument("--kinds", default="*", help="names of the table, with * and ?")
    parser.add_argument("--json", help="file for the figures")
    args = parser.parse_args()
    kinds = [kind for kind in KINDS if fnmatch.fnmatch(title(kind), args.kinds)]
    if not kinds:
        parser.error(f"no such kind; there are {', '.join(title(kind) for kind in KINDS)}")
    with tempfile.TemporaryDirectory() as folder:
        calibration = pathlib.Path(folder) / "calibration.txt"
        calibration.write_text("".join((ROOT / name).read_text() for name in CALIBRATION))
        text = pathlib.Path(folder) / "text.txt"
        text.write_bytes(pathlib.Path(args.text).read_bytes()[:args.bytes])
        setting = {"source": pathlib.Path(args.source).resolve().name, "text": pathlib.Path(args.text).name,
                   "text_sha256": digest(text), "calibration": CALIBRATION, "calibration_sha256": digest(calibration)}
        known = {}
        if args.json and pathlib.Path(args.json).exists():
            before = json.loads(pathlib.Path(args.json).read_text())
            if {key: before.get(key) for key in setting} == setting:
                known = {row["kind"]: row for row in before["rows"]}
        for kind in kinds:
            if title(kind) not in known:
                print(f"{title(kind)} ...", file=sys.stderr, flush=True)
                with tempfile.TemporaryDirectory(dir=folder) as place:
                    known[title(kind)] = measure(args, kind, text, calibration, place)
            rows = [known[title(each)] for each in KINDS if title(each) in known]
            if args.json:
                pathlib.Path(args.json).write_text(json.dumps({**setting, "rows": rows}, indent=1) + "\n")
    print(table([known[title(kind)] for kind in kinds]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
